"""Arguments for every kernel of the compiled core: a hash of all results, and damaged arguments.

As a script, `python -m tests.kernels _portable.so`, it does both with a module from any place:
one that was built with ASan and UBSan, for which the process has to preload their libraries.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from cornerwave.noise import thresholds
from cornerwave.noise._refresh import _guide
from cornerwave.outputs._formats import _powers

Generator = np.random.Generator
ROWS = 1100  # more than a tile
POWERS = _powers()


def words(rng: Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 2**64, shape, dtype=np.uint64)


def floats(rng: Generator, *shape: int) -> np.ndarray:
    """Sums of three numbers: made without a logarithm, the same on every machine."""
    return rng.integers(-(2**51), 2**51, (3, *shape)).sum(axis=0) / 2.0**51


def zeros(kind: Any, *shape: int) -> np.ndarray:
    return np.zeros(shape, dtype=kind)


def covariance(rng: Generator, size: int) -> np.ndarray:
    X = rng.integers(-9, 10, (size, 3 * size)).astype(float)  # whole: exact in any order
    K = X @ X.T / (3 * size)
    scale = np.sqrt(np.diag(K))
    return np.ascontiguousarray(K / np.outer(scale, scale))


def lower(rng: Generator, size: int) -> np.ndarray:
    return np.tril(floats(rng, size, size))


def with_gaps(values: np.ndarray) -> np.ndarray:
    values.reshape(-1)[::13] = np.nan
    values.reshape(-1)[5] = -0.0
    return values


def slots(*_: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return zeros(np.uint64, 2048), zeros(np.int64, 2048), zeros(np.float64, 2048)


def sketch(rng: Generator, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.sort(words(rng, size)), rng.integers(1, 9, size), floats(rng, size)


def texts(rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.append(rng.integers(0, 30, ROWS - 2), [70, 64])
    starts = np.append(0, np.cumsum(lengths)).astype(np.int64)
    return starts, rng.integers(0, 256, starts[-1], dtype=np.uint8)


def csv(rng: Generator) -> list[Any]:
    numbers = np.stack(
        [floats(rng, ROWS), np.rint(floats(rng, ROWS)), words(rng, ROWS).view(float)]
    )
    with np.errstate(invalid="ignore"):
        numbers[0, :4] = [np.nan, 0.0, -np.inf, 5e-324]
    begins = np.sort(rng.integers(0, 500, (1, ROWS)), axis=1)
    content = rng.integers(65, 90, 530, dtype=np.uint8)
    out = zeros(np.uint8, 4 * ROWS + 3 * 24 * ROWS + 20 * ROWS + 64)
    columns = np.array([True, False, True, True])
    return [
        columns,
        numbers,
        begins,
        begins + rng.integers(0, 20, (1, ROWS)),
        content,
        POWERS,
        out,
    ]


def cells(rng: Generator) -> list[Any]:
    spelled = [str(n) for n in rng.integers(-(10**9), 10**9, 50)] + ["", "1.5e-3", "-0", "0.25"]
    bounds = np.append(0, np.cumsum([len(cell) for cell in spelled])).astype(np.int32)
    return [bounds, np.frombuffer("".join(spelled).encode(), dtype=np.uint8)]


def ranks(rng: Generator) -> list[Any]:
    knots = np.sort(np.append(floats(rng, 50), [0.5, 0.5, 0.5]))
    distinct, first, count = np.unique(knots, return_index=True, return_counts=True)
    x = with_gaps(floats(rng, ROWS))
    x[::7] = 0.5
    scores = np.sort(floats(rng, len(knots)))
    return [
        x,
        rng.uniform(size=ROWS),
        distinct,
        first,
        count,
        scores,
        -1.5,
        1.5,
        zeros(float, ROWS),
    ]


def events(rng: Generator) -> list[Any]:
    bounds = thresholds(rng.integers(1, 50, 30).tolist())
    out = rng.integers(0, 30, (2, ROWS)).astype(np.int32)
    room = zeros(np.int64, ROWS), zeros(float, ROWS)
    given = [words(rng, 2 * ROWS), words(rng, 2 * ROWS), np.arange(ROWS), rng.uniform(0, 0.3, ROWS)]
    return [*given, bounds, _guide(bounds), np.array([0.4, 0.9]), out, *room]


CALLS: dict[str, Callable[[Generator], list[Any]]] = {
    "fill_positions": lambda r: [2**40, zeros(np.uint64, ROWS, 2)],
    "fill_cell_ids": lambda r: [
        words(r, ROWS, 2),
        words(r, 4 * ROWS),
        zeros(np.uint64, 2 * ROWS, 2),
    ],
    "fill_normals": lambda r: [words(r, 4 * ROWS), words(r, 4 * ROWS), zeros(float, 3, ROWS)],
    "fill_level": lambda r: [
        0.3,
        floats(r, 3, ROWS),
        0.7,
        floats(r, 3, ROWS),
        0.2,
        words(r, 4 * ROWS),
        words(r, 4 * ROWS),
        zeros(float, 3, ROWS),
    ],
    "shape_white": lambda r: [lower(r, 11), floats(r, 11, ROWS), zeros(float, 11, ROWS)],
    "add_on_grid": lambda r: [
        floats(r, 11, ROWS + 9),
        lower(r, 11),
        floats(r, 11, ROWS),
        np.append(np.full(10, 2.0**-20), 0.0),
        zeros(float, 11, ROWS + 9),
        5,
        True,
    ],
    "add_between": lambda r: [
        floats(r, 5, ROWS),
        0.6,
        floats(r, 5, ROWS),
        0.4,
        floats(r, 5, ROWS),
        lower(r, 5),
        words(r, 6 * ROWS),
        words(r, 6 * ROWS),
        np.full(5, 2.0**-20),
        zeros(float, 5, ROWS),
        zeros(float, 5, ROWS + 9),
        5,
        False,
    ],
    "round_to_grid": lambda r: [floats(r, 3, ROWS), np.array([0.5, 0.0, 2.0**-20])],
    "carry_over": lambda r: [
        floats(r, 3, 6),
        floats(r, 6, ROWS),
        floats(r, 3, 6),
        floats(r, 6, ROWS),
        lower(r, 3),
        floats(r, 3, ROWS),
        zeros(float, 3, ROWS),
    ],
    "shape_persons": lambda r: [
        floats(r, 11, 90),
        r.integers(0, 90, ROWS),
        lower(r, 11),
        floats(r, 11, ROWS),
        zeros(float, 11, ROWS),
    ],
    "shape_curves": lambda r: [
        floats(r, 5, 11, 13),
        floats(r, 5, 11, 11),
        floats(r, 90, 13),
        r.integers(0, 90, ROWS),
        r.integers(0, 4, ROWS),
        r.integers(0, 2**52, ROWS) / 2.0**52,
        floats(r, ROWS, 11),
        zeros(float, 11, ROWS),
    ],
    "put_on_grid": lambda r: [
        floats(r, 11, ROWS + 9),
        floats(r, 11, ROWS),
        np.append(np.full(10, 2.0**-20), 0.0),
        zeros(float, 11, ROWS + 9),
        5,
    ],
    "apply_exchanges": lambda r: [
        r.integers(0, ROWS, 50),
        r.integers(0, ROWS, 50),
        r.random(50) < 0.3,
        np.array([20, 20, 50]),
        zeros(np.int64, 3, ROWS),
        zeros(np.int32, 3, ROWS),
    ],
    "fill_value_blocks": lambda r: [
        words(r, ROWS, 2),
        r.integers(0, 9, ROWS).astype(np.int32),
        np.arange(0, ROWS, 3),
        words(r, 2 * ROWS),
        zeros(np.uint64, len(range(0, ROWS, 3)), 2),
    ],
    "apply_events": events,
    "log_1p": lambda r: [0.37],
    "hash_texts": lambda r: [*texts(r), words(r, 2), zeros(np.uint64, ROWS, 2)],
    "hash_words": lambda r: [
        words(r, 3, ROWS),
        r.integers(0, 24, ROWS, dtype=np.uint64),
        words(r, 2),
        zeros(np.uint64, ROWS, 2),
    ],
    "fill_row_blocks": lambda r: [
        words(r, ROWS, 2),
        words(r, 4, ROWS),
        7,
        words(r, 4, 2),
        zeros(np.uint64, 600, 2),
    ],
    "take_macs": lambda r: [words(r, 2 * ROWS), words(r, 2), zeros(np.uint64, ROWS)],
    "double_masks": lambda r: [words(r, 200)],
    "add_digit_products": lambda r: [
        with_gaps(floats(r, 7, ROWS)),
        np.full(7, 2.0**18),
        True,
        zeros(np.int64, 28, 28),
        zeros(np.int64, 28),
    ],
    "find_ends": lambda r: [with_gaps(floats(r, 7, ROWS)), zeros(float, 7), zeros(float, 7)],
    "round_covariance": lambda r: [
        r.integers(0, 2**20, (7, 7)),
        *(r.integers(-(2**62), 2**62, (most, 7, 7)) for most in (3, 9, 9)),
        zeros(float, 7, 7),
    ],
    "factor_correlation": lambda r: [
        covariance(r, 7),
        np.array([True] * 6 + [False]),
        2.0**-48,
        zeros(float, 7, 7),
        zeros(bool, 7),
    ],
    "add_by_code": lambda r: [floats(r, ROWS, 7), r.integers(0, 9, ROWS), zeros(float, 9, 7)],
    "diagonalise": lambda r: [covariance(r, 7), np.eye(7), 30],
    "compose": lambda r: [floats(r, 7), floats(r, 7, 7), zeros(float, 7, 7)],
    "sweep_seen": lambda r: [
        covariance(r, 7),
        np.array([0, 2, 3]),
        np.array([1, 5]),
        2.0**-48,
        zeros(float, 2, 3),
        zeros(float, 2, 2),
    ],
    "draw_missing": lambda r: [
        zeros(float, 7, ROWS),
        floats(r, 7, ROWS),
        floats(r, 7, ROWS),
        np.arange(0, ROWS, 5),
        np.array([0, 2, 3]),
        np.array([1, 5]),
        floats(r, 7),
        floats(r, 2, 3),
        lower(r, 2),
    ],
    "fill_number_hashes": lambda r: [
        with_gaps(floats(r, ROWS)),
        words(r, 3),
        29,
        zeros(np.uint64, ROWS),
    ],
    "mix_words": lambda r: [words(r, ROWS)],
    "collect_hashes": lambda r: [words(r, ROWS), floats(r, ROWS), True, 0, 2**63, *slots()],
    "look_at_cells": lambda r: [
        np.rint(with_gaps(floats(r, ROWS)) * 40),
        zeros(np.uint64, 0),
        words(r, 3),
        29,
        2**63,
        2**63,
        words(r, ROWS),
        *slots(),
        *slots(),
        zeros(np.uint64, 4),
    ],
    "merge_sketches": lambda r: [
        *sketch(r, 300),
        *sketch(r, 400),
        zeros(np.uint64, 512),
        zeros(np.int64, 512),
        zeros(float, 512),
    ],
    "find_steps": lambda r: [np.cumsum(r.integers(0, 5, ROWS)) * 0.5, zeros(np.uint64, 16)],
    "settle_floats": lambda r: [with_gaps(floats(r, ROWS)), zeros(float, ROWS)],
    "number_by_appearance": lambda r: [
        np.array([3, 1, -1, 0, 2, -1]),
        r.integers(-1, 6, ROWS).astype(np.int32),
        np.full(4, -1, dtype=np.int32),
        zeros(np.int64, 4),
        zeros(np.int32, ROWS),
    ],
    "fill_log1p": lambda r: [np.abs(with_gaps(floats(r, ROWS))), zeros(float, ROWS)],
    "fill_minus_log": lambda r: [r.uniform(0.001, 1, ROWS), zeros(float, ROWS)],
    "fill_expm1": lambda r: [with_gaps(300 * floats(r, ROWS)), zeros(float, ROWS)],
    "fill_rank_scores": ranks,
    "fill_interpolated": lambda r: [
        with_gaps(floats(r, ROWS)),
        np.sort(floats(r, 40)),
        floats(r, 40),
        zeros(float, ROWS),
    ],
    "write_csv": csv,
    "kind_of_cells": cells,
    "cut_texts": lambda r: [
        np.arange(ROWS + 1) * 4,
        np.frombuffer(b"-_ab:/|# ", dtype=np.uint8)[r.integers(0, 9, 4 * ROWS)],
        3,
        zeros(np.int64, ROWS),
        zeros(np.uint8, 4 * ROWS),
    ],
    "fill_whole_texts": lambda r: [
        r.integers(0, 2**62, ROWS) >> r.integers(0, 62, ROWS),
        zeros(np.uint64, ROWS),
        zeros(np.uint64, 3, ROWS),
    ],
    "spell_pseudonyms": lambda r: [words(r, ROWS, 2), zeros(np.uint8, ROWS, 20)],
    "fill_cell_hashes": lambda r: [
        floats(r, 3, 10, 64),
        6,
        3,
        np.array([1e-4, 1e-4, 2.0]),
        2**63,
        zeros(np.int64, 3),
        zeros(np.uint64, 3 * 64),
        zeros(np.int64, 2),
    ],
    "count_sums": lambda r: [50 * floats(r, 3, 200)],
}


Calls = Mapping[str, Callable[[Generator], list[Any]]]


def arguments(name: str, calls: Calls = CALLS) -> list[Any]:
    """The same arguments every time, in memory of their own."""
    return calls[name](np.random.default_rng(list(name.encode())))


def digest(module: ModuleType, calls: Calls = CALLS) -> str:
    """A hash of what all kernels return and fill in."""
    found = hashlib.sha256()
    for name in sorted(calls):
        given = arguments(name, calls)
        found.update(repr((name, getattr(module, name)(*given))).encode())
        for array in given:
            found.update(array.tobytes() if isinstance(array, np.ndarray) else b"")
    return found.hexdigest()


def damaged(array: np.ndarray) -> Iterator[tuple[bool, Any]]:
    """Other values in the place of an array, and whether each must be refused."""
    yield True, None
    yield True, array.tolist()
    yield True, array.astype(np.float32)
    yield True, array[None]
    if not array.size:
        return
    yield True, array[..., 0]
    yield array.size > 1, np.repeat(array, 2, axis=-1)[..., ::2]  # every second cell of memory
    yield array.size > 1, array[..., ::-1]
    yield True, np.broadcast_to(array[:1], (2**40, *array.shape[1:]))  # huge, in the memory of one
    # of another shape: may be refused, and if not, does no harm
    yield False, array[:0]
    yield False, array[:-1].copy()
    yield False, np.concatenate([array, array])
    yield False, np.zeros_like(array)
    if array.dtype.kind in "iu":
        yield False, np.full_like(array, np.iinfo(array.dtype).max)
        yield False, np.full_like(array, np.iinfo(array.dtype).min)
    if array.dtype != bool:
        yield False, ~array if array.dtype.kind in "iu" else array * np.nan


@np.errstate(all="ignore")
def try_damaged(module: ModuleType) -> int:
    """Call every kernel with each argument damaged; return how often it refused."""
    refused = 0
    for name in CALLS:
        for place, argument in enumerate(arguments(name)):
            changes = damaged(argument) if isinstance(argument, np.ndarray) else numbers(argument)
            for must, change in changes:
                given = arguments(name)
                given[place] = change
                try:
                    getattr(module, name)(*given)
                except (TypeError, ValueError):
                    refused += 1
                else:
                    assert not must, f"{name}, argument {place}: {type(change)} is accepted"
    return refused


def numbers(argument: float) -> Iterator[tuple[bool, Any]]:
    """Other values in the place of a number."""
    yield True, None
    yield True, "1"
    if type(argument) is int:
        yield True, 1.5
        yield True, 2**64
        yield False, 2**62
        yield False, 2**63 - 1
        yield False, -1
    if type(argument) is float:
        yield False, float("nan")


def load(path: Path) -> ModuleType:
    """Load a module of the core from any place."""
    name = path.name.partition(".")[0]
    spec = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, str(path)))
    assert spec is not None
    module = module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    loaded = load(Path(sys.argv[1]))
    print(digest(loaded), try_damaged(loaded))
