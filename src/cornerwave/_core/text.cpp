// Numbers as text and text as numbers: CSV in and out, digits of keys, pseudonyms.
//
// A double is the shortest decimal that is read back as the same one; only below 1e-6 and from 1e15
// on it has an exponent.

#include "decimals.hpp"

#include <nanobind/stl/pair.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace cornerwave {

// ------------------------------------------------------------------------------------------------
// Rows as CSV. A tile of numbers goes through one step after the other: digits, letters, text.

constexpr i64 LONGEST = 25; // letters of -0.0000012345678901234567
constexpr i64 SPARE = 32;   // bytes after its end that writing a cell may touch
constexpr i64 CSV_TILE = 1024;

enum Sort : u8 { FINITE, ZERO, INFINITE, MISSING };

// What is written beside the letters of a number's last 16 digits: all before them.
struct Head {
  i32 whole; // digits before the point
  u8 first;  // the first of 17 digits, as a letter
  bool negative;
  Sort sort;
};

// Fill in 17 digits of each double: the first in its head, 8 more, the last 8.
static void fill_digits(const double *values, i64 rows, const Rows<const u64> &powers,
                        u64 *__restrict upper, u64 *__restrict lower, Head *__restrict heads) {
  for (i64 row = 0; row < rows; row++) {
    const u64 signed_bits = bits_of(values[row]), bits = signed_bits & ~SIGN;
    upper[row] = lower[row] = 0;
    heads[row] = {0, '0', signed_bits != bits, FINITE};
    if (bits == 0 || bits >= bits_of(std::numeric_limits<double>::infinity())) {
      heads[row].sort = bits == 0 ? ZERO : values[row] == values[row] ? INFINITE : MISSING;
      continue;
    }
    const Decimal found = shortest(bits, powers);
    const i64 count = std::min<i64>(count_digits(found.digits), 17);
    const u64 digits = found.digits * TENS[17 - count], first = digits / TENS[16];
    const u64 rest = digits - first * TENS[16], middle = rest / TENS[8];
    upper[row] = middle, lower[row] = rest - middle * TENS[8];
    heads[row].whole = static_cast<i32>(count + found.power);
    heads[row].first = static_cast<u8>('0' + first);
  }
}

static void fill_letters(u64 *__restrict digits, i64 rows) { // a loop of its own, for vector units
  for (i64 row = 0; row < rows; row++) digits[row] = eight_digits(digits[row]);
}

inline void put_digits(char *at, u8 first, u64 upper, u64 lower) {
  *at = static_cast<char>(first);
  std::memcpy(at + 1, &upper, 8);
  std::memcpy(at + 9, &lower, 8);
}

static char *put_exponent(char *at, i64 exponent) {
  *at++ = 'e';
  *at++ = exponent < 0 ? '-' : '+';
  return std::to_chars(at, at + 3, std::abs(exponent)).ptr;
}

// Write a double; return where it ends. NaN is written as nothing.
static char *put_number(char *at, const Head &head, u64 upper, u64 lower) {
  if (head.sort == MISSING) return at;
  *at = '-';
  at += head.negative;
  if (head.sort != FINITE) {
    std::memcpy(at, head.sort == ZERO ? "0  " : "inf", 3);
    return at + (head.sort == ZERO ? 1 : 3);
  }
  const i64 zeros = lower != EIGHT_ZEROS ? __builtin_clzll(lower ^ EIGHT_ZEROS)
                    : upper != EIGHT_ZEROS ? 64 + __builtin_clzll(upper ^ EIGHT_ZEROS)
                                           : 128;
  const i64 used = 17 - zeros / 8, whole = head.whole;
  if (-6 < whole && whole <= 0) {
    std::memcpy(at, "0.000000", 8);
    put_digits(at + 2 - whole, head.first, upper, lower);
    return at + 2 - whole + used;
  }
  const i64 count = 0 < whole && whole <= 15 ? whole : 1; // digits before the point
  put_digits(at + 1, head.first, upper, lower);
  if (count < 8) { // the point among the first seven digits, in one word
    const u64 word = head.first | upper << 8, before = word & ((u64{1} << 8 * count) - 1);
    const u64 pointed = before | u64{'.'} << 8 * count | (word ^ before) << 8;
    std::memcpy(at, &pointed, 8);
  } else {
    std::memmove(at, at + 1, static_cast<std::size_t>(count));
    at[count] = '.';
  }
  at += used > count ? used + 1 : count;
  return count == whole ? at : put_exponent(at, whole - 1);
}

// Copy a text by words: 8 bytes after it are there, on both sides.
inline char *put_text(char *at, const u8 *text, i64 size) {
  for (i64 place = 0; place < size; place += 8) std::memcpy(at + place, text + place, 8);
  return at + size;
}

// Write rows as CSV; return how many bytes. `doubles` states which columns are numbers (floats, one
// row each); the others are texts, from starts to ends in their content. `powers`: 10^-292 to
// 10^324, 128 bits of each, rounded up.
static i64 write_csv(const Vector<const bool> &doubles, const Matrix<const double> &floats,
                     const Matrix<const i64> &starts, const Matrix<const i64> &ends,
                     const Vector<const u8> &content, const Matrix<const u64> &powers,
                     const Vector<u8> &out) {
  const Rows<const double> numbers(floats);
  const Rows<const i64> begins(starts), closes(ends);
  const Rows<const u64> tens(powers);
  const i64 columns = size_of(doubles), rows = numbers.size, letters = size_of(content) - 8;
  const bool *is_number = doubles.data();
  require(columns > 0 || rows == 0, "a row has a column");
  require(numbers.count == std::count(is_number, is_number + columns, true) &&
              begins.count == columns - numbers.count && closes.count == begins.count &&
              begins.size == rows && closes.size == rows,
          "each column has its numbers or texts");
  require(tens.count == POWERS && tens.size == 2, "there are 617 powers of ten");
  i64 room = rows * columns + LONGEST * rows * numbers.count + SPARE;
  for (i64 cell = 0; cell < begins.count * rows; cell++) {
    const i64 begin = begins.data[cell], end = closes.data[cell];
    require(0 <= begin && begin <= end && end <= letters, "texts lie 8 bytes before the end");
    room += end - begin;
  }
  require(room <= size_of(out), "the text fits in");
  const i64 tile = std::max<i64>(16, CSV_TILE / std::max<i64>(1, numbers.count));
  std::vector<u64> upper(numbers.count * tile), lower(numbers.count * tile);
  std::vector<Head> heads(numbers.count * tile);
  char *first = reinterpret_cast<char *>(out.data()), *at = first;
  for (i64 start = 0; start < rows; start += tile) {
    const i64 size = std::min(tile, rows - start);
    for (i64 i = 0; i < numbers.count; i++) {
      fill_digits(numbers[i] + start, size, tens, &upper[i * tile], &lower[i * tile],
                  &heads[i * tile]);
      fill_letters(&upper[i * tile], size);
      fill_letters(&lower[i * tile], size);
    }
    for (i64 row = 0; row < size; row++) {
      i64 number = row, text = start + row; // places of the row's next number and text
      for (i64 column = 0; column < columns; column++) {
        if (is_number[column]) {
          at = put_number(at, heads[number], upper[number], lower[number]);
          number += tile;
        } else {
          const i64 begin = begins.data[text];
          at = put_text(at, content.data() + begin, closes.data[text] - begin);
          text += rows;
        }
        *at++ = ',';
      }
      at[-1] = '\n';
    }
  }
  return at - first;
}

// ------------------------------------------------------------------------------------------------
// What all cells of a CSV column are:
//
//     whole      -?(0|[1-9][0-9]*)        of at most 18 digits
//     decimal    whole(.[0-9]+)?([eE][+-]?[0-9]+)?

enum Kind : i64 { OTHER = 0, DECIMAL = 1, WHOLE = 2 };
constexpr i64 MOST_DIGITS = 18;

// Where a run of digits ends, looking at 8 letters at once while there are as many before `last`.
static const u8 *after_digits(const u8 *at, const u8 *end, const u8 *last) {
  while (last - at >= 8) {
    u64 word;
    std::memcpy(&word, at, 8);
    // A digit is 0 to 9 without the bits of "0"; what is more carries into its bit 7.
    const u64 values = word ^ 0x3030303030303030;
    const u64 others = ((values + 0x7676767676767676) | values) & 0x8080808080808080;
    const int digits = others ? __builtin_ctzll(others) >> 3 : 8;
    at += digits;
    if (digits < 8 || at >= end) return std::min(at, end);
  }
  while (at < end && '0' <= *at && *at <= '9') at++;
  return at;
}

static Kind kind_of(const u8 *at, const u8 *end, const u8 *last) { // of a cell that is not empty
  at += *at == '-';
  const u8 *begin = at;
  at = after_digits(at, end, last);
  if (at == begin || at - begin > MOST_DIGITS || (*begin == '0' && at - begin > 1)) return OTHER;
  if (at == end) return WHOLE;
  if (*at == '.') {
    begin = at + 1;
    at = after_digits(begin, end, last);
    if (at == begin) return OTHER;
  }
  if (at < end && (*at | 32) == 'e') {
    begin = at + 1;
    begin += begin < end && (*begin == '-' || *begin == '+');
    at = after_digits(begin, end, last);
    if (at == begin) return OTHER;
  }
  return at == end ? DECIMAL : OTHER;
}

// Return what all cells are at least, and how many there are up to the first that is another; a
// cell without text is missing.
static std::pair<i64, i64> kind_of_cells(const Vector<const i32> &bounds,
                                         const Vector<const u8> &content) {
  const u8 *letters = content.data(), *last = letters + size_of(content);
  i64 kind = WHOLE, count = 0;
  for (i64 cell = 0; cell + 1 < size_of(bounds) && kind != OTHER; cell++) {
    const i64 begin = bounds.data()[cell], end = bounds.data()[cell + 1];
    require(0 <= begin && begin <= end && end <= size_of(content), "cells lie within their content");
    if (begin == end) continue;
    kind = std::min<i64>(kind, kind_of(letters + begin, letters + end, last));
    count++;
  }
  return {kind, count};
}

// ------------------------------------------------------------------------------------------------
// What separators -_./:#| and spaces cut off texts:
//
//     0  up to its last separators: what is before them        2  after its last separator
//     1  up to its first separator                             3  after its first separators
//
// A part is not empty, and begins or ends beside its separator with another letter.

inline bool separates(u8 letter) {
  switch (letter) {
  case '-': case '_': case '.': case '/': case ':': case '#': case '|': case ' ': return true;
  default: return false;
  }
}

// Where a part of a text begins and ends; nowhere if there is none.
static std::pair<const u8 *, const u8 *> part_of(const u8 *at, const u8 *end, i64 which) {
  const u8 *from = at, *to = end;
  if (which == 1 || which == 3) { // by the first separator
    while (from < end && !separates(*from)) from++;
    if (from == end) return {end, end};
    if (which == 1) return {at, from};
    while (from < end && separates(*from)) from++;
    return {from, end};
  }
  while (to > at && !separates(to[-1])) to--; // by the last one
  if (to == at || which == 2) return {to == at ? end : to, end};
  while (to > at && separates(to[-1])) to--;
  return {at, to};
}

// Fill in the parts of texts, one after the other, and where each ends; return how many letters.
static i64 cut_texts(const Vector<const i64> &bounds, const Vector<const u8> &content, i64 which,
                     const Vector<i64> &ends, const Vector<u8> &out) {
  require(0 <= which && which < 4, "there are four parts");
  require(size_of(ends) + 1 == size_of(bounds), "each text has an end");
  const u8 *letters = content.data();
  i64 size = 0;
  for (i64 text = 0; text < size_of(ends); text++) {
    const i64 begin = bounds.data()[text], end = bounds.data()[text + 1];
    require(0 <= begin && begin <= end && end <= size_of(content), "texts lie within their content");
    const auto [from, to] = part_of(letters + begin, letters + end, which);
    const i64 length = to - from;
    require_part(size, length, size_of(out), "there is room for all parts");
    std::copy(from, to, out.data() + size);
    ends.data()[text] = size += length;
  }
  return size;
}

// ------------------------------------------------------------------------------------------------
// The digits of whole numbers, eight at a time, in words with the first letters lowest.

inline u64 over_1e8(u64 number) { // by a float, which is one off at most: vector units cannot divide
  u64 upper = static_cast<u64>(static_cast<i64>(static_cast<double>(static_cast<i64>(number)) * 1e-8));
  upper -= static_cast<u64>(static_cast<i64>(number - upper * 100000000) < 0);
  upper += static_cast<u64>(number - upper * 100000000 >= 100000000);
  return upper;
}

// Fill in the text of each number, not negative, in 3 words (3, numbers), and its length.
static void fill_whole_texts(const Vector<const i64> &numbers, const Vector<u64> &lengths,
                             const Matrix<u64> &words) {
  const i64 rows = size_of(numbers);
  require(size_of(lengths) == rows && words.shape(0) == 3 && size_of(words, 1) == rows,
          "each number has three words");
  const i64 *__restrict from = numbers.data();
  u64 *__restrict size = lengths.data(), *__restrict first = words.data(),
                  *__restrict second = first + rows, *__restrict third = second + rows;
  for (i64 row = 0; row < rows; row++) {
    const u64 number = static_cast<u64>(from[row]);
    u64 length = 1, ten = 1;
#pragma GCC unroll 18
    for (int power = 1; power < 19; power++) length += number >= (ten *= 10);
    const u64 upper = over_1e8(number), top = over_1e8(upper);
    const u64 a = eight_digits(top), b = eight_digits(upper - top * 100000000),
              c = eight_digits(number - upper * 100000000);
    // 24 digits without their leading zeros
    const u64 zeros = 24 - length, bits = (zeros & 7) << 3, skipped = zeros >> 3;
    const u64 one = skipped == 0 ? a : (skipped == 1 ? b : c);
    const u64 two = skipped == 0 ? b : (skipped == 1 ? c : 0), three = skipped == 0 ? c : 0;
    size[row] = length;
    first[row] = one >> bits | (two << 1) << (63 - bits);
    second[row] = two >> bits | (three << 1) << (63 - bits);
    third[row] = three >> bits;
  }
}

// ------------------------------------------------------------------------------------------------

// Write the first 100 bits of blocks, byte after byte, as 20 letters of base 32.
static void spell_pseudonyms(const Matrix<const u64> &blocks, const Matrix<u8> &out) {
  static constexpr char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
  const i64 rows = size_of(blocks);
  require(blocks.shape(1) == 2 && out.shape(1) == 20 && size_of(out) == rows,
          "a block of two words has 20 letters");
  const u64 *__restrict block = blocks.data();
  u8 *__restrict letters = out.data();
  for (i64 row = 0; row < rows; row++, letters += 20) {
    const u64 first = __builtin_bswap64(block[2 * row]); // the first bit on top
    const u64 then = (first << 60) | (__builtin_bswap64(block[2 * row + 1]) >> 4); // from bit 60 on
    for (int place = 0; place < 12; place++)
      letters[place] = static_cast<u8>(alphabet[(first >> (59 - 5 * place)) & 31]);
    for (int place = 0; place < 8; place++)
      letters[12 + place] = static_cast<u8>(alphabet[(then >> (59 - 5 * place)) & 31]);
  }
}

void bind_text(nb::module_ &module) {
  bind(module, "write_csv", write_csv, "doubles", "floats", "starts", "ends", "content",
       "powers", "out");
  bind(module, "kind_of_cells", kind_of_cells, "bounds", "content");
  bind(module, "cut_texts", cut_texts, "bounds", "content", "which", "ends", "out");
  bind(module, "fill_whole_texts", fill_whole_texts, "numbers", "lengths", "words");
  bind(module, "spell_pseudonyms", spell_pseudonyms, "blocks", "out");
}

} // namespace cornerwave
