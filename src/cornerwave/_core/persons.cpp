// The noise of rows that belong to persons: what persons share, and what each row has alone.
//
//     W_i = B_i + ((L_i0 U_0 + L_i1 U_1) + ... ) + L_ii U_i                       without a time
//     W_i = ((0 + (1 - w) C_ki) + w C_(k+1)i),  the row's own after the knot that is nearest
//     C_ki = ((0 + P_ki0 V_0) + P_ki1 V_1) + ...                                   V of the person
//     copy = (rint(x / g) + rint(W / g)) g
//
// Every sum is from left to right, whatever the machine; what several columns do side by side, in
// groups of LANES, changes no bit of any.

#include "border.hpp"
#include "normals.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace cornerwave {

constexpr i64 LANES = 8;

// out = what persons share, by the place of each row's person, + factor @ white.
static void shape_persons(const Matrix<const double> &shared, const Vector<const i64> &of_row,
                          const Matrix<const double> &factor, const Matrix<const double> &white,
                          const Matrix<double> &out) {
  const Rows<const double> level(shared), lower(factor), u(white);
  const Rows<double> noise(out);
  require(level.count == noise.count && u.count == noise.count && lower.count == noise.count &&
              lower.size == noise.count && u.size == noise.size && size_of(of_row) == noise.size,
          "all have the same columns and rows");
  require_places(of_row, level.size);
  const i64 *place = of_row.data();
  for (i64 first = 0; first < noise.size; first += TILE_ROWS) {
    const i64 rows = std::min(TILE_ROWS, noise.size - first);
    for (i64 i = 0; i < noise.count; i++) {
      double *__restrict made = noise[i] + first;
      const double *__restrict from = level[i];
      for (i64 row = 0; row < rows; row++) made[row] = from[place[first + row]];
      for (i64 k = 0; k <= i; k++) {
        const double a = lower(i, k);
        const double *__restrict own = u[k] + first;
        if (a != 0.0) // a column that is constant in each person has nothing of its own
          for (i64 row = 0; row < rows; row++) made[row] = made[row] + a * own[row];
      }
    }
  }
}

// A matrix of each knot (columns, terms) as (terms, columns), with columns in groups of LANES.
static std::vector<double> side_by_side(const Cube<const double> &matrices) {
  const i64 knots = size_of(matrices, 0), columns = size_of(matrices, 1), terms = size_of(matrices, 2);
  const i64 groups = (columns + LANES - 1) / LANES;
  std::vector<double> found(static_cast<std::size_t>(knots * groups * terms * LANES), 0.0);
  const double *from = matrices.data();
  for (i64 knot = 0; knot < knots; knot++)
    for (i64 i = 0; i < columns; i++)
      for (i64 k = 0; k < terms; k++)
        found[((knot * groups + i / LANES) * terms + k) * LANES + i % LANES] =
            from[(knot * columns + i) * terms + k];
  return found;
}

// Add weights @ values, LANES columns side by side, from left to right.
static void add_products(const double *__restrict weights, const double *__restrict values,
                         i64 terms, double (&sum)[LANES]) {
  for (i64 k = 0; k < terms; k++) {
    const double value = values[k];
    for (i64 lane = 0; lane < LANES; lane++)
      sum[lane] = sum[lane] + weights[k * LANES + lane] * value;
  }
}

// The noise of rows in time: person (knots, columns, paths), row (knots, columns, columns);
// paths (persons, paths) and white (rows, columns) have a row for each person and each row.
static void shape_curves(const Cube<const double> &person, const Cube<const double> &row,
                         const Matrix<const double> &paths, const Vector<const i64> &of_row,
                         const Vector<const i64> &below, const Vector<const double> &weight,
                         const Matrix<const double> &white, const Matrix<double> &out) {
  const Rows<const double> path(paths), u(white);
  const Rows<double> noise(out);
  const i64 knots = size_of(person, 0), columns = noise.count, terms = size_of(person, 2);
  require(knots >= 2 && size_of(row, 0) == knots && size_of(person, 1) == columns &&
              size_of(row, 1) == columns && size_of(row, 2) == columns && path.size == terms &&
              u.size == columns && u.count == noise.size && size_of(of_row) == noise.size &&
              size_of(below) == noise.size && size_of(weight) == noise.size,
          "curves, paths and rows fit each other");
  require_places(of_row, path.count);
  require_places(below, knots - 1);
  const std::vector<double> curves = side_by_side(person), factors = side_by_side(row);
  const i64 groups = (columns + LANES - 1) / LANES;
  for (i64 at = 0; at < noise.size; at++) {
    const i64 knot = below.data()[at];
    const double after = weight.data()[at], before = 1.0 - after;
    const bool is_near_next = after > 0.5;
    const double *own = path[of_row.data()[at]];
    for (i64 group = 0; group < groups; group++) {
      const auto of = [&](const std::vector<double> &all, i64 k, i64 count) {
        return all.data() + (k * groups + group) * count * LANES;
      };
      double low[LANES] = {}, high[LANES] = {}, alone[LANES] = {};
      add_products(of(curves, knot, terms), own, terms, low);
      add_products(of(curves, knot + 1, terms), own, terms, high);
      add_products(of(factors, knot + is_near_next, columns), u[at], columns, alone);
      const i64 lanes = std::min(LANES, columns - group * LANES);
      for (i64 lane = 0; lane < lanes; lane++) {
        double sum = 0.0 + before * low[lane];
        if (!is_near_next) sum = sum + alone[lane];
        sum = sum + after * high[lane];
        if (is_near_next) sum = sum + alone[lane];
        noise[group * LANES + lane][at] = sum;
      }
    }
  }
}

// Columns of x with their noise on the grid, from row `start` of both x and out.
static void put_on_grid(const Matrix<const double> &x, const Matrix<const double> &noise,
                        const Vector<const double> &grid, const Matrix<double> &out, i64 start) {
  const Rows<const double> values(x), w(noise);
  const Rows<double> copy(out);
  require(values.count == w.count && copy.count == w.count && size_of(grid) == w.count,
          "all have the same columns");
  require_part(start, w.size, std::min(values.size, copy.size), "the block lies within the table");
  for (i64 i = 0; i < w.count; i++) {
    const double *__restrict from = values[i] + start, *__restrict own = w[i];
    double *__restrict made = copy[i] + start;
    const double step = grid.data()[i];
    if (!(step > 0.0)) { // a constant column stays as it is
      std::copy(from, from + w.size, made);
      continue;
    }
    const double per_step = 1.0 / step;
    for (i64 row = 0; row < w.size; row++)
      made[row] = (std::rint(from[row] * per_step) + std::rint(own[row] * per_step)) * step;
  }
}

// What persons show at some levels, each with the exchanges before it: persons `who` copy, or swap
// for, what `others` show (spine/exchanges.py).
static void apply_exchanges(const Vector<const i64> &who, const Vector<const i64> &others,
                            const Vector<const bool> &copies, const Vector<const i64> &ends,
                            const Matrix<i64> &shown, const Matrix<i32> &changes) {
  const Rows<i64> shows(shown);
  const Rows<i32> changed(changes);
  const i64 count = size_of(who), levels = size_of(ends), persons = shows.size;
  require(size_of(others) == count && size_of(copies) == count, "an exchange has two persons");
  require(shows.count == levels && changed.count == levels && changed.size == persons,
          "there is what persons show at each level");
  require_places(who, persons);
  require_places(others, persons);
  i64 event = 0;
  for (i64 level = 0; level < levels; level++) {
    i64 *now = shows[level];
    i32 *often = changed[level];
    for (i64 person = 0; person < persons; person++) {
      now[person] = level ? shows(level - 1, person) : person;
      often[person] = level ? changed(level - 1, person) : 0;
    }
    const i64 end = ends.data()[level];
    require(event <= end && end <= count, "levels have ever more exchanges");
    for (; event < end; event++) {
      const i64 u = who.data()[event], w = others.data()[event];
      const i64 own = now[u];
      now[u] = now[w], often[u]++;
      if (!copies.data()[event]) now[w] = own, often[w]++;
    }
  }
}

void bind_persons(nb::module_ &module) {
  bind(module, "shape_persons", shape_persons, "shared", "of_row", "factor", "white", "out");
  bind(module, "shape_curves", shape_curves, "person", "row", "paths", "of_row", "below", "weight",
       "white", "out");
  bind(module, "put_on_grid", put_on_grid, "x", "noise", "grid", "out", "start");
  bind(module, "apply_exchanges", apply_exchanges, "who", "others", "copies", "ends", "shown",
       "changes");
}

} // namespace cornerwave
