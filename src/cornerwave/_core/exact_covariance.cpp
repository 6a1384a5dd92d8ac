// K from exact sums, rounded once (moments.py).
//
//     K_ij = (n sum x_i x_j - sum x_i sum x_j) / (n (n - 1))
//
// The numerator is a whole number of up to 210 bits, so words are 256 bits, in two's complement.
// Sums come from outside: where they are unsound, arithmetic wraps around, as that of unsigned
// numbers may.

#include "border.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace cornerwave {

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

constexpr i64 DIGITS = 3, BITS = 22, LIMB = 32;
constexpr int WORDS = 4, MOST_BELOW = 3; // words of a whole number, and those of a quotient below 1

using Whole = std::array<u64, WORDS>; // the lowest word first

inline u128 shifted(i64 value, i64 bits) { return static_cast<u128>(static_cast<i128>(value)) << bits; }

static void add(Whole &total, const Whole &other) {
  u128 carry = 0;
  for (int k = 0; k < WORDS; k++) {
    carry += static_cast<u128>(total[k]) + other[k];
    total[k] = static_cast<u64>(carry);
    carry >>= 64;
  }
}

static void negate(Whole &value) {
  for (u64 &word : value) word = ~word;
  add(value, {1, 0, 0, 0});
}

// Return a number of 128 bits with a sign, times 2^bits.
static Whole widened(u128 value, i64 bits) {
  const u64 sign = static_cast<i128>(value) < 0 ? ~u64{0} : 0;
  const u64 words[] = {static_cast<u64>(value), static_cast<u64>(value >> 64), sign, sign};
  const i64 skip = bits / 64, rest = bits % 64;
  Whole out{};
  for (i64 k = skip; k < WORDS; k++) {
    const u64 below = k > skip && rest ? words[k - skip - 1] >> (64 - rest) : 0;
    out[k] = words[k - skip] << rest | below;
  }
  return out;
}

static Whole times(const Whole &value, u64 factor) {
  Whole out{};
  u128 carry = 0;
  for (int k = 0; k < WORDS; k++) {
    carry += static_cast<u128>(value[k]) * factor;
    out[k] = static_cast<u64>(carry);
    carry >>= 64;
  }
  return out;
}

// Return the product of two numbers of 128 bits with a sign.
static Whole product(u128 one, u128 two) {
  const bool negative = (static_cast<i128>(one) < 0) != (static_cast<i128>(two) < 0);
  one = static_cast<i128>(one) < 0 ? -one : one, two = static_cast<i128>(two) < 0 ? -two : two;
  const Whole wide = {static_cast<u64>(one), static_cast<u64>(one >> 64), 0, 0};
  Whole out = times(wide, static_cast<u64>(two)), high = times(wide, static_cast<u64>(two >> 64));
  add(out, {0, high[0], high[1], high[2]});
  if (negative) negate(out);
  return out;
}

// Divide words, the highest last, by a number; return whether something is left.
template <std::size_t N> bool divide(std::array<u64, N> &words, u64 by) {
  u64 left = 0;
  for (std::size_t k = N; k-- > 0;) {
    if (!left && words[k] < by) { // most words are 0
      left = words[k], words[k] = 0;
      continue;
    }
    const u128 here = static_cast<u128>(left) << 64 | words[k];
    words[k] = static_cast<u64>(here / by), left = static_cast<u64>(here % by);
  }
  return left != 0;
}

// Return words, the lowest ones below 1, as the nearest double, an even one of two; `more` states
// that they have further digits.
template <std::size_t N> double nearest(const std::array<u64, N> &words, int below_one, bool more) {
  int top = N - 1;
  while (top >= 0 && !words[top]) top--;
  if (top < 0) return 0.0;
  const int zeros = __builtin_clzll(words[top]);
  const u64 below = top > 0 ? words[top - 1] : 0;
  const u64 head = zeros ? words[top] << zeros | below >> (64 - zeros) : words[top];
  more |= (below << zeros) != 0;
  for (int k = 0; k < top - 1; k++) more |= words[k] != 0;
  // 53 of 64 bits are kept; 11 fall off
  const u64 kept = head >> 11, rest = head & 0x7FF, half = 0x400;
  const bool up = rest > half || (rest == half && (more || (kept & 1)));
  return std::ldexp(static_cast<double>(kept + up), 64 * (top - below_one) - zeros + 11);
}

// Return a / (n (n - 1)), rounded once.
static double quotient(Whole a, u64 n) {
  const bool negative = a[WORDS - 1] >> 63;
  if (negative) negate(a);
  // n (n - 1) has up to 78 bits, and the quotient needs 54: of a large number, few below 1
  const int below_one = a[2] | a[3] ? 1 : MOST_BELOW;
  std::array<u64, WORDS + MOST_BELOW> words{};
  std::copy(a.begin(), a.end(), words.begin() + below_one);
  // floor(floor(a / n) / (n - 1)) is floor(a / (n (n - 1)))
  bool more = divide(words, n >> 32 ? n : n * (n - 1));
  if (n >> 32) more |= divide(words, n - 1);
  const double found = nearest(words, below_one, more);
  return negative ? -found : found;
}

// Fill in covariances in units of the columns' lowest digits; 0 where fewer than two rows have both.
// count: (columns, columns); sums: (digits, columns, columns); high, low: (digits digits, ...).
static void round_covariance(const Matrix<const i64> &count, const Cube<const i64> &sums,
                             const Cube<const i64> &high, const Cube<const i64> &low,
                             const Matrix<double> &out) {
  const i64 number = size_of(count);
  const auto fits = [&](const auto &cube, i64 first) {
    return size_of(cube, 0) == first && size_of(cube, 1) == number && size_of(cube, 2) == number;
  };
  require(size_of(count, 1) == number && size_of(out, 0) == number && size_of(out, 1) == number &&
              fits(sums, DIGITS) && fits(high, DIGITS * DIGITS) && fits(low, DIGITS * DIGITS),
          "there are sums for each pair of columns");
  const auto total = [&](i64 i, i64 j) { // of column i over the rows that have j
    u128 found = 0;
    for (i64 d = 0; d < DIGITS; d++)
      found += shifted(sums.data()[(d * number + i) * number + j], BITS * (DIGITS - 1 - d));
    return found;
  };
  for (i64 i = 0; i < number; i++)
    for (i64 j = 0; j <= i; j++) {
      const i64 n = count.data()[i * number + j];
      u128 places[2 * DIGITS - 1] = {}; // of digits d and e with d + e = place
      for (i64 d = 0; d < DIGITS; d++)
        for (i64 e = 0; e < DIGITS; e++) {
          const i64 at = ((d * DIGITS + e) * number + i) * number + j;
          places[d + e] += shifted(high.data()[at], LIMB) + shifted(low.data()[at], 0);
        }
      Whole scatter = widened(places[4], 0); // sum of x_i x_j, two places at a time
      add(scatter, widened((places[2] << BITS) + places[3], BITS));
      add(scatter, widened((places[0] << BITS) + places[1], 3 * BITS));
      scatter = times(scatter, static_cast<u64>(n));
      Whole means = product(total(i, j), total(j, i));
      negate(means);
      add(scatter, means);
      const double found = n < 2 ? 0.0 : quotient(scatter, static_cast<u64>(n));
      out.data()[i * number + j] = out.data()[j * number + i] = found;
    }
}

void bind_exact_covariance(nb::module_ &module) {
  bind(module, "round_covariance", round_covariance, "count", "sums", "high", "low", "out");
}

} // namespace cornerwave
