// Categories: events at keyed times, each a fresh draw (noise/_refresh.py).
//
//     T_k = E_1 + ... + E_k,  E_k = -log u_k,  R_k ~ pi
//     copy at q  =  X if -ln q < T_1, else R_k for the last T_k <= -ln q
//
// Times are compared as 2 T_k <= ln(1 + v). The words of an event, two for each row, come masked
// from the cipher: the first gives E_k, the second R_k.

#include "border.hpp"
#include "strict.hpp"

namespace cornerwave {

constexpr i64 TILE_EVENTS = 1024;

// The cipher's blocks of some rows, ascending: each id with its value, its high half xor the code.
static void fill_value_blocks(const Matrix<const u64> &ids, const Vector<const i32> &codes,
                              const Vector<const i64> &rows, const Vector<const u64> &masks,
                              const Matrix<u64> &out) {
  const i64 count = size_of(rows);
  require(ids.shape(1) == 2 && out.shape(1) == 2 && size_of(ids) == size_of(codes),
          "each row has an id of two words, and a code");
  require(size_of(out) == count && size_of(masks) >= 2 * count, "each row has a block and a mask");
  require_places(rows, size_of(codes));
  const u64 *__restrict id = ids.data(), *__restrict mask = masks.data();
  const i32 *__restrict code = codes.data();
  const i64 *__restrict which = rows.data();
  u64 *__restrict block = out.data();
  if (count && which[count - 1] - which[0] == count - 1) { // ascending: these are all between
    id += 2 * which[0], code += which[0];
    for (i64 row = 0; row < count; row++) {
      block[2 * row] = id[2 * row] ^ mask[2 * row];
      block[2 * row + 1] = id[2 * row + 1] ^ static_cast<u64>(code[row]) ^ mask[2 * row + 1];
    }
    return;
  }
  for (i64 index = 0; index < count; index++) {
    const i64 row = which[index];
    block[2 * index] = id[2 * row] ^ mask[2 * index];
    block[2 * index + 1] = id[2 * row + 1] ^ static_cast<u64>(code[row]) ^ mask[2 * index + 1];
  }
}

// The first category whose bound lies above a word; the last one takes the rest. `guide` has
// 2^k + 1 entries; the top k bits of a word are its share.
struct Draws {
  const u64 *bounds;
  const i32 *guide;
  u64 shares;

  i32 operator()(u64 word) const {
    const u64 share = (word >> 32) * shares >> 32;
    i32 low = guide[share], high = guide[share + 1];
    while (low < high) {
      const i32 middle = (low + high) / 2;
      if (word < bounds[middle])
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
};

// Let an event happen to some rows; `times` state when their last one was, if they had one. Those
// that may have another go to `staying`, with the time of this one; return how many there are.
static i64 apply_events(const Vector<const u64> &words, const Vector<const u64> &masks,
                        const Vector<const i64> &rows, const Vector<const double> &times,
                        const Vector<const u64> &bounds, const Vector<const i32> &guide,
                        const Vector<const double> &horizons, const Matrix<i32> &out,
                        const Vector<i64> &staying, const Vector<double> &since) {
  const i64 count = size_of(rows), levels = size_of(horizons);
  require(size_of(words) == 2 * count && size_of(masks) >= 2 * count, "a row has two words");
  require(size_of(times) == 0 || size_of(times) == count, "all rows had an event, or none");
  require(size_of(staying) >= count && size_of(since) >= count, "all rows may stay");
  require(size_of(out) == levels && levels > 0, "there is a horizon for each level");
  require(size_of(guide) > 1 && size_of(bounds) > 0, "there is a category to draw");
  require_places(guide, size_of(bounds));
  require_places(rows, size_of(out, 1));
  const Rows<i32> copies(out);
  const Draws draw{bounds.data(), guide.data(), static_cast<u64>(size_of(guide) - 1)};
  const double *horizon = horizons.data(), latest = *std::max_element(horizon, horizon + levels);
  // most first events come too late: no logarithm is needed to see that
  const double late = exp_of(-0.5 * latest) * (1.0 - 1e-9);
  i64 stay = 0;
  i32 early[TILE_EVENTS];
  double unit[TILE_EVENTS];
  for (i64 first = 0; first < count; first += TILE_EVENTS) {
    const i64 size = std::min(TILE_EVENTS, count - first);
    const u64 *__restrict word = words.data() + 2 * first, *__restrict mask = masks.data() + 2 * first;
    i64 chosen = 0; // without a branch
    for (i32 index = 0; index < size; index++) {
      const double u = unit_of(word[2 * index] ^ mask[2 * index]);
      early[chosen] = index, unit[chosen] = u;
      chosen += u >= late;
    }
    for (i64 place = 0; place < chosen; place++) unit[place] = minus_2_log(unit[place]);
    for (i64 place = 0; place < chosen; place++) {
      const i64 index = early[place], row = rows.data()[first + index];
      const double time =
          size_of(times) ? times.data()[first + index] + unit[place] : unit[place];
      const i32 drawn = draw(word[2 * index + 1] ^ mask[2 * index + 1]);
      for (i64 level = 0; level < levels; level++)
        copies(level, row) = time <= horizon[level] ? drawn : copies(level, row);
      staying.data()[stay] = row, since.data()[stay] = time;
      stay += time <= latest;
    }
  }
  return stay;
}

static double log_1p(double noise) { return -0.5 * minus_2_log(1.0 + noise); }

void bind_refresh(nb::module_ &module) {
  bind(module, "fill_value_blocks", fill_value_blocks, "ids", "codes", "rows", "masks", "out");
  bind(module, "apply_events", apply_events, "words", "masks", "rows", "times", "bounds", "guide",
       "horizons", "out", "staying", "since");
  bind(module, "log_1p", log_1p, "noise");
}

} // namespace cornerwave
