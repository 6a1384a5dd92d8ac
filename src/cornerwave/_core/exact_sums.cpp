// Exact sums of a table's values and of their products, and the ends of its columns (moments.py).
//
//     x = sum over d of digit_d 2^(22 (top - d)),   |digit| <= 2^21,  d = 0..2
//
// Products of digits are whole numbers up to 2^42, and sums of them over a tile of 2^11 rows are
// exact doubles. Tiles add up as integers.

#include "border.hpp"
#include "exact_products.hpp"
#include "strict.hpp"

#include <limits>
#include <vector>

namespace cornerwave {

constexpr double BASE = 4194304.0; // 2^22
constexpr i64 DIGITS = 3, MOST_TILE_ROWS = 1 << 11, LEAST_TILE_ROWS = 512, TILE_CELLS = 24576;

// A tile has few enough digits for the nearest caches, but at least so many rows, in whole vectors.
static i64 tile_rows_of(i64 size) {
  const i64 rows = TILE_CELLS / std::max<i64>(size, 1) / LANES * LANES;
  return std::min(MOST_TILE_ROWS, std::max(LEAST_TILE_ROWS, rows));
}

// Fill in three digits of each value, 0 for one that is missing; say which places are not all 0.
static void cut_column(const double *__restrict values, double unit, i64 rows,
                       double *__restrict one, double *__restrict two, double *__restrict three,
                       bool &ones, bool &twos, bool &threes) {
  u64 any_one = 0, any_two = 0, any_three = 0;
  for (i64 row = 0; row < rows; row++) {
    const double x = values[row], here = (x == x ? x : 0.0) * unit;
    const double high = std::rint(here), below = (here - high) * BASE;
    const double middle = std::rint(below), low = std::rint((below - middle) * BASE);
    one[row] = high, two[row] = middle, three[row] = low;
    any_one |= bits_of(high), any_two |= bits_of(middle), any_three |= bits_of(low);
  }
  ones = any_one << 1, twos = any_two << 1, threes = any_three << 1; // a 0 may have a sign
}

// Add the exact Gram matrix of all digits, in its lower triangle, and their sums. With gaps, further
// rows state which values are present.
static void add_digit_products(const Matrix<const double> &columns, const Vector<const double> &unit,
                               bool gaps, const Matrix<i64> &total, const Vector<i64> &sums) {
  const Rows<const double> values(columns);
  const i64 number = values.count, size = (gaps ? DIGITS + 1 : DIGITS) * number;
  require(size_of(unit) == number && size_of(sums) == size && size_of(total, 0) == size &&
              size_of(total, 1) == size,
          "there is a unit for each column, and a sum for each digit");
  const i64 most = tile_rows_of(size);
  std::vector<double> tile(size * most, 0.0), zeros(most, 0.0);
  std::vector<i64> some;
  some.reserve(size);
  std::vector<char> used(size, 1);
  for (i64 start = 0; start < values.size; start += most) {
    const i64 rows = std::min(most, values.size - start), padded = (rows + LANES - 1) / LANES * LANES;
    for (i64 i = 0; i < number; i++) {
      const double *__restrict column = values[i] + start;
      double *digits[DIGITS] = {&tile[i * most], &tile[(number + i) * most],
                                &tile[(2 * number + i) * most]};
      bool any[DIGITS];
      cut_column(column, unit.data()[i], rows, digits[0], digits[1], digits[2], any[0], any[1],
                 any[2]);
      for (i64 d = 0; d < DIGITS; d++) {
        used[d * number + i] = any[d];
        std::fill(digits[d] + rows, digits[d] + padded, 0.0);
      }
      if (gaps) {
        double *__restrict present = &tile[(DIGITS * number + i) * most];
        for (i64 row = 0; row < rows; row++) present[row] = column[row] == column[row] ? 1.0 : 0.0;
        std::fill(present + rows, present + padded, 0.0);
      }
    }
    // most tables are whole numbers, or decimals, of few digits: the others are all zero
    some.clear();
    for (i64 place = 0; place < size; place++)
      if (used[place]) some.push_back(place);
    const i64 count = static_cast<i64>(some.size());
    add_products(tile.data(), most, some.data(), count, padded, zeros.data(), total.data(), size);
    for (i64 place : some) {
      const double *__restrict digits = &tile[place * most];
      u64 sum = static_cast<u64>(sums.data()[place]); // unsigned: nothing sound overflows
      for (i64 row = 0; row < rows; row++) sum += static_cast<u64>(static_cast<i64>(digits[row]));
      sums.data()[place] = static_cast<i64>(sum);
    }
  }
}

// ------------------------------------------------------------------------------------------------

constexpr i64 NO_END = std::numeric_limits<i64>::max(), INFINITE = 0x7FF0000000000000;

inline double value_of(i64 rank) {
  return float_of(static_cast<u64>(rank ^ ((rank >> 63) & NO_END)));
}

// Fill in the least and the largest value of each column, inf and -inf if it has none; return
// whether one is missing.
static bool find_ends(const Matrix<const double> &columns, const Vector<double> &lowest,
                      const Vector<double> &highest) {
  const Rows<const double> values(columns);
  require(size_of(lowest) == values.count && size_of(highest) == values.count,
          "each column has two ends");
  i64 gaps = 0;
  for (i64 i = 0; i < values.count; i++) {
    const double *__restrict column = values[i];
    i64 low = NO_END, high = NO_END, any_missing = 0;
    for (i64 row = 0; row < values.size; row++) {
      // Whole numbers that rise with x, NO_END for NaN: vector units find the least of whole
      // numbers; that of floats, some missing, they do not.
      const i64 bits = static_cast<i64>(bits_of(column[row] + 0.0)); // one 0, not two
      const i64 missing = (INFINITE - (bits & NO_END)) >> 63;        // all ones, or 0
      const i64 rank = bits ^ ((bits >> 63) & NO_END);
      low = std::min(low, (rank & ~missing) | (missing & NO_END));
      high = std::min(high, (~rank & ~missing) | (missing & NO_END));
      any_missing |= missing;
    }
    lowest.data()[i] = low == NO_END ? std::numeric_limits<double>::infinity() : value_of(low);
    highest.data()[i] = high == NO_END ? -std::numeric_limits<double>::infinity() : value_of(~high);
    gaps |= any_missing;
  }
  return gaps != 0;
}

void bind_exact_sums(nb::module_ &module) {
  bind(module, "add_digit_products", add_digit_products, "columns", "unit", "gaps", "total", "sums");
  bind(module, "find_ends", find_ends, "columns", "lowest", "highest");
}

} // namespace cornerwave
