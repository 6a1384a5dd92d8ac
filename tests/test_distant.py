"""Rows far apart that tell of each other: waves stacked in one order, or in the mirrored one."""

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.errors import ColumnError
from cornerwave.inspection import draft, inspect
from cornerwave.privacy import ALPHA, DistantRows, RowOrder, Ties
from cornerwave.sources import open_source

WAVES = {  # people, waves
    "eight": (2500, 8),
    "three": (2500, 3),
    "two": (10_000, 2),
    "a lag that no list of lags has": (100, 8),
    "a prime number of people, in blocks": (100_003, 4),
}


def waves(random, people, number, *, share=0.8, mirrored=False):
    """A number of people that stays the same by a share of its variance, wave after wave."""
    stays = np.sqrt(share) * random.normal(size=people)
    rows = [stays + np.sqrt(1 - share) * random.normal(size=people) for _ in range(number)]
    return np.concatenate([row[:: -1 if mirrored and n % 2 else 1] for n, row in enumerate(rows)])


def told(rows, numbers=("x",), categories=(), **known):
    order, table = RowOrder([*numbers, *categories]), pa.table(rows)
    for start in range(0, table.num_rows, 1 << 14):
        order.add(start, table.slice(start, 1 << 14))
    return {each.column: each for each in order.revealed(numbers, categories, **known)}


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize(("people", "number"), WAVES.values(), ids=WAVES)
def test_waves_in_one_order_are_told(people, number, mirrored):
    random = np.random.default_rng(people + number)
    x = waves(random, people, number, mirrored=mirrored)
    found = told({"x": x, "y": random.normal(size=len(x))}, ("x", "y"))
    assert list(found) == ["x"]
    assert ("mirrored" in found["x"].where) or not mirrored
    assert mirrored or f"rows {people:,} rows apart" in str(found["x"])
    # the same people, each wave in an order of its own
    mixed = [random.permutation(wave) for wave in x.reshape(number, people)]
    assert not told({"x": np.concatenate(mixed)})


def test_the_larger_figure_is_shown():
    """People in random order have neighbours alike by chance, and again in every wave."""
    x = waves(np.random.default_rng(7), 400, 60)
    found = told({"x": x})["x"]
    assert "rows 400 rows apart" in found.where
    assert found.share > 0.3


def test_the_figure_is_what_the_smoother_leaves():
    """K rows of a person that share r: with l = 1 + (K-1) r, (1/K) l v/(l+v) + (1-1/K) ..."""
    people, number, r = 2500, 8, 0.8
    rows = DistantRows(["x"])
    x = waves(np.random.default_rng(1), people, number, share=r)
    rows.take(rows.of(0, pa.table({"x": x})))
    found = rows.found(["x"], [], alpha=ALPHA)["x"]
    assert sorted(found.lags) == [people * k for k in range(1, number)]
    top, rest = 1 + (number - 1) * r, 1 - r
    exact = top / (top + 1) / number + rest / (rest + 1) * (1 - 1 / number)
    # ranks of normal numbers correlate as 6 asin(r/2) / pi, 0.786; 2,500 people
    assert rows.left_hidden(found, np.array([0.5])) == pytest.approx([exact], abs=0.02)
    assert rows.left_hidden(Ties({}, {}), np.array([0.5])) == pytest.approx([0.5])


def test_rows_of_a_batch_are_compared_as_those_of_a_table():
    """Whatever lies before them: neither what is found nor the time depends on it."""
    table = pa.table({"x": waves(np.random.default_rng(1), 2500, 8)})
    found = []
    for first in (0, 10**12):  # a transform from the table's first row on would not fit in memory
        rows = DistantRows(["x"])
        rows.take(rows.of(first, table))
        ties = rows.found(["x"], [], alpha=ALPHA)["x"]
        found.append((ties, rows.left_hidden(ties, np.array([0.5])).tolist()))
    assert found[0] == found[1]
    assert sorted(found[0][0].lags) == [2500 * k for k in range(1, 8)]


def test_categories_gaps_and_long_tails_are_told_too():
    random = np.random.default_rng(2)
    people, number = 2000, 6
    x = waves(random, people, number)
    some = random.random(len(x)) < 0.3
    table = {
        "tails": np.sign(x) * np.expm1(np.abs(x) * 5),
        "gaps": np.where(some, np.nan, x),
        "whole": np.round(x).astype(int),
        "two": np.where(x > 0.5, "a", "b"),
        "many": np.tile(np.arange(people), number).astype(str),
    }
    for name in ("tails", "gaps", "whole"):
        assert list(told({name: table[name]}, (name,))) == [name]
    for name in ("two", "many", "whole"):
        assert list(told({name: table[name]}, (), (name,))) == [name]
    # which values are missing counts where that is hidden
    gone = pa.array(np.where(x > 0.5, "a", None).tolist(), pa.string())
    assert list(told({"g": gone}, (), ("g",), hide_missing=("g",))) == ["g"]
    assert not told({"g": gone}, (), ("g",))


def test_weak_ties_to_many_rows_are_told_together():
    x = waves(np.random.default_rng(3), 200, 150, share=0.05)
    assert list(told({"x": x})) == ["x"]


def test_rows_in_random_order_tell_nothing():
    """30 tables of 5 columns: one alarm among them has probability 30 ALPHA."""
    for seed in range(30):
        random = np.random.default_rng(seed)
        n = int(random.integers(100, 30_000))
        rows = {
            "even": random.random(n),
            "tails": random.standard_cauchy(n),
            "zeros": np.where(random.random(n) < 0.9, 0.0, random.lognormal(0, 3, n)),
            "rare": random.random(n) < 0.001,
            "text": random.zipf(1.5, n).astype(str),
        }
        rows["rare"] = rows["rare"].astype(float)
        assert not told(rows, ("even", "tails", "zeros", "rare"), ("text",))
    assert 30 * ALPHA < 1e-4


def test_parts_add_up_in_any_order():
    """Of a large table some stretches are kept: the same from any parts, in any order."""
    random = np.random.default_rng(4)
    table = pa.table({"x": waves(random, 100_000, 3)})

    def kept(size, order, rows=None):
        found = DistantRows(["x"], rows=rows, most=1 << 16)
        starts = range(0, table.num_rows, size)
        parts = [found.of(start, table.slice(start, size)) for start in starts]
        for place in order(len(parts)):
            found.take(parts[place])
        cells = sorted((start + n, c) for start, part in found.parts for n, c in enumerate(part[0]))
        return found, cells

    first, cells = kept(300_000, range)
    assert 1 << 14 < len(cells) <= 1 << 16
    for size, rows in ((7001, None), (50_000, 300_000)):
        other, same = kept(size, random.permutation, rows)
        assert same == cells
        assert other.found(["x"], [], alpha=ALPHA) == first.found(["x"], [], alpha=ALPHA)
    assert next(iter(first.found(["x"], [], alpha=ALPHA)["x"].lags)) % 100_000 == 0


def test_registration_refuses_stacked_waves(vault, untouched):
    random = np.random.default_rng(5)
    table = pa.table({name: waves(random, 2500, 8) for name in "ab"})
    with untouched(), pytest.raises(ColumnError, match=r"rows 2,500 rows apart leave 0\.\d+") as e:
        vault.register("waves", table)
    assert e.value.use == ("shuffle", "keep_order")
    assert "order = " in draft(inspect(open_source(table)))
    vault.register("waves", table, shuffle=True)


@pytest.mark.slow
def test_a_batch_of_stacked_waves_is_refused(vault):
    random = np.random.default_rng(6)
    vault.register("waves", pa.table({"a": random.normal(size=5000)})).append(
        pa.table({"a": random.normal(size=5000)})
    )
    with pytest.raises(ColumnError, match="rows 2,500 rows apart leave"):
        vault.dataset("waves").append(pa.table({"a": waves(random, 2500, 4)}))
