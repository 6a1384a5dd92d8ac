// Sums of products of whole numbers: |digit| <= 2^21, at most 2^11 of them, so all sums are whole
// numbers up to 2^53. They are exact in whatever order vector units add them, fused with the
// product or not: this file alone is compiled with -ffp-contract=fast.

#include "exact_products.hpp"

#include <algorithm>

namespace cornerwave {

#if defined(__AVX512F__)
constexpr int WIDTH = 8, SIDE = 4; // numbers in a vector; 16 sums and 8 factors in 32 registers
#elif defined(__AVX__)
constexpr int WIDTH = 4, SIDE = 3; // 9 sums and 6 factors in 16 registers
#else
constexpr int WIDTH = 2, SIDE = 3;
#endif
constexpr std::int64_t NEAR = 96; // rows of a tile that are met by all others before the next ones

typedef double Lane __attribute__((vector_size(8 * WIDTH), aligned(8), may_alias));

static inline Lane load(const double *from) { return *reinterpret_cast<const Lane *>(from); }

static inline std::int64_t sum_of(Lane lane) {
#if defined(__AVX512F__)
  typedef double Half __attribute__((vector_size(32))); // by halves, in words that Clang knows, too
  const Half sums = Half{lane[0], lane[1], lane[2], lane[3]} +
                    Half{lane[4], lane[5], lane[6], lane[7]};
  return static_cast<std::int64_t>((sums[0] + sums[2]) + (sums[1] + sums[3]));
#else
  double sum = 0.0;
  for (int i = 0; i < WIDTH; i++) sum += lane[i];
  return static_cast<std::int64_t>(sum);
#endif
}

struct Block {
  const double *rows[SIDE];
};

// The products of SIDE rows with SIDE others, all in registers.
static void multiply(const Block &a, const Block &b, std::int64_t rows,
                     std::int64_t (&found)[SIDE][SIDE]) {
  Lane sums[SIDE][SIDE] = {};
  for (std::int64_t row = 0; row < rows; row += WIDTH) {
    Lane left[SIDE], right[SIDE];
    for (int p = 0; p < SIDE; p++) left[p] = load(a.rows[p] + row), right[p] = load(b.rows[p] + row);
    for (int p = 0; p < SIDE; p++)
      for (int q = 0; q < SIDE; q++) sums[p][q] += left[p] * right[q];
  }
  for (int p = 0; p < SIDE; p++)
    for (int q = 0; q < SIDE; q++) found[p][q] = sum_of(sums[p][q]);
}

void add_products(const double *tile, std::int64_t stride, const std::int64_t *some,
                  std::int64_t count, std::int64_t rows, const double *zeros, std::int64_t *total,
                  std::int64_t width) {
  const auto block_at = [&](std::int64_t first) {
    Block block;
    for (int p = 0; p < SIDE; p++)
      block.rows[p] = first + p < count ? tile + some[first + p] * stride : zeros;
    return block;
  };
  std::int64_t found[SIDE][SIDE];
  for (std::int64_t near = 0; near < count; near += NEAR)
    for (std::int64_t i = near; i < count; i += SIDE) {
      const Block a = block_at(i);
      for (std::int64_t j = near; j <= std::min(i, near + NEAR - SIDE); j += SIDE) {
        multiply(a, block_at(j), rows, found);
        for (int p = 0; p < SIDE && i + p < count; p++)
          for (int q = 0; q < SIDE && j + q <= i + p; q++) {
            std::int64_t &sum = total[some[i + p] * width + some[j + q]];
            sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) +
                                            static_cast<std::uint64_t>(found[p][q]));
          }
      }
    }
}

} // namespace cornerwave
