// Arithmetic that gives the same bits on every machine.
//
// IEEE double precision: additions, multiplications, one division and one square root, in a fixed
// order; nothing is fused (-ffp-contract=off). Logarithm, exponential and sine are Taylor series on
// short intervals, in Estrin's order: short dependency chains keep the vector units busy, and
// without branches compilers vectorise. Truncation errors are below 1e-11, a thousandth of the grid
// that copies are written on.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace cornerwave {

inline double float_of(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline std::uint64_t bits_of(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

constexpr std::uint64_t ONE_BITS = 0x3FF0000000000000, TWO52_BITS = 0x4330000000000000,
                        FRACTION = 0x000FFFFFFFFFFFFF, SIGN = 0x8000000000000000,
                        HALF_SQRT2_BITS = 0x3FE6A09E667F3BCD; // of sqrt(1/2)
constexpr double LN2_HIGH = 0.693147180369123816490, LN2_LOW = 1.90821492927058770002e-10,
                 PER_LN2 = 1.4426950408889634, PI = 3.141592653589793;

// sin x = x (S0 + S1 x^2 + ...),  cos x = C0 + C1 x^2 + ...
constexpr double S0 = 1.0, S1 = -1.0 / 6, S2 = 1.0 / 120, S3 = -1.0 / 5040, S4 = 1.0 / 362880,
                 S5 = -1.0 / 39916800, S6 = 1.0 / 6227020800.0, S7 = -1.0 / 1307674368000.0;
constexpr double C0 = 1.0, C1 = -1.0 / 2, C2 = 1.0 / 24, C3 = -1.0 / 720, C4 = 1.0 / 40320,
                 C5 = -1.0 / 3628800, C6 = 1.0 / 479001600.0;

// -2 log u of a positive normal double: u = m 2^e with sqrt(1/2) <= m < sqrt(2), and
// -2 log m = -4 atanh s = s (-4 - 4/3 s^2 - 4/5 s^4 - ...),  s = (m - 1) / (m + 1).
inline double minus_2_log(double u) {
  const std::uint64_t shifted = bits_of(u) + (ONE_BITS - HALF_SQRT2_BITS);
  const double m = float_of((shifted & FRACTION) + HALF_SQRT2_BITS);
  const double e = float_of((shifted >> 52) | TWO52_BITS) - (4503599627370496.0 + 1023.0);
  const double s = (m - 1.0) / (m + 1.0), t = s * s, t2 = t * t, t4 = t2 * t2;
  const double low = (-4.0 + (-4.0 / 3) * t) + ((-4.0 / 5) + (-4.0 / 7) * t) * t2;
  const double high = ((-4.0 / 9) + (-4.0 / 11) * t) + (-4.0 / 13) * t2;
  return e * -1.3862943611198906 + s * (low + high * t4);
}

// e^t = 2^k e^r with |r| <= ln(2)/2, for |t| <= 700; beyond, that of the end.
inline double exp_of(double t) {
  t = std::min(std::max(t, -700.0), 700.0);
  const double k = std::rint(t * PER_LN2), r = (t - k * LN2_HIGH) - k * LN2_LOW;
  double tail = 1.0 + r * (1.0 / 11 + r * (1.0 / 132));
  for (int n = 10; n > 0; n--) tail = 1.0 + (r / n) * tail;
  return tail * float_of((bits_of(k + 0x1.8p52) + 1023) << 52); // k is in the sum's last bits
}

// A number in (0, 1] from the top 52 bits of a word.
inline double unit_of(std::uint64_t word) { return 2.0 - float_of((word >> 12) | ONE_BITS); }

// Cosine and sine of an angle: two bits of a word choose the quadrant, 52 the place within.
inline void cos_sin_of(std::uint64_t word, double &cosine, double &sine) {
  const double x = (float_of(((word << 2) >> 12) | ONE_BITS) - 1.5) * (PI / 2);
  const double t = x * x, t2 = t * t, t4 = t2 * t2;
  const double s = x * ((S0 + S1 * t) + (S2 + S3 * t) * t2 + (S4 + S5 * t) * t4);
  const double low = (C0 + C1 * t) + (C2 + C3 * t) * t2;
  const double c = low + ((C4 + C5 * t) + C6 * t2) * t4;
  // A quarter turn swaps the two; a half turn flips both signs.
  const std::uint64_t swap = (bits_of(s) ^ bits_of(c)) & (0 - (word >> 63));
  const std::uint64_t flip = (word << 1) & SIGN;
  cosine = float_of(bits_of(c) ^ swap ^ flip ^ (word & SIGN));
  sine = float_of(bits_of(s) ^ swap ^ flip);
}

// Sine of an angle in a half turn: its distribution is that of the sine of any angle.
inline double sine_of(std::uint64_t word) {
  const double x = (float_of((word >> 12) | ONE_BITS) - 1.5) * PI;
  const double t = x * x, t2 = t * t;
  const double low = (S0 + S1 * t) + (S2 + S3 * t) * t2;
  const double high = (S4 + S5 * t) + (S6 + S7 * t) * t2;
  return x * (low + high * (t2 * t2));
}

} // namespace cornerwave
