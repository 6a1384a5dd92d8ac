// Small matrices in strict arithmetic: the noise depends on every bit of them.
//
//     K = L L'                        L lower triangular, K singular or not        (noise/_factor.py)
//     A = V diag(a) V'                by Jacobi's rotations
//     weights = K_ho K_oo^-1          and the factor of what they leave open       (spine/missing.py)

#include "border.hpp"

#include <cmath>
#include <vector>

namespace cornerwave {

// Fill in the factor of a correlation matrix, and which columns follow from those before: less than
// `tolerance` of their variance is new.
static void factor_correlation(const Matrix<const double> &correlation, const Vector<const bool> &varies,
                               double tolerance, const Matrix<double> &lower,
                               const Vector<bool> &follows) {
  const Rows<const double> K(correlation);
  const Rows<double> L(lower);
  const i64 size = K.count;
  require(K.size == size && L.count == size && L.size == size && size_of(varies) == size &&
              size_of(follows) == size,
          "all are of one size");
  for (i64 j = 0; j < size; j++) {
    follows.data()[j] = false;
    if (!varies.data()[j]) continue;
    double known = 0.0; // the share of its variance that the columns before it reveal
    for (i64 k = 0; k < j; k++) known += L(j, k) * L(j, k);
    const double rest = K(j, j) - known; // the diagonal is 1, or more where noise was raised
    if (rest <= tolerance) {
      follows.data()[j] = true;
      for (i64 k = 0; k < j; k++) L(j, k) *= std::sqrt(K(j, j) / known);
      continue;
    }
    L(j, j) = std::sqrt(rest);
    for (i64 i = j + 1; i < size; i++) {
      double left = K(i, j);
      for (i64 k = 0; k < j; k++) left -= L(i, k) * L(j, k);
      L(i, j) = varies.data()[i] ? left / L(j, j) : 0.0;
    }
  }
}

static inline void rotate(double c, double s, double &a, double &b) {
  const double old = a;
  a = c * old - s * b;
  b = s * old + c * b;
}

// Turn a symmetric matrix into its eigenvalues, and the unit matrix into its eigenvectors.
static void diagonalise(const Matrix<double> &matrix, const Matrix<double> &vectors, i64 sweeps) {
  const Rows<double> A(matrix), V(vectors);
  const i64 size = A.count;
  require(A.size == size && V.count == size && V.size == size, "matrices are square");
  bool turned = true;
  for (i64 sweep = 0; sweep < sweeps && turned; sweep++) {
    turned = false;
    for (i64 p = 0; p < size; p++)
      for (i64 q = p + 1; q < size; q++) {
        if (std::abs(A(p, q)) < 1e-17 * std::sqrt(std::abs(A(p, p) * A(q, q))) + 1e-300) continue;
        turned = true;
        // the rotation that makes entry (p, q) zero
        const double slope = (A(q, q) - A(p, p)) / (2.0 * A(p, q));
        const double sign = slope >= 0.0 ? 1.0 : -1.0;
        const double t = sign / (std::abs(slope) + std::sqrt(slope * slope + 1.0));
        const double c = 1.0 / std::sqrt(t * t + 1.0), s = t * c;
        for (i64 k = 0; k < size; k++) rotate(c, s, A(k, p), A(k, q));
        for (i64 k = 0; k < size; k++) {
          rotate(c, s, A(p, k), A(q, k));
          rotate(c, s, V(k, p), V(k, q));
        }
      }
  }
}

// Fill in vectors diag(values) vectors'.
static void compose(const Vector<const double> &values, const Matrix<const double> &vectors,
                    const Matrix<double> &out) {
  const Rows<const double> V(vectors);
  const Rows<double> A(out);
  const i64 size = V.count;
  require(V.size == size && A.count == size && A.size == size && size_of(values) == size,
          "all are of one size");
  for (i64 i = 0; i < size; i++)
    for (i64 j = 0; j < size; j++) {
      double total = 0.0;
      for (i64 k = 0; k < size; k++) total += V(i, k) * values.data()[k] * V(j, k);
      A(i, j) = total;
    }
}

// Fill in the weights of the seen columns on the wanted ones, and the spread that is left, lower
// triangular. A column adds nothing new if its variance given the others is a `vanishing` share.
static void sweep_seen(const Matrix<const double> &covariance, const Vector<const i64> &seen,
                       const Vector<const i64> &wanted, double vanishing,
                       const Matrix<double> &weights, const Matrix<double> &spread) {
  const Rows<const double> K(covariance);
  const Rows<double> W(weights), S(spread);
  const i64 size = K.count, known = size_of(seen), missing = size_of(wanted);
  require(K.size == size && W.count == missing && W.size == known && S.count == missing &&
              S.size == missing,
          "weights and spread fit the columns");
  require_places(seen, size);
  require_places(wanted, size);
  std::vector<double> room(K.data, K.data + size * size);
  const Rows<double> swept(room.data(), size, size);
  std::vector<char> used(known, 0);
  for (i64 place = 0; place < known; place++) {
    const i64 k = seen.data()[place];
    const double pivot = swept(k, k);
    if (pivot <= vanishing * K(k, k)) continue;
    used[place] = 1;
    for (i64 i = 0; i < size; i++) {
      if (i == k) continue;
      const double ratio = swept(i, k) / pivot;
      for (i64 j = 0; j < size; j++)
        if (j != k) swept(i, j) -= ratio * swept(k, j);
      swept(i, k) = ratio;
    }
    for (i64 j = 0; j < size; j++)
      if (j != k) swept(k, j) = -swept(k, j) / pivot;
    swept(k, k) = 1.0 / pivot;
  }
  for (i64 row = 0; row < missing; row++)
    for (i64 place = 0; place < known; place++)
      if (used[place]) W(row, place) = swept(wanted.data()[row], seen.data()[place]);
  for (i64 row = 0; row < missing; row++)
    for (i64 column = 0; column <= row; column++) {
      double rest = swept(wanted.data()[row], wanted.data()[column]);
      for (i64 before = 0; before < column; before++) rest -= S(row, before) * S(column, before);
      if (row == column)
        S(row, row) = std::sqrt(std::max(rest, 0.0));
      else if (S(column, column) > 0)
        S(row, column) = rest / S(column, column);
    }
}

// x_h = mu_h + weights (x_o - mu_o) + spread z_h in some rows of x (columns, rows).
static void draw_missing(const Matrix<double> &out, const Matrix<const double> &x,
                         const Matrix<const double> &z, const Vector<const i64> &rows,
                         const Vector<const i64> &seen, const Vector<const i64> &wanted,
                         const Vector<const double> &mean, const Matrix<const double> &weights,
                         const Matrix<const double> &spread) {
  const Rows<double> drawn(out);
  const Rows<const double> values(x), white(z), W(weights), S(spread);
  const i64 columns = drawn.count, known = size_of(seen), missing = size_of(wanted);
  require(values.count == columns && white.count == columns && values.size == drawn.size &&
              white.size == drawn.size && size_of(mean) == columns,
          "values, noise and what is drawn have one shape");
  require(W.count == missing && W.size == known && S.count == missing && S.size == missing,
          "weights and spread fit the columns");
  require_places(seen, columns);
  require_places(wanted, columns);
  require_places(rows, drawn.size);
  const double *mu = mean.data();
  for (i64 index = 0; index < size_of(rows); index++) {
    const i64 row = rows.data()[index];
    for (i64 place = 0; place < missing; place++) {
      double value = mu[wanted.data()[place]];
      for (i64 other = 0; other < known; other++) {
        const i64 from = seen.data()[other];
        value += W(place, other) * (values(from, row) - mu[from]);
      }
      for (i64 other = 0; other <= place; other++)
        value += S(place, other) * white(wanted.data()[other], row);
      drawn(wanted.data()[place], row) = value;
    }
  }
}

// Add rows of numbers to the sums of their codes, in the order of the rows.
static void add_by_code(const Matrix<const double> &rows, const Vector<const i64> &codes,
                        const Matrix<double> &sums) {
  const Rows<const double> values(rows);
  const Rows<double> out(sums);
  require(out.size == values.size && size_of(codes) == values.count,
          "each row has a code, and each code a sum for each column");
  require_places(codes, out.count);
  for (i64 row = 0; row < values.count; row++) {
    const double *__restrict from = values[row];
    double *__restrict to = out[codes.data()[row]];
    for (i64 i = 0; i < values.size; i++) to[i] = to[i] + from[i];
  }
}

void bind_matrices(nb::module_ &module) {
  bind(module, "add_by_code", add_by_code, "rows", "codes", "sums");
  bind(module, "factor_correlation", factor_correlation, "correlation", "varies", "tolerance",
       "lower", "follows");
  bind(module, "diagonalise", diagonalise, "matrix", "vectors", "sweeps");
  bind(module, "compose", compose, "values", "vectors", "out");
  bind(module, "sweep_seen", sweep_seen, "covariance", "seen", "wanted", "vanishing", "weights",
       "spread");
  bind(module, "draw_missing", draw_missing, "out", "x", "z", "rows", "seen", "wanted", "mean",
       "weights", "spread");
}

} // namespace cornerwave
