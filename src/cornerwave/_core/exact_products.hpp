// Sums of products of whole numbers, exact in double precision in any order.

#pragma once

#include <cstdint>

namespace cornerwave {

constexpr std::int64_t LANES = 8; // rows of a tile are padded with zeros to a multiple of this

// Add the products of rows of a tile, two by two, to the lower triangle of `total` (width across).
// `some` are the rows, `count` of them, that are not all zeros; each has `rows` numbers, `stride`
// apart. `zeros` are as many zeros. All sums stay below 2^53.
void add_products(const double *tile, std::int64_t stride, const std::int64_t *some,
                  std::int64_t count, std::int64_t rows, const double *zeros, std::int64_t *total,
                  std::int64_t width);

} // namespace cornerwave
