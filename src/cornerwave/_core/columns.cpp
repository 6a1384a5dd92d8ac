// Columns as numbers: one bit pattern for each, codes by first appearance, and scales (columns/).
//
//     log1p   t = log(1 + x)                        back: x = exp(t) - 1
//     rank    t = normal score of x's rank          back: the quantile function

#include "border.hpp"
#include "strict.hpp"

#include <limits>

namespace cornerwave {

constexpr double NAN_ = std::numeric_limits<double>::quiet_NaN();

// Give one bit pattern to 0.0 and -0.0, and one to all NaNs; return whether a value is infinite.
static bool settle_floats(const Vector<const double> &values, const Vector<double> &out) {
  require(size_of(values) == size_of(out), "each value has a place");
  const double *__restrict from = values.data();
  double *__restrict to = out.data();
  const i64 rows = size_of(values);
  u64 infinite = 0;
  for (i64 row = 0; row < rows; row++) {
    const double x = from[row] + 0.0;
    infinite += std::abs(x) == std::numeric_limits<double>::infinity();
    to[row] = x == x ? x : NAN_;
  }
  return infinite > 0;
}

// Number values[codes] by their first appearance in `places`, a negative one as it is; list which
// occur; return how many. The last value is that of code -1.
static i64 number_by_appearance(const Vector<const i64> &values, const Vector<const i32> &codes,
                                const Vector<i32> &numbers, const Vector<i64> &occurring,
                                const Vector<i32> &places) {
  const i64 known = size_of(values), distinct = size_of(numbers);
  require(size_of(occurring) == distinct && size_of(places) == size_of(codes) && known > 0,
          "each row has a place");
  require_places(codes, known, -1);
  require_places(values, distinct, -1);
  const i64 rows = size_of(codes), *last = values.data() + known - 1;
  i64 count = 0;
  for (i64 row = 0; row < rows; row++) {
    const i64 code = codes.data()[row], value = code < 0 ? *last : values.data()[code];
    if (value < 0) {
      places.data()[row] = static_cast<i32>(value);
      continue;
    }
    i32 &number = numbers.data()[value];
    if (number < 0) {
      number = static_cast<i32>(count);
      occurring.data()[count++] = value;
    }
    places.data()[row] = number;
  }
  return count;
}

// ------------------------------------------------------------------------------------------------
// Scales. NaN stays.

static void fill_log1p(const Vector<const double> &x, const Vector<double> &out) {
  require(size_of(x) == size_of(out), "each value has a place");
  const double *__restrict from = x.data();
  double *__restrict to = out.data();
  const i64 rows = size_of(x);
  for (i64 i = 0; i < rows; i++) // minus_2_log takes no NaN
    to[i] = from[i] == from[i] ? -0.5 * minus_2_log(1.0 + from[i]) : from[i];
}

static void fill_minus_log(const Vector<const double> &u, const Vector<double> &out) {
  require(size_of(u) == size_of(out), "each value has a place");
  const double *__restrict from = u.data();
  double *__restrict to = out.data();
  const i64 rows = size_of(u);
  for (i64 i = 0; i < rows; i++) to[i] = 0.5 * minus_2_log(from[i]);
}

static void fill_expm1(const Vector<const double> &t, const Vector<double> &out) {
  require(size_of(t) == size_of(out), "each value has a place");
  const double *__restrict from = t.data();
  double *__restrict to = out.data();
  const i64 rows = size_of(t);
  for (i64 i = 0; i < rows; i++)
    to[i] = from[i] == from[i] ? exp_of(from[i]) - 1.0 : from[i];
}

// The last place of an ascending list that is not above x; the first if all are.
static i64 place_of(double x, const double *ascending, i64 end) {
  i64 low = 0, high = end;
  while (high - low > 1) {
    const i64 middle = (low + high) / 2;
    if (x < ascending[middle])
      high = middle;
    else
      low = middle;
  }
  return low;
}

// Fill out with the scores of x: `first` and `count` are the knots that a value spans, of which
// `draws` choose one; values from `lowest` down and from `highest` up are in the outermost shares.
static void fill_rank_scores(const Vector<const double> &x, const Vector<const double> &draws,
                             const Vector<const double> &distinct, const Vector<const i64> &first,
                             const Vector<const i64> &count, const Vector<const double> &scores,
                             double lowest, double highest, const Vector<double> &out) {
  const i64 size = size_of(distinct), last = size - 1;
  require(size_of(draws) == size_of(x) && size_of(out) == size_of(x), "each value has a draw");
  require(size > 0 && size_of(first) == size && size_of(count) == size && size_of(scores) > 1,
          "each distinct value spans some of two or more knots");
  const double *knot = distinct.data(), *score = scores.data();
  const double end = static_cast<double>(size_of(scores)) - 1.0;
  const double low_end = std::max(lowest, knot[0]), high_end = std::min(highest, knot[last]);
  for (i64 i = 0; i < size_of(x); i++) {
    const double value = x.data()[i];
    if (value != value) {
      out.data()[i] = value;
      continue;
    }
    const i64 low = place_of(value, knot, size);
    const double begin = static_cast<double>(first.data()[low]);
    const double spanned = static_cast<double>(count.data()[low]);
    double place;
    if (value == knot[low] && spanned > 1)
      place = begin - 0.5 + draws.data()[i] * spanned;
    else if (value <= low_end)
      place = 0.0;
    else if (value >= high_end)
      place = end;
    else
      place = begin + spanned - 1.0 + (value - knot[low]) / (knot[std::min(low + 1, last)] - knot[low]);
    place = place > 0.0 ? std::min(place, end) : 0.0; // NaN is 0, too
    const i64 below = std::min(static_cast<i64>(place), size_of(scores) - 2);
    out.data()[i] =
        score[below] + (place - static_cast<double>(below)) * (score[below + 1] - score[below]);
  }
}

// Fill out with the line through (at, values) at x; flat beyond its ends.
static void fill_interpolated(const Vector<const double> &x, const Vector<const double> &at,
                              const Vector<const double> &values, const Vector<double> &out) {
  const i64 last = size_of(at) - 1;
  require(size_of(x) == size_of(out), "each value has a place");
  require(last >= 0 && size_of(values) == last + 1, "each knot has a value");
  const double *knot = at.data(), *value = values.data();
  for (i64 i = 0; i < size_of(x); i++) {
    const double here = x.data()[i];
    double &to = out.data()[i];
    if (here != here)
      to = here;
    else if (here <= knot[0])
      to = value[0];
    else if (!(here < knot[last])) // a knot may be NaN
      to = value[last];
    else {
      const i64 low = place_of(here, knot, last);
      const double share = (here - knot[low]) / (knot[low + 1] - knot[low]);
      to = value[low] + share * (value[low + 1] - value[low]);
    }
  }
}

void bind_columns(nb::module_ &module) {
  bind(module, "settle_floats", settle_floats, "values", "out");
  bind(module, "number_by_appearance", number_by_appearance, "values", "codes", "numbers",
       "occurring", "places");
  bind(module, "fill_log1p", fill_log1p, "x", "out");
  bind(module, "fill_minus_log", fill_minus_log, "u", "out");
  bind(module, "fill_expm1", fill_expm1, "t", "out");
  bind(module, "fill_rank_scores", fill_rank_scores, "x", "draws", "distinct", "first", "count",
       "scores", "lowest", "highest", "out");
  bind(module, "fill_interpolated", fill_interpolated, "x", "at", "values", "out");
}

} // namespace cornerwave
