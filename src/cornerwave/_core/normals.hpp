// White noise of a tile of rows, from random words (noise format 1, Box and Muller).
//
//     z_0 = sqrt(-2 log u) cos a,   z_1 = sqrt(-2 log u) sin a      u, a from two words of a pair
//
// A block has a pair of words for each row and each two columns, pair of columns after pair. The
// words come masked from the cipher (keyed/_cipher.py). Each step is a loop of its own: in one
// loop they would wait for each other.

#pragma once

#include "border.hpp"
#include "strict.hpp"

namespace cornerwave {

constexpr i64 TILE_ROWS = 1024; // few enough for the fastest cache

// Unmask both words of each row: the squared radius, and the angle's word. Both in one loop:
// alone, every second word would be gathered one by one.
inline void fill_squares(const u64 *__restrict words, const u64 *__restrict masks, i64 rows,
                         double *__restrict squares, u64 *__restrict angles) {
  for (i64 row = 0; row < rows; row++) {
    squares[row] = minus_2_log(unit_of(words[2 * row] ^ masks[2 * row]));
    angles[row] = words[2 * row + 1] ^ masks[2 * row + 1];
  }
}

inline void turn_both(const u64 *__restrict angles, i64 rows, double *__restrict first,
                      double *__restrict second) {
  for (i64 row = 0; row < rows; row++) {
    double cosine, sine;
    cos_sin_of(angles[row], cosine, sine);
    const double radius = std::sqrt(first[row]);
    first[row] = radius * cosine;
    second[row] = radius * sine;
  }
}

inline void turn_alone(const u64 *__restrict angles, i64 rows, double *__restrict out) {
  for (i64 row = 0; row < rows; row++) out[row] = std::sqrt(out[row]) * sine_of(angles[row]);
}

// Fill out[column][0 .. rows) with the normals of rows first, first + 1, ... of a block.
template <class ColumnOf>
void fill_normals_of_tile(const u64 *words, const u64 *masks, i64 block_rows, i64 columns, i64 first,
                          i64 rows, ColumnOf out) {
  u64 angles[TILE_ROWS];
  for (i64 column = 0; column < columns; column += 2) {
    const i64 begin = column * block_rows + 2 * first;
    fill_squares(words + begin, masks + begin, rows, out(column), angles);
    if (column + 1 < columns)
      turn_both(angles, rows, out(column), out(column + 1));
    else
      turn_alone(angles, rows, out(column));
  }
}

// How many words a block of normals is made of.
inline i64 words_of(i64 columns, i64 rows) { return 2 * ((columns + 1) / 2) * rows; }

} // namespace cornerwave
