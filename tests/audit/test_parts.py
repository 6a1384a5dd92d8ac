"""What an audit keeps of rows adds up: in any grouping, on any machine."""

import pickle
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa

from cornerwave.audit import Aligned, AlignedCategories, AlignedRows
from cornerwave.audit._guesses import CategoriesPass
from cornerwave.audit._numbers import NumbersPass
from cornerwave.columns import Encoded
from tests.audit.releases import frame, gaussian, ours

ROWS, AT_ONCE = 3000, 500


def sent(part):
    """A part as another machine would send it."""
    return pickle.loads(pickle.dumps(part.trimmed()))


def in_order(parts):
    return reduce(add, parts)


def in_a_tree(parts):
    """The same parts, each machine with some of them."""
    return sent(in_order(parts[:2])) + sent(in_order(parts[2:5])) + sent(in_order(parts[5:]))


def test_numbers_add_up_in_any_grouping():
    X = gaussian(ROWS)
    X[::7, 1] = np.nan
    copies = [np.where(np.isnan(X), np.nan, Y) for Y in ours(np.nan_to_num(X), (0.5, 2.0))]
    aligned = Aligned.of(frame(X), [frame(Y) for Y in copies])
    tables = [np.ascontiguousarray(table.T) for table in (X, *copies)]
    blocks = [
        AlignedRows(k, start, part, part)
        for k, start in enumerate(range(0, ROWS, AT_ONCE))
        if (part := [table[:, start : start + AT_ONCE] for table in tables])
    ]
    pass_ = NumbersPass.of_first(aligned, blocks[0])
    parts = [pass_.of(block, pass_.nothing()) for block in blocks]
    one, other = (pass_.finish(pass_.nothing() + how(parts)) for how in (in_order, in_a_tree))
    np.testing.assert_allclose(one.found.sums, other.found.sums, rtol=1e-12, atol=1e-6)
    np.testing.assert_allclose(one.found.K, other.found.K, rtol=1e-12)
    assert one.found.rows == other.found.rows == ROWS
    assert one.found.complete == other.found.complete == ROWS - len(X[::7])
    np.testing.assert_array_equal(one.kept.cells, other.kept.cells)
    np.testing.assert_array_equal(one.kept.cells, np.stack(tables))
    np.testing.assert_allclose(one.watched.reach, other.watched.reach, rtol=1e-12)
    np.testing.assert_array_equal(one.repeated.pairs, other.repeated.pairs)
    for own, another in zip(one.watched.near.flat, other.watched.near.flat, strict=True):
        np.testing.assert_array_equal(np.sort(own[0]), np.sort(another[0]))


def test_categories_add_up_in_any_grouping_and_gaps_stay_gaps():
    rng = np.random.default_rng(1)
    held = rng.integers(40, size=(2, ROWS))
    columns = [pa.array([f"v{c}" if c else None for c in row]) for row in held.tolist()]
    pass_ = CategoriesPass((("c",),), 1)
    parts = []
    for start in range(0, ROWS, AT_ONCE):
        some = [Encoded.of(column.slice(start, AT_ONCE), "c") for column in columns]
        block = AlignedCategories(start, [{"c": own} for own in some])
        parts.append(pass_.of(block, pass_.nothing()))
    for found in (in_order(parts), in_a_tree(parts)):
        [shown] = (pass_.nothing() + found).shown
        assert [[shown.values[c][0] for c in row] for row in shown.codes.tolist()] == [
            column.to_pylist() for column in columns
        ]
        counted = dict(
            zip((value[0] for value in shown.values), shown.counts.tolist(), strict=True)
        )
        assert counted == {
            f"v{c}" if c else None: int(n) for c, n in enumerate(np.bincount(held[0]))
        }
