// The shortest decimal number that is read back as the same double, by Schubfach.
//
//     v = c 2^q;  k = floor(log10 2^q);  the multiple of 10^k nearest to v that rounds to v,
//     or of 10^(k+1) if there is one
//
// R. Giulietti, "The Schubfach way to render doubles" (2020). Products with powers of ten are
// 128-bit numbers of which all lost bits are kept as one sticky bit, so every comparison is exact.
// Not std::to_chars: the same digits in two to six times the time (CONTRIBUTING.md), and this step
// is half of the text of a CSV copy.

#pragma once

#include "border.hpp"
#include "strict.hpp"

namespace cornerwave {

constexpr i64 LEAST_POWER = -292, POWERS = 617; // of ten that are needed, 128 bits of each
// clang-format off
constexpr u64 TENS[20] = {
    1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u, 1000000000u,
    10000000000u, 100000000000u, 1000000000000u, 10000000000000u, 100000000000000u,
    1000000000000000u, 10000000000000000u, 100000000000000000u, 1000000000000000000u,
    10000000000000000000u};
// clang-format on

struct Decimal {
  u64 digits;
  i64 power; // of ten
};

__extension__ typedef unsigned __int128 u128;

// The upper bits of a power of ten times a number; the last is 1 if any below it is.
inline u64 product(const u64 *power, u64 factor) {
  const u128 carried = static_cast<u128>(power[1]) * factor >> 64;
  const u128 both = static_cast<u128>(power[0]) * factor + carried;
  return static_cast<u64>(both >> 64) | (static_cast<u64>(both) > 1);
}

// Digits and a power of ten for the bits of a positive, finite double.
inline Decimal shortest(u64 bits, const Rows<const u64> &powers) {
  const u64 fraction = bits & FRACTION;
  const i64 exponent = static_cast<i64>(bits >> 52), q = std::max<i64>(1, exponent) - 1075;
  const u64 c = exponent ? fraction | (FRACTION + 1) : fraction;
  if (-53 < q && q <= 0 && (c >> -q) << -q == c) return {c >> -q, 0}; // a whole number
  const bool closer = fraction == 0 && exponent > 1; // the double below is nearer than that above
  const i64 k = (q * 1262611 - (closer ? 524031 : 0)) >> 22;
  const int shift = static_cast<int>(q + ((-k * 1741647) >> 19) + 1);
  const u64 *power = powers[-k - LEAST_POWER], odd = c & 1, four = 4 * c;
  const u64 least = product(power, (four - 2 + closer) << shift) + odd;
  const u64 value = product(power, four << shift);
  const u64 most = product(power, (four + 2) << shift) - odd;
  // All are computed and one is taken, without a branch: which one it is cannot be foreseen.
  const u64 s = value / 4, tens = s / 10;
  const bool ten_below = least <= 40 * tens, ten_above = 40 * tens + 40 <= most;
  const u64 shorter = (ten_below != ten_above) & (tens != 0);
  const bool below = least <= 4 * s, above = 4 * s + 4 <= most;
  const u64 nearer = value + (s & 1) > 4 * s + 2; // a tie goes to the even one
  const u64 only = 0 - static_cast<u64>(below != above), taken = 0 - shorter;
  const u64 digits = s + ((only & above) | (~only & nearer));
  return {(taken & (tens + ten_above)) | (~taken & digits), k + static_cast<i64>(shorter)};
}

// How many digits a number has: its bits times log10(2) = 1233 / 4096, or one more.
inline i64 count_digits(u64 number) {
  const i64 size = static_cast<i64>(bits_of(static_cast<double>(number | 1)) >> 52) - 1022;
  const i64 count = (size * 1233) >> 12;
  return count + (number >= TENS[count]);
}

constexpr u64 EIGHT_ZEROS = 0x3030303030303030;

// 8 digits as 8 letters, the first lowest: halves, quarters and eighths of a word, all at once.
inline u64 eight_digits(u64 number) {
  u64 upper = number * 109951163 >> 40; // / 10^4
  const u64 halves = upper | (number - upper * 10000) << 32;
  upper = (halves * 10486 >> 20) & 0x7F0000007F; // / 100
  const u64 quarters = upper | (halves - upper * 100) << 16;
  upper = (quarters * 103 >> 10) & 0x000F000F000F000F; // / 10
  return (upper | (quarters - upper * 10) << 8) + EIGHT_ZEROS;
}

} // namespace cornerwave
