// What the audit looks for in every row: noise that came twice, and noise that is a sum of others'.
//
//     cell of a step   rint((noise - noise before) / size), known by a hash; a vector and its
//                      negative share one                                        (audit/_repeats.py)
//     sums             cells of z_i +- z_j among those of sqrt 2 z_k         (audit/_single_rows.py)

#include "border.hpp"
#include "strict.hpp"

#include <vector>

namespace cornerwave {

// Fill in the cells of a step (columns, run), and the sign of the first of a row that is not 0.
static void fill_cells(const double *rows, i64 run, i64 here, i64 before,
                       const Vector<const double> &cell, double *cells, double *__restrict signs,
                       i64 *still) {
  std::fill(signs, signs + run, 0.0);
  for (i64 column = 0; column < size_of(cell); column++) {
    const double *__restrict noise = rows + (here + column) * run;
    const double *__restrict last = rows + (before + column) * run;
    double *__restrict own = cells + column * run;
    const double size = cell.data()[column];
    if (before) {
      for (i64 row = 0; row < run; row++) own[row] = std::rint((noise[row] - last[row]) / size);
    } else {
      for (i64 row = 0; row < run; row++) own[row] = std::rint(noise[row] / size);
    }
    i64 zeros = 0;
    for (i64 row = 0; row < run; row++) {
      const double sign = own[row] > 0 ? 1.0 : own[row] < 0 ? -1.0 : 0.0;
      signs[row] = signs[row] == 0 ? sign : signs[row];
      zeros += own[row] == 0;
    }
    add_to(still[column], zeros);
  }
}

// Fill in a 64-bit hash of each row's cells times its sign: splitmix64.
static void hash_cells(const double *cells, i64 columns, i64 run, const double *__restrict signs,
                       u64 *__restrict found) {
  std::fill(found, found + run, u64{0});
  for (i64 column = 0; column < columns; column++) {
    const double *__restrict own = cells + column * run;
    for (i64 row = 0; row < run; row++) {
      // in this order NaN is the least: as an integer it would be another on another processor
      const double whole = std::min(std::max(-0x1p62, own[row] * signs[row]), 0x1p62);
      u64 word = (found[row] ^ static_cast<u64>(static_cast<i64>(whole))) + 0x9E3779B97F4A7C15;
      word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
      word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
      found[row] = word ^ (word >> 31);
    }
  }
}

// Fill out with the hashes of rows' cells up to `last`. stacked: (groups, parts, run), its last part
// 0 for padding; the noise begins at part `here`, that before it at `before`, 0 for none. Count in
// `still` the cells that are 0; fill counts with how many rows have no other, and how many hashes.
static void fill_cell_hashes(const Cube<const double> &stacked, i64 here, i64 before,
                             const Vector<const double> &cell, u64 last, const Vector<i64> &still,
                             const Vector<u64> &out, const Vector<i64> &counts) {
  const i64 groups = size_of(stacked, 0), parts = size_of(stacked, 1), run = size_of(stacked, 2);
  const i64 columns = size_of(cell);
  require(parts > 0, "the last part states what is padding");
  require_part(here, columns, parts, "the noise lies within the parts");
  require_part(before, columns, parts, "the noise before lies within the parts");
  require(size_of(still) == columns && size_of(out) == groups * run && size_of(counts) == 2,
          "each column has a count, and each row a hash");
  std::vector<double> cells(columns * run), signs(run);
  std::vector<u64> found(run);
  i64 bare = 0, kept = 0, padding = 0;
  for (i64 group = 0; group < groups; group++) {
    const double *rows = stacked.data() + group * parts * run;
    const double *there = rows + (parts - 1) * run;
    fill_cells(rows, run, here, before, cell, cells.data(), signs.data(), still.data());
    hash_cells(cells.data(), columns, run, signs.data(), found.data());
    for (i64 row = 0; row < run; row++) {
      padding += there[row] == 0; // its cells are all 0
      bare += signs[row] == 0;
    }
    for (i64 row = 0; row < run; row++)
      if (found[row] <= last && signs[row] != 0) out.data()[kept++] = found[row];
  }
  for (i64 column = 0; column < columns; column++) add_to(still.data()[column], -padding);
  counts.data()[0] = bare - padding;
  counts.data()[1] = kept;
}

// ------------------------------------------------------------------------------------------------

constexpr u64 ODD = 0x9E3779B97F4A7C15;
constexpr int TABLE_BITS = 20; // most sums are told from those wanted by so many bits

// Add the cells of one +- each value along an axis to their words. A double beyond 2^52 is a whole
// number in its last bits.
static void add_cells(const double *__restrict values, double one, double sign, u64 factor, i64 size,
                      u64 *__restrict words) {
  for (i64 j = 0; j < size; j++)
    words[j] += (bits_of((one + sign * values[j]) + 0x1.8p52) - 0x4338000000000000) * factor;
}

// Make each word the lesser of itself and its negative, and fill in its place in the table.
static void fill_places(u64 *__restrict words, i64 size, std::uint32_t *__restrict places) {
  for (i64 j = 0; j < size; j++) {
    words[j] = std::min(words[j], 0 - words[j]);
    places[j] = static_cast<std::uint32_t>((words[j] * ODD) >> (64 - TABLE_BITS));
  }
}

// Return how many sums and differences of two rows, z (axes, rows) in cells, are sqrt 2 of a third.
// Cells are known by a sum of whole numbers modulo 2^64, whose negative is that of the negatives.
static i64 count_sums(const Matrix<const double> &z) {
  const Rows<const double> values(z);
  const i64 rows = values.size;
  std::vector<u64> factors(values.count, ODD), wanted(rows, 0), words(rows);
  for (i64 axis = 1; axis < values.count; axis++) factors[axis] = factors[axis - 1] * ODD;
  std::vector<double> scaled(rows);
  for (i64 axis = 0; axis < values.count; axis++) {
    for (i64 row = 0; row < rows; row++) scaled[row] = std::sqrt(2.0) * values(axis, row);
    add_cells(scaled.data(), 0.0, 1.0, factors[axis], rows, wanted.data());
  }
  std::vector<char> table(1 << TABLE_BITS, 0);
  std::vector<std::uint32_t> places(rows);
  fill_places(wanted.data(), rows, places.data());
  for (std::uint32_t place : places) table[place] = 1;
  std::sort(wanted.begin(), wanted.end());
  i64 found = 0;
  for (i64 i = 1; i < rows; i++)
    for (double sign : {1.0, -1.0}) {
      std::fill(words.begin(), words.begin() + i, u64{0});
      for (i64 axis = 0; axis < values.count; axis++)
        add_cells(values[axis], values(axis, i), sign, factors[axis], i, words.data());
      fill_places(words.data(), i, places.data());
      for (i64 j = 0; j < i; j++)
        if (table[places[j]]) found += std::binary_search(wanted.begin(), wanted.end(), words[j]);
    }
  return found;
}

void bind_row_checks(nb::module_ &module) {
  bind(module, "fill_cell_hashes", fill_cell_hashes, "stacked", "here", "before", "cell", "last",
       "still", "out", "counts");
  bind(module, "count_sums", count_sums, "z");
}

} // namespace cornerwave
