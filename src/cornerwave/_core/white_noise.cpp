// From row ids to the cipher's blocks, and from its words to the path in white noise.
//
//     block of (row, pair)   = row id xor pair in its high half, masked
//     U(v) = weight_below U(a) + weight_above U(b) + weight_fresh z
//
// with a, b the nearest levels below and above that were read before (noise/_stream.py).

#include "normals.hpp"

namespace cornerwave {

static void fill_positions(u64 start, const Matrix<u64> &out) {
  require(out.shape(1) == 2, "ids have two words each");
  u64 *ids = out.data();
  for (i64 row = 0; row < size_of(out); row++) {
    ids[2 * row] = start + static_cast<u64>(row);
    ids[2 * row + 1] = 0;
  }
}

static void fill_cell_ids(const Matrix<const u64> &ids, const Vector<const u64> &masks,
                          const Matrix<u64> &out) {
  const i64 rows = size_of(ids), cells = size_of(out);
  require(ids.shape(1) == 2 && out.shape(1) == 2, "ids have two words each");
  require(rows > 0 ? cells % rows == 0 : cells == 0, "cells are whole pairs of columns of all rows");
  require(size_of(masks) >= 2 * cells, "there is a mask for each cell");
  const u64 *__restrict id = ids.data();
  for (i64 pair = 0; pair * rows < cells; pair++) {
    const u64 *__restrict mask = masks.data() + 2 * pair * rows;
    u64 *__restrict cell = out.data() + 2 * pair * rows;
    for (i64 row = 0; row < rows; row++) {
      cell[2 * row] = id[2 * row] ^ mask[2 * row];
      cell[2 * row + 1] = id[2 * row + 1] ^ static_cast<u64>(pair) ^ mask[2 * row + 1];
    }
  }
}

static void require_words(const Vector<const u64> &words, const Vector<const u64> &masks,
                          const Matrix<double> &out) {
  const i64 needed = words_of(size_of(out, 0), size_of(out, 1));
  require(size_of(words) >= needed && size_of(masks) >= needed,
          "there are two words and masks for each row and pair of columns");
}

static void fill_normals(const Vector<const u64> &words, const Vector<const u64> &masks,
                         const Matrix<double> &out) {
  require_words(words, masks, out);
  const Rows<double> normals(out);
  for (i64 first = 0; first < normals.size; first += TILE_ROWS)
    fill_normals_of_tile(words.data(), masks.data(), normals.size, normals.count, first,
                         std::min(TILE_ROWS, normals.size - first),
                         [&](i64 column) { return normals[column] + first; });
}

// Replace fresh noise in `out` by the weighted sum of it and two others.
static void combine(double weight_below, const double *__restrict below, double weight_above,
                    const double *__restrict above, double weight_fresh, i64 rows,
                    double *__restrict out) {
  if (weight_above == 0.0) {
    for (i64 row = 0; row < rows; row++)
      out[row] = weight_below * below[row] + weight_fresh * out[row];
  } else {
    for (i64 row = 0; row < rows; row++)
      out[row] = weight_below * below[row] + weight_above * above[row] + weight_fresh * out[row];
  }
}

static void fill_level(double weight_below, const Matrix<const double> &below, double weight_above,
                       const Matrix<const double> &above, double weight_fresh,
                       const Vector<const u64> &words, const Vector<const u64> &masks,
                       const Matrix<double> &out) {
  require_words(words, masks, out);
  const Rows<double> level(out);
  const Rows<const double> low(below), high(above);
  require(low.count == level.count && low.size == level.size && high.count == level.count &&
              high.size == level.size,
          "all levels have one shape");
  for (i64 first = 0; first < level.size; first += TILE_ROWS) {
    const i64 rows = std::min(TILE_ROWS, level.size - first);
    fill_normals_of_tile(words.data(), masks.data(), level.size, level.count, first, rows,
                         [&](i64 column) { return level[column] + first; });
    for (i64 i = 0; i < level.count; i++)
      combine(weight_below, low[i] + first, weight_above, high[i] + first, weight_fresh, rows,
              level[i] + first);
  }
}

void bind_white_noise(nb::module_ &module) {
  bind(module, "fill_positions", fill_positions, "start", "out");
  bind(module, "fill_cell_ids", fill_cell_ids, "ids", "masks", "out");
  bind(module, "fill_normals", fill_normals, "words", "masks", "out");
  bind(module, "fill_level", fill_level, "weight_below", "below", "weight_above", "above",
       "weight_fresh", "words", "masks", "out");
}

} // namespace cornerwave
