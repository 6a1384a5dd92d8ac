// Noise shaped like the table, and copies on their grid.
//
//     W = L U,   L lower triangular:   W_i = ((L_i0 U_0 + L_i1 U_1) + L_i2 U_2) + ... + L_ii U_i
//     copy = (rint(x / g) + rint(w / g)) g
//
// From left to right whatever the machine, the blocks and the threads, so it is no BLAS. Four terms
// at a time; those beyond the diagonal are 0 and change nothing. From the fifth column on, four
// rows of L at a time share what they read. The paper's algorithms begin the sum with what is drawn
// from the copies below and above, weight_below (Y_a - x) + weight_above (Y_b - x): their fresh
// noise is shaped and added by the same loops as the recipe's.

#include "normals.hpp"

#include <vector>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace cornerwave {

// ------------------------------------------------------------------------------------------------
// L U, four terms at a time.

struct Four {
  double a, b, c, d;
};

// Terms k to k + 3 of row i of L; 0 beyond the diagonal.
static Four weights_of(const Rows<const double> &factor, i64 i, i64 k) {
  const double *row = factor[i];
  return {row[k], k + 1 <= i ? row[k + 1] : 0.0, k + 2 <= i ? row[k + 2] : 0.0,
          k + 3 <= i ? row[k + 3] : 0.0};
}

struct FourRows {
  const double *a, *b, *c, *d;
};

static FourRows rows_of(const Rows<const double> &white, i64 i, i64 k, i64 first) {
  const auto row = [&](i64 at) { return white[std::min(at, i)] + first; };
  return {white[k] + first, row(k + 1), row(k + 2), row(k + 3)};
}

static void add_four(const Four &w, const FourRows &u, i64 rows, double *__restrict out) {
  const double *__restrict a = u.a, *__restrict b = u.b, *__restrict c = u.c, *__restrict d = u.d;
  for (i64 row = 0; row < rows; row++)
    out[row] = out[row] + w.a * a[row] + w.b * b[row] + w.c * c[row] + w.d * d[row];
}

static void add_four_by_four(const Four (&w)[4], const FourRows &u, i64 rows, double *__restrict o0,
                             double *__restrict o1, double *__restrict o2, double *__restrict o3) {
  const double *__restrict ua = u.a, *__restrict ub = u.b, *__restrict uc = u.c,
                           *__restrict ud = u.d;
  const Four w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
  for (i64 row = 0; row < rows; row++) {
    const double a = ua[row], b = ub[row], c = uc[row], d = ud[row];
    o0[row] = o0[row] + w0.a * a + w0.b * b + w0.c * c + w0.d * d;
    o1[row] = o1[row] + w1.a * a + w1.b * b + w1.c * c + w1.d * d;
    o2[row] = o2[row] + w2.a * a + w2.b * b + w2.c * c + w2.d * d;
    o3[row] = o3[row] + w3.a * a + w3.b * b + w3.c * c + w3.d * d;
  }
}

// Add all terms but the first four to a tile; white begins at row `first`.
template <class ColumnOf>
static void add_further_terms(const Rows<const double> &factor, const Rows<const double> &white,
                              i64 first, i64 rows, ColumnOf out) {
  const i64 columns = white.count;
  for (i64 i = 4; i < columns; i += 4) {
    const i64 end = std::min(i + 4, columns);
    for (i64 k = 4; k < i; k += 4) {
      const FourRows u = rows_of(white, i, k, first);
      if (end - i == 4) {
        const Four w[4] = {weights_of(factor, i, k), weights_of(factor, i + 1, k),
                           weights_of(factor, i + 2, k), weights_of(factor, i + 3, k)};
        add_four_by_four(w, u, rows, out(i), out(i + 1), out(i + 2), out(i + 3));
      } else {
        for (i64 j = i; j < end; j++) add_four(weights_of(factor, j, k), u, rows, out(j));
      }
    }
    for (i64 j = i; j < end; j++) // the diagonal block
      add_four(weights_of(factor, j, i), rows_of(white, j, i, first), rows, out(j));
  }
}

// ------------------------------------------------------------------------------------------------
// What a sum begins with: nothing, or what is drawn from the copies below and above.

struct Alone {
  Alone from(i64, i64) const { return *this; }
  double operator()(double, i64, double term) const { return term; }
};

struct Above {
  double weight;
  Rows<const double> below;
  const double *y = nullptr;
  Above from(i64 i, i64 first) const { return {weight, below, below[i] + first}; }
  double operator()(double x, i64 row, double term) const { return weight * (y[row] - x) + term; }
};

struct Between {
  double weight_below, weight_above;
  Rows<const double> below, above;
  const double *y = nullptr, *z = nullptr;
  Between from(i64 i, i64 first) const {
    return {weight_below, weight_above, below, above, below[i] + first, above[i] + first};
  }
  double operator()(double x, i64 row, double term) const {
    return weight_below * (y[row] - x) + weight_above * (z[row] - x) + term;
  }
};

// Fill a tile of column i with the beginning and the first four terms.
template <class Begin>
static void begin_shaped(Begin begin, const double *__restrict x, const Four w, const FourRows &u,
                         i64 rows, double *__restrict out) {
  const double *__restrict a = u.a, *__restrict b = u.b, *__restrict c = u.c, *__restrict d = u.d;
#pragma GCC ivdep
  for (i64 row = 0; row < rows; row++)
    out[row] =
        begin(x[row], row, w.a * a[row]) + w.b * b[row] + w.c * c[row] + w.d * d[row];
}

static void step_onto(const double *__restrict x, double step, i64 rows, double *__restrict out) {
  if (step == 0.0) { // a constant column stays as it is
    std::copy(x, x + rows, out);
    return;
  }
  const double per_step = 1.0 / step;
  for (i64 row = 0; row < rows; row++)
    out[row] = (std::rint(x[row] * per_step) + std::rint(out[row] * per_step)) * step;
}

// The first four columns, which have four terms at most, whole in one loop.
template <class Begin>
static void make_four(Begin begin, const double *x[4], const Rows<const double> &factor,
                      const FourRows &u, const double *grid, i64 rows, double *__restrict o0,
                      double *__restrict o1, double *__restrict o2, double *__restrict o3, i64 at) {
  const double *__restrict ua = u.a, *__restrict ub = u.b, *__restrict uc = u.c,
                           *__restrict ud = u.d;
  const double *__restrict x0 = x[0], *__restrict x1 = x[1], *__restrict x2 = x[2],
                           *__restrict x3 = x[3];
  const Begin d0 = begin.from(0, at), d1 = begin.from(1, at), d2 = begin.from(2, at),
              d3 = begin.from(3, at);
  const double a0 = factor(0, 0), a1 = factor(1, 0), b1 = factor(1, 1), a2 = factor(2, 0),
               b2 = factor(2, 1), c2 = factor(2, 2);
  const Four w3 = weights_of(factor, 3, 0);
  const double s0 = grid[0], s1 = grid[1], s2 = grid[2], s3 = grid[3];
  const double p0 = 1.0 / s0, p1 = 1.0 / s1, p2 = 1.0 / s2, p3 = 1.0 / s3;
#pragma GCC ivdep
  for (i64 row = 0; row < rows; row++) {
    const double a = ua[row], b = ub[row], c = uc[row], d = ud[row];
    const double n0 = d0(x0[row], row, a0 * a);
    const double n1 = d1(x1[row], row, a1 * a) + b1 * b;
    const double n2 = d2(x2[row], row, a2 * a) + b2 * b + c2 * c;
    const double n3 = d3(x3[row], row, w3.a * a) + w3.b * b + w3.c * c + w3.d * d;
    o0[row] = (std::rint(x0[row] * p0) + std::rint(n0 * p0)) * s0;
    o1[row] = (std::rint(x1[row] * p1) + std::rint(n1 * p1)) * s1;
    o2[row] = (std::rint(x2[row] * p2) + std::rint(n2 * p2)) * s2;
    o3[row] = (std::rint(x3[row] * p3) + std::rint(n3 * p3)) * s3;
  }
}

// Fill a tile with copies: `x` of its first row; white from row `first`, others from row `at`.
template <class Begin, class ColumnOf>
static void make_tile(Begin begin, const Rows<const double> &x, i64 x_first,
                      const Rows<const double> &factor, const Rows<const double> &white, i64 first,
                      const double *grid, i64 at, i64 rows, ColumnOf out) {
  const i64 columns = white.count;
  i64 done = 0;
  if (columns >= 4 && *std::min_element(grid, grid + 4) > 0.0) {
    const double *four[4] = {x[0] + x_first, x[1] + x_first, x[2] + x_first, x[3] + x_first};
    make_four(begin, four, factor, rows_of(white, 3, 0, first), grid, rows, out(0), out(1), out(2),
              out(3), at);
    done = 4;
  }
  for (i64 i = done; i < columns; i++)
    begin_shaped(begin.from(i, at), x[i] + x_first, weights_of(factor, i, 0),
                 rows_of(white, i, 0, first), rows, out(i));
  add_further_terms(factor, white, first, rows, out);
  for (i64 i = done; i < columns; i++) step_onto(x[i] + x_first, grid[i], rows, out(i));
}

// ------------------------------------------------------------------------------------------------
// What is larger than the cache goes to memory around it: a usual store of a line that is not in
// the cache reads the line first, which takes as long again.

static void write_line(const double *from, double *to) { // 64 bytes, `to` a multiple of 64
#if defined(__AVX512F__)
  _mm512_stream_pd(to, _mm512_loadu_pd(from));
#elif defined(__SSE2__)
  for (int i = 0; i < 8; i += 2) _mm_stream_pd(to + i, _mm_loadu_pd(from + i));
#else
  std::copy(from, from + 8, to);
#endif
}

static void write_around_cache(const double *from, i64 count, double *to) {
  const i64 past = static_cast<i64>(reinterpret_cast<std::uintptr_t>(to) / 8 % 8);
  const i64 head = std::min((8 - past) % 8, count), tail = head + (count - head) / 8 * 8;
  std::copy(from, from + head, to);
  for (i64 at = head; at < tail; at += 8) write_line(from + at, to + at);
  std::copy(from + tail, from + count, to + tail);
}

static void finish_stores() { // those around the cache are in no order with others until then
#ifdef __SSE2__
  _mm_sfence();
#endif
}

// ------------------------------------------------------------------------------------------------
// The kernels.

static void require_shapes(const Matrix<const double> &factor, const Vector<const double> &grid,
                           i64 columns) {
  require(size_of(factor, 0) == columns && size_of(factor, 1) == columns && size_of(grid) == columns,
          "factor and grid have a row for each column");
}

static void shape_white(const Matrix<const double> &factor, const Matrix<const double> &white,
                        const Matrix<double> &out) {
  const Rows<const double> lower(factor), u(white);
  const Rows<double> noise(out);
  require(lower.count == u.count && lower.size == u.count, "the factor has a row for each column");
  require(noise.count == u.count && noise.size == u.size, "noise has the shape of white noise");
  for (i64 first = 0; first < u.size; first += TILE_ROWS) {
    const i64 rows = std::min(TILE_ROWS, u.size - first);
    const auto column = [&](i64 i) { return noise[i] + first; };
    for (i64 i = 0; i < u.count; i++)
      begin_shaped(Alone{}, u[i] + first, weights_of(lower, i, 0), rows_of(u, i, 0, first), rows,
                   column(i));
    add_further_terms(lower, u, first, rows, column);
  }
}

static void add_on_grid(const Matrix<const double> &x, const Matrix<const double> &factor,
                        const Matrix<const double> &white, const Vector<const double> &grid,
                        const Matrix<double> &out, i64 start, bool around) {
  const Rows<const double> values(x), lower(factor), u(white);
  const Rows<double> copy(out);
  require_shapes(factor, grid, u.count);
  require(values.count == u.count && copy.count == u.count, "all have the same columns");
  require_part(start, u.size, std::min(values.size, copy.size), "the block lies within the table");
  // what leaves the cache at once is made beside it, one tile after another in one place
  std::vector<double> beside(around ? u.count * TILE_ROWS : 0);
  for (i64 first = 0; first < u.size; first += TILE_ROWS) {
    const i64 rows = std::min(TILE_ROWS, u.size - first), here = start + first;
    const auto tile = [&](i64 i) { return around ? &beside[i * TILE_ROWS] : copy[i] + here; };
    make_tile(Alone{}, values, here, lower, u, first, grid.data(), here, rows, tile);
    for (i64 i = 0; around && i < u.count; i++) write_around_cache(tile(i), rows, copy[i] + here);
  }
  if (around) finish_stores();
}

static void add_between(const Matrix<const double> &x, double weight_below,
                        const Matrix<const double> &below, double weight_above,
                        const Matrix<const double> &above, const Matrix<const double> &factor,
                        const Vector<const u64> &words, const Vector<const u64> &masks,
                        const Vector<const double> &grid, const Matrix<double> &made,
                        const Matrix<double> &out, i64 start, bool around) {
  const Rows<const double> values(x), low(below), high(above), lower(factor);
  const Rows<double> block(made), copy(out);
  const i64 columns = values.count, size = values.size;
  require_shapes(factor, grid, columns);
  for (const Rows<const double> &each : {low, high, Rows<const double>(made)})
    require(each.count == columns && each.size == size, "all blocks have one shape");
  require(copy.count == columns, "all have the same columns");
  require_part(start, size, copy.size, "the block lies within the copy");
  require(size_of(words) >= words_of(columns, size) && size_of(masks) >= words_of(columns, size),
          "there are two words and masks for each row and pair of columns");
  std::vector<double> fresh(columns * TILE_ROWS);
  const Rows<const double> normals(fresh.data(), columns, TILE_ROWS);
  for (i64 first = 0; first < size; first += TILE_ROWS) {
    const i64 rows = std::min(TILE_ROWS, size - first);
    fill_normals_of_tile(words.data(), masks.data(), size, columns, first, rows,
                         [&](i64 i) { return &fresh[i * TILE_ROWS]; });
    const auto tile = [&](i64 i) { return block[i] + first; };
    if (weight_above == 0.0)
      make_tile(Above{weight_below, low}, values, first, lower, normals, 0, grid.data(), first, rows,
                tile);
    else
      make_tile(Between{weight_below, weight_above, low, high}, values, first, lower, normals, 0,
                grid.data(), first, rows, tile);
    for (i64 i = 0; i < columns; i++) {
      double *kept = copy[i] + start + first;
      if (around)
        write_around_cache(tile(i), rows, kept);
      else
        std::copy(tile(i), tile(i) + rows, kept);
    }
  }
  if (around) finish_stores();
}

static void round_to_grid(const Matrix<double> &x, const Vector<const double> &grid) {
  const Rows<double> values(x);
  require(size_of(grid) == values.count, "each column has a grid");
  for (i64 i = 0; i < values.count; i++) {
    const double step = grid.data()[i], per_step = 1.0 / step;
    double *__restrict column = values[i];
    if (step > 0.0)
      for (i64 row = 0; row < values.size; row++)
        column[row] = std::rint(column[row] * per_step) * step;
  }
}

// Add the first terms of weights @ noise to out, four in one pass, from left to right.
static void add_terms(const double *weights, const Rows<const double> &noise, i64 terms,
                      double *__restrict out) {
  const i64 fours = terms / 4 * 4, rows = noise.size;
  for (i64 j = 0; j < fours; j += 4)
    add_four({weights[j], weights[j + 1], weights[j + 2], weights[j + 3]},
             {noise[j], noise[j + 1], noise[j + 2], noise[j + 3]}, rows, out);
  for (i64 j = fours; j < terms; j++) {
    const double a = weights[j];
    const double *__restrict u = noise[j];
    for (i64 row = 0; row < rows; row++) out[row] = out[row] + a * u[row];
  }
}

// after = carry @ before + recall @ lasting + fresh @ path, fresh lower triangular.
static void carry_over(const Matrix<const double> &carry, const Matrix<const double> &before,
                       const Matrix<const double> &recall, const Matrix<const double> &lasting,
                       const Matrix<const double> &fresh, const Matrix<const double> &path,
                       const Matrix<double> &after) {
  const Rows<const double> a(carry), w(before), h(recall), z(lasting), b(fresh), u(path);
  const Rows<double> out(after);
  require(a.count == out.count && h.count == out.count && b.count == out.count &&
              a.size == w.count && h.size == z.count && b.size == out.count &&
              u.count == out.count && w.size == out.size && z.size == out.size &&
              u.size == out.size,
          "matrices and noise fit each other");
  for (i64 i = 0; i < out.count; i++) {
    std::fill(out[i], out[i] + out.size, 0.0);
    add_terms(a[i], w, w.count, out[i]);
    add_terms(h[i], z, z.count, out[i]);
    add_terms(b[i], u, i + 1, out[i]);
  }
}

void bind_copies(nb::module_ &module) {
  bind(module, "shape_white", shape_white, "factor", "white", "out");
  bind(module, "add_on_grid", add_on_grid, "x", "factor", "white", "grid", "out", "start", "around");
  bind(module, "add_between", add_between, "x", "weight_below", "below", "weight_above", "above",
       "factor", "words", "masks", "grid", "made", "out", "start", "around");
  bind(module, "round_to_grid", round_to_grid, "x", "grid");
  bind(module, "carry_over", carry_over, "carry", "before", "recall", "lasting", "fresh", "path",
       "after");
}

} // namespace cornerwave
