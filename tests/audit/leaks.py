"""Schemes that keep every second moment and leak all the same; each names the check it fails."""

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pyarrow as pa

from cornerwave.levels import retention
from tests.audit.releases import frame, gaussian, white
from tests.audit.schemes import texts

Copies = tuple[pa.Table, list[pa.Table]]

LEVEL = NormalDist()


def shaped(X: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """White noise (n, N) shaped like X."""
    return normals @ np.linalg.cholesky(np.cov(X.T)).T


def whitened(X: np.ndarray) -> np.ndarray:
    """X along axes in which it is uncorrelated."""
    away = X - X.mean(axis=0)
    return np.linalg.solve(np.linalg.cholesky(np.cov(X.T)), away.T).T


def shares(values: np.ndarray) -> np.ndarray:
    """The rank of each value of each column, as a share of all."""
    return (values.argsort(axis=0).argsort(axis=0) + 0.5) / len(values)


def normals(part: np.ndarray) -> np.ndarray:
    return np.vectorize(LEVEL.inv_cdf)(np.clip(part % 1, 1e-9, 1 - 1e-9))


def numbers(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """A table, honest noise of size 1, and chance."""
    X = gaussian(rows, seed)
    return X, white(X, seed), np.random.default_rng([seed, 9])


def tables(X: np.ndarray, copies: list[np.ndarray]) -> Copies:
    return frame(X), [frame(copy) for copy in copies]


def coin(rows: int, seed: int) -> Copies:
    """Noise of three deviations, up or down: each value is one of two."""
    X, _, rng = numbers(rows, seed)
    return tables(X, [X + shaped(X, rng.choice([-3.0, 3.0], X.shape))])


def turned_coin(rows: int, seed: int) -> Copies:
    """The same in other directions than columns: each column looks nearly normal."""
    X, _, rng = numbers(rows, seed)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return tables(X, [X + shaped(X, rng.choice([-3.0, 3.0], X.shape) @ turn)])


def step_of_source(rows: int, seed: int, turns: int = 7) -> Copies:
    """The step to the next copy is X, through a map of the unit interval onto itself."""
    X, first, _ = numbers(rows, seed)
    step = shaped(X, normals(turns * shares(whitened(X)) + 0.3))
    return tables(X, [X + first, X + first + step])


def step_of_source_many_turns(rows: int, seed: int) -> Copies:
    return step_of_source(rows, seed, 211)


def step_of_noise(rows: int, seed: int) -> Copies:
    """The step to the next copy is the first copy's noise, through such a map."""
    X, first, _ = numbers(rows, seed)
    step = shaped(X, normals(7 * shares(whitened(first)) + 0.3))
    return tables(X, [X + first, X + first + step])


def step_of_both(rows: int, seed: int) -> Copies:
    """The step is unrelated to X and to the first noise, and follows from both."""
    X, first, _ = numbers(rows, seed)
    step = shaped(X, normals(shares(whitened(X)) + shares(whitened(first))))
    return tables(X, [X + first, X + first + step])


def low_decimals(rows: int, seed: int) -> Copies:
    """Three honest decimals, then four that spell X."""
    X, first, _ = numbers(rows, seed)
    spelled = np.floor(shares(X) * 1e4) * 1e-7
    return tables(X, [np.round(X + first, 3) + spelled])


def low_bits(rows: int, seed: int) -> Copies:
    """Eight honest binary places, then X."""
    X, first, _ = numbers(rows, seed)
    spelled = np.floor(shares(X) * 2**12) * 2.0**-20
    return tables(X, [np.floor((X + first) * 2**8) * 2.0**-8 + spelled])


def one_noise_for_two_rows(rows: int, seed: int) -> Copies:
    X, first, _ = numbers(rows, seed)
    first[1::2] = first[::2]
    return tables(X, [X + first])


def one_noise_for_distant_rows(rows: int, seed: int) -> Copies:
    X, first, _ = numbers(rows, seed)
    first[rows // 2 :] = first[: rows - rows // 2]
    return tables(X, [X + first])


def noise_that_cancels(rows: int, seed: int) -> Copies:
    """Every second row has the noise of the row before, the other way round."""
    X, first, _ = numbers(rows, seed)
    first[1::2] = -first[::2]
    return tables(X, [X + first])


def step_for_two_rows(rows: int, seed: int) -> Copies:
    X, first, _ = numbers(rows, seed)
    step = white(X, seed + 1)
    step[1::2] = step[::2]
    return tables(X, [X + first, X + first + step])


def some_rows_without_noise(rows: int, seed: int) -> Copies:
    X, first, rng = numbers(rows, seed)
    first[rng.random(rows) < 0.01] = 0.0
    return tables(X, [X + first])


def some_cells_without_noise(rows: int, seed: int) -> Copies:
    X, first, rng = numbers(rows, seed)
    first[rng.random(rows) < 0.01, 1] = 0.0
    return tables(X, [X + first])


def some_steps_without_noise(rows: int, seed: int) -> Copies:
    X, first, rng = numbers(rows, seed)
    step = white(X, seed + 1) * (rng.random(rows) >= 0.01)[:, None]
    return tables(X, [X + first, X + first + step])


def turned_noise(rows: int, seed: int) -> Copies:
    """Half of the rows have the noise of the others, turned: its length is the same."""
    X, _, rng = numbers(rows, seed)
    z, half = rng.normal(size=X.shape), rows // 2
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    z[half : 2 * half] = z[rng.permutation(half)] @ turn
    return tables(X, [X + shaped(X, z)])


def turned_step(rows: int, seed: int) -> Copies:
    """The same in the step to the next copy, of rows far apart."""
    X, first, rng = numbers(rows, seed)
    z, half = rng.normal(size=X.shape), rows // 2
    z[half : 2 * half] = z[:half] @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return tables(X, [X + first, X + first + shaped(X, z)])


def sums_of_two_rows(rows: int, seed: int) -> Copies:
    """A third of the rows have the noise of two others, added."""
    X, _, rng = numbers(rows, seed)
    z, (one, two, both) = rng.normal(size=X.shape), np.array_split(rng.permutation(rows), 3)
    least = min(len(one), len(two), len(both))
    sign = rng.choice([-1.0, 1.0], (least, 1))
    z[both[:least]] = (z[one[:least]] + sign * z[two[:least]]) / np.sqrt(2)
    return tables(X, [X + shaped(X, z)])


def some_rows_with_little_noise(rows: int, seed: int) -> Copies:
    X, first, rng = numbers(rows, seed)
    first[rng.permutation(rows)[: rows * 3 // 1000]] *= 0.1
    return tables(X, [X + first])


def path_of(X: np.ndarray, levels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """White noise of honest copies, (levels, n, N)."""
    steps = (
        rng.normal(size=(len(levels), *X.shape))
        * np.sqrt(np.diff(levels, prepend=0))[:, None, None]
    )
    return steps.cumsum(axis=0)


def some_rows_without_a_path(rows: int, seed: int) -> Copies:
    """One row in a hundred has independent noise in each copy."""
    X, _, rng = numbers(rows, seed)
    levels = np.array([0.5, 1.0, 3.0])
    z, some = path_of(X, levels, rng), rng.permutation(rows)[: rows // 100]
    z[:, some] = np.sqrt(levels)[:, None, None] * rng.normal(size=(3, len(some), 3))
    return tables(X, [X + shaped(X, own) for own in z])


def some_rows_with_scaled_noise(rows: int, seed: int) -> Copies:
    """One row in a hundred has one noise in all copies, scaled: two of them show the row."""
    X, _, rng = numbers(rows, seed)
    levels = np.array([0.5, 1.0, 3.0])
    z, some = path_of(X, levels, rng), rng.permutation(rows)[: rows // 100]
    z[:, some] = np.sqrt(levels)[:, None, None] * rng.normal(size=(len(some), 3))
    return tables(X, [X + shaped(X, own) for own in z])


def categories(x: np.ndarray, shown: np.ndarray) -> Copies:
    return pa.table({"kind": texts(x)}), [pa.table({"kind": texts(shown)})]


def next_value(rows: int, seed: int, values: int = 5) -> Copies:
    """Whatever is not kept shows the next value; every count is as it should be."""
    rng = np.random.default_rng(seed)
    x = rng.integers(values, size=rows)
    kept = rng.random(rows) < retention(1.0) + (1 - retention(1.0)) / values
    return categories(x, np.where(kept, x, (x + 1) % values))


def next_of_many_values(rows: int, seed: int) -> Copies:
    return next_value(rows, seed, 400)


def cipher(rows: int, seed: int) -> Copies:
    """Two values, each shown as the other."""
    x = np.random.default_rng(seed).integers(2, size=rows)
    return categories(x, 1 - x)


def replacement_of_the_truth(rows: int, seed: int) -> Copies:
    """Replacements are drawn evenly, but from the half of the values that the truth is in."""
    rng = np.random.default_rng(seed)
    x = rng.integers(6, size=rows)
    drawn = 3 * (x // 3) + rng.integers(3, size=rows)
    return categories(x, np.where(rng.random(rows) < retention(1.0), x, drawn))


def shared_draw(rows: int, seed: int, turns: int = 1) -> Copies:
    """The noise of a number decides whether a category is refreshed."""
    X, _, rng = numbers(rows, seed)
    z = rng.normal(size=X.shape)
    part = np.vectorize(LEVEL.cdf)(z[:, 1])
    x = rng.integers(4, size=rows)
    kept = (turns * part) % 1 < retention(1.0)
    shown = np.where(kept, x, rng.integers(4, size=rows))
    source, [copy] = tables(X, [X + shaped(X, z)])
    return source.append_column("kind", texts(x)), [copy.append_column("kind", texts(shown))]


def shared_draw_many_turns(rows: int, seed: int) -> Copies:
    return shared_draw(rows, seed, 50)


def shared_value(rows: int, seed: int) -> Copies:
    """The noise of a number decides what a category is refreshed to."""
    X, _, rng = numbers(rows, seed)
    z = rng.normal(size=X.shape)
    part = np.vectorize(LEVEL.cdf)(z[:, 1])
    x = rng.integers(4, size=rows)
    shown = np.where(rng.random(rows) < retention(1.0), x, (4 * part).astype(int))
    source, [copy] = tables(X, [X + shaped(X, z)])
    return source.append_column("kind", texts(x)), [copy.append_column("kind", texts(shown))]


LEAKS: dict[Callable[[int, int], Copies], str] = {
    coin: "fit",
    turned_coin: "fit",
    step_of_source: "dependence",
    step_of_source_many_turns: "dependence",
    step_of_noise: "dependence",
    step_of_both: "dependence",
    low_decimals: "digits",
    low_bits: "digits",
    one_noise_for_two_rows: "repeats",
    one_noise_for_distant_rows: "repeats",
    noise_that_cancels: "repeats",
    step_for_two_rows: "repeats",
    some_rows_without_noise: "untouched",
    some_cells_without_noise: "untouched",
    some_steps_without_noise: "untouched",
    turned_noise: "lengths",
    turned_step: "lengths",
    sums_of_two_rows: "sums",
    some_rows_with_little_noise: "inliers",
    some_rows_without_a_path: "row wave",
    some_rows_with_scaled_noise: "row wave",
    next_value: "replacements",
    next_of_many_values: "replacements",
    cipher: "replacements",
    replacement_of_the_truth: "replacements",
    shared_draw: "kinds",
    shared_draw_many_turns: "kinds",
    shared_value: "kinds",
}
"""Each scheme, and the check that it must fail."""
