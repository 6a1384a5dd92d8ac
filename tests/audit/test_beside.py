"""What stands beside the noise without any: the audit names each column that it reveals."""

import json
import warnings
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import ALPHA, Audit, as_json, audit, notes, verdict
from cornerwave.audit._attacks import Adversary, Revealed, Target, coordinates
from cornerwave.audit._fits import FOLDS, boost, encode, ridge, split, standard
from cornerwave.audit._groupings import _sums as _lag_sums
from cornerwave.audit._groupings import (
    choose,
    parts_of_numbers,
    parts_of_texts,
    rows_alike,
    share_between,
)
from cornerwave.audit._noise_free import NoiseFree
from cornerwave.columns import rank_scale
from cornerwave.errors import CornerwaveWarning
from tests.audit.beside import (
    LEAKS,
    PARTS,
    TOGETHER,
    Leak,
    copy_of,
    many_values,
    on_a_map,
    stacked,
    turned,
    visits,
    write,
)
from tests.audit.releases import binomial_limit, known_dataset
from tests.audit.schemes import texts
from tests.audit.shown import findings, tables
from tests.conftest import Counted


def short(found: Audit) -> set[str]:
    return {left.column for own in found.whole for left in own if left.short}


def attacked(folder: Path, leak: Leak, rows: int) -> tuple[Audit, Audit]:
    """The audit of a copy that leaks, and of one with the column that does it permuted."""
    rng = np.random.default_rng(1)
    table = leak.make(rows, rng)
    free = leak.permuted(table, rng)
    return tuple(
        audit(each, [write(folder, each, leak.kept, leak.privacy, rng, name)])
        for each, name in ((table, "leaks"), (free, "honest"))
    )


def judge(leak: Leak, found: Audit, honest: Audit) -> None:
    assert {check.name for check in found.faults} == {"whole copy"}  # no other check sees it
    assert short(found) == {leak.column}
    assert f"of {leak.column} stays hidden from" in verdict(found)
    assert f"it states {leak.privacy:.3f}" in verdict(found)
    assert honest.sound, findings(honest)


ALIKE = (
    "1,000 kept values",
    "1,000 refreshed values",
    "3,000 refreshed values",
    "a map at 0.8",
    "end of code, a domain",
    "last 2 digits of code",
    "hour of at",
    "day of the month of at",
    "days to the end of the month of at",
    "k0 with k2 with k3",
)
"""Leaks that are found as another one is."""


def those(names: Iterable[str]) -> list[Any]:
    """Return leaks as parameters; of those that are found alike, one is in every run."""
    return [pytest.param(n, marks=pytest.mark.slow) if n in ALIKE else n for n in names]


@pytest.mark.parametrize("name", those(LEAKS))
@pytest.mark.first(2)
def test_the_audit_names_what_a_column_without_noise_reveals(tmp_path: Path, name: str) -> None:
    leak = LEAKS[name]
    judge(leak, *attacked(tmp_path, leak, leak.quick))


@pytest.mark.slow
@pytest.mark.parametrize("name", LEAKS)
def test_it_does_so_in_tables_of_the_size_that_was_attacked(tmp_path: Path, name: str) -> None:
    leak = LEAKS[name]
    judge(leak, *attacked(tmp_path, leak, leak.rows))


@pytest.mark.parametrize("name", those([*PARTS, *TOGETHER]))
@pytest.mark.first(1)
def test_it_names_the_part_of_a_column_or_the_columns_that_reveal_most(
    tmp_path: Path, name: str
) -> None:
    leak = (PARTS | TOGETHER)[name]
    found, honest = attacked(tmp_path, leak, leak.quick)
    judge(leak, found, honest)
    assert name.split(",")[0] in verdict(found), verdict(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PARTS, *TOGETHER])
def test_it_does_so_in_larger_tables(tmp_path: Path, name: str) -> None:
    leak = (PARTS | TOGETHER)[name]
    judge(leak, *attacked(tmp_path, leak, leak.rows))


@pytest.mark.slow
@pytest.mark.parametrize("values", [30, 100])
def test_weights_may_depend_on_each_of_many_values(tmp_path: Path, values: int) -> None:
    """No mean depends on the kept value; how the numbers go together does."""
    rng = np.random.default_rng(9)
    table = turned(8000, rng, values)
    found = audit(table, [write(tmp_path, table, ["kind"], 0.5, rng)])
    assert short(found) == {f"z{n}" for n in range(5)}
    assert "kind (a fit for each of its values)" in verdict(found)
    mixed = table.set_column(0, "kind", table["kind"].take(pa.array(rng.permutation(8000))))
    honest = audit(mixed, [write(tmp_path, mixed, ["kind"], 0.5, rng)])
    assert honest.sound, findings(honest)


def gaps_audited(folder: Path, table: pa.Table, kind: np.ndarray) -> Audit:
    """The audit of a copy that shows a value only by which of six more numbers are missing."""
    rng = np.random.default_rng(10)
    full = table.drop_columns(["kind"])
    for bit in range(6):
        full = full.append_column(f"gap{bit}", pa.array(rng.normal(size=len(kind))))

    def masked(made: pa.Table) -> pa.Table:
        for bit in range(6):
            name, gaps = f"gap{bit}", (kind >> bit & 1) == 1
            place = made.column_names.index(name)
            made = made.set_column(place, name, pa.array(made[name].to_numpy(), mask=gaps))
        return made.replace_schema_metadata({b"cornerwave": json.dumps(told).encode()})

    told = {"noise": 1.0, "privacy": 0.5}
    papq.write_table(masked(copy_of(full, (), 0.5, rng)), folder / "gaps.parquet")
    return audit(masked(full).replace_schema_metadata(None), [folder / "gaps.parquet"])


@pytest.mark.slow
def test_weights_may_depend_on_which_cells_are_missing(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    table = turned(8000, rng, 64)
    kind = np.array([int(str(text).split()[1]) for text in table["kind"].to_pylist()])
    found = gaps_audited(tmp_path, table, kind)
    assert short(found) == {f"z{n}" for n in range(5)}
    assert "which cells are missing (a fit for each of its values)" in " ".join(findings(found))
    honest = gaps_audited(tmp_path, table, rng.permutation(kind))
    assert not short(honest), findings(honest)


@pytest.mark.parametrize(
    ("waves", "back", "named"),
    [
        (8, False, "rows 1,000 apart"),
        (2, False, "rows 4,000 apart"),
        (2, True, "rows mirrored around row 4,000.5"),
    ],
)
@pytest.mark.first(1)
def test_rows_that_belong_together_far_apart_in_the_file(
    tmp_path: Path, waves: int, back: bool, named: str
) -> None:
    rng = np.random.default_rng(12)
    table = stacked(8000, rng, waves, back=back)
    found = audit(table, [write(tmp_path, table, (), 0.5, rng)])
    assert short(found) == {"level"}
    assert named in verdict(found)
    shuffled = table.take(pa.array(rng.permutation(8000)))
    assert audit(shuffled, [write(tmp_path, shuffled, (), 0.5, rng)]).sound


def test_distances_in_the_file_are_found_as_a_loop_would_find_them() -> None:
    """One Fourier transform gives every sum of products; here by hand."""
    rng = np.random.default_rng(13)
    rows = standard(rng.normal(size=(1, 301)))
    ahead, back = _lag_sums(rows)
    row, n = rows[0], 301

    def a(lag: int) -> float:
        return float(row[: n - lag] @ row[lag:]) / np.sqrt(n - lag)

    def c(total: int) -> float:
        pairs = [(i, total - i) for i in range(n) if i < total - i < n]
        return float(sum(row[i] * row[k] for i, k in pairs)) / np.sqrt(len(pairs))

    assert ahead[0, 40] == pytest.approx(a(40) - (a(39) + a(41)) / 2)
    for total in (200, 300, 401):
        assert back[0, total] == pytest.approx(c(total) - (c(total - 1) + c(total + 1)) / 2)
    assert rows_alike(standard(rng.normal(size=(5, 4000)))) == {}


def test_parts_are_what_a_calendar_and_a_reader_say() -> None:
    seconds = np.array([0.0, 86400.0 * 58 + 3661, np.nan])  # 1 January and 28 February 1970
    times = np.repeat(seconds, 4)
    found = dict(parts_of_numbers("t", times, "seconds since 1970-01-01 UTC"))
    weekday = np.array([datetime(1970, 1, 1).weekday(), datetime(1970, 2, 28).weekday()])
    assert (np.diff(found["weekday of t"][[0, 4]]) > 0) == (np.diff(weekday) > 0)
    assert found["hour of t"].tolist() == np.repeat([1, 2, 0], 4).tolist()  # missing is apart
    texts = ["a-1-x", "b-1-y", "c-2-x", "d-2-y", "e-1-x", "f-2-y"]
    parts: dict[str, list[list[int]]] = {}
    for name, code in parts_of_texts("t", texts, np.arange(6)):
        parts.setdefault(name, []).append(code.tolist())
    assert [1, 1, 2, 2, 1, 2] in parts["word 2 of t"]
    assert [1, 2, 1, 2, 1, 2] in parts["end of t"]
    assert "length of t" not in parts  # all are equally long


def test_screening_takes_what_explains_and_nothing_by_chance() -> None:
    rng = np.random.default_rng(14)
    n = 4000
    codes = [rng.integers(k, size=n) for k in (2, 5, 40, 400)]
    truth = standard((rng.normal(size=40)[codes[2]] + rng.normal(size=n))[None])
    assert choose(codes, [], truth) == [2]
    assert choose(codes, [codes[2]], truth) == []
    share, chance = share_between(codes[2], truth)
    groups = [truth[0, codes[2] == k] for k in range(40)]
    within = sum(float(((own - own.mean()) ** 2).sum()) for own in groups) / (n - 40)
    assert share[0] == pytest.approx(1 - within - 3 * np.sqrt(80) / n)
    assert chance[0] < 1e-100
    passed = sum(bool(choose(codes, [], standard(rng.normal(size=(4, n))))) for _ in range(50))
    assert passed == 0  # 800 comparisons of 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a prefix of the key", "20,000 kept values"])
def test_small_groups_of_a_long_table_are_read_whole(tmp_path: Path, name: str) -> None:
    """A sample of every 16th row holds hardly two rows of a group."""
    leak = {
        "a prefix of the key": Leak(visits, "height", "id", 400_000, frozenset({"id"}), 0.8),
        "20,000 kept values": Leak(
            lambda rows, rng: many_values(rows, rng, 20_000),
            "income",
            "place",
            400_000,
            frozenset({"place"}),
            0.8,
        ),
    }[name]
    found, honest = attacked(tmp_path, leak, leak.rows)
    judge(leak, found, honest)
    assert f"rows that are close in {leak.reveals}" in verdict(found)


def test_a_number_on_ranks_is_attacked_too(tmp_path: Path) -> None:
    """Its noise is judged apart, but a map beside it reveals it like any other."""
    rng = np.random.default_rng(2)
    table = on_a_map(3000, rng)
    price = table["price"].to_numpy()
    scale = rank_scale(price, "price")
    T = scale.forward(price, "price")
    shown = scale.backward(T + rng.normal(0, T.std(), len(T)))
    told = {
        "noise": 1.0,
        "privacy": 0.5,
        "columns": {
            "price": {"role": "perturbed", "transform": "rank"},
            "lat": {"role": "kept"},
            "lon": {"role": "kept"},
        },
    }
    copy = table.set_column(2, "price", pa.array(shown))
    path = tmp_path / "copy.parquet"
    papq.write_table(copy.replace_schema_metadata({b"cornerwave": json.dumps(told).encode()}), path)
    assert short(audit(table, [path])) == {"price"}
    alone = copy.select(["price"]).replace_schema_metadata(
        {b"cornerwave": json.dumps(told).encode()}
    )
    papq.write_table(alone, path)
    assert audit(table.select(["price"]), [path]).sound


def test_the_order_of_the_rows_is_attacked_unless_the_owner_chose_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    wave = np.sin(np.arange(4000) / 100) + 0.2 * rng.normal(size=4000)
    table = pa.table({"level": wave, "age": rng.normal(size=4000)})
    path = write(tmp_path, table, (), 0.8, rng)
    assert short(audit(table, [path])) == {"level"}
    shuffled = table.take(pa.array(rng.permutation(4000)))
    assert audit(shuffled, [write(tmp_path, shuffled, (), 0.8, rng)]).sound


def test_what_is_measured_is_shown(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    leak = LEAKS["a bend"]
    table = leak.make(leak.quick, rng)
    found = audit(table, [write(tmp_path, table, leak.kept, 0.5, rng)])
    [copy] = as_json(found)["copies"]
    assert copy["whole_copy"]["cost"]["attack"] in {"cells", "fitted", "smoothed", "together"}
    assert copy["hidden_from_boosting"]["cost"] < 0.2
    assert any("boosting" in title for title in tables(found))
    few = leak.make(300, rng)
    lines = notes(audit(few, [write(tmp_path, few, leak.kept, 0.5, rng, "few")]))
    assert any("300 rows are too few for boosting" in line for line in lines)


def test_nothing_is_recovered_from_what_is_unrelated() -> None:
    """Every estimate is scored in other rows: small groups and many coordinates tell nothing."""
    rng = np.random.default_rng(5)
    n = 4000
    t, part = rng.normal(size=n), split(n)
    pairs = rng.permutation(np.arange(n) // 2)
    everywhere = np.ones(n, dtype=bool)
    estimates = {
        "ridge": ridge(standard(rng.normal(size=(200, n))), t[None], part)[0],
        "encode": encode(pairs, t[None], part)[0],
        "boost": boost(rng.normal(size=(2, n)), [pairs], t, everywhere, part),
    }
    # the mean of n squares has a standard deviation of sqrt(2 / n)
    for name, estimate in estimates.items():
        assert np.mean((t - estimate) ** 2) > np.var(t) - 4 * np.sqrt(2 / n), name


def test_a_copy_is_smoothed_as_a_loop_over_its_rows_would() -> None:
    """The mean of the other rows with the same value, then of the nearest, by hand."""
    rng = np.random.default_rng(6)
    n = 2000
    code, east = rng.integers(20, size=n), rng.uniform(size=n)
    free = NoiseFree.of(
        n,
        numbers={"east": east},
        values={"code": ([f"v{k}" for k in range(20)], code)},
        orders={},
        gaps=np.zeros((0, n), dtype=bool),
    )
    row = standard(rng.normal(size=(1, n)) + rng.normal(size=20)[code])[0]
    means = list(free._means(row))
    order = np.argsort(east)
    moving = means[2]  # 51 rows in the order of east
    for place in (0, 700, n - 1):
        near = [k for k in range(max(place - 25, 0), min(place + 26, n)) if k != place]
        assert moving[order[place]] == pytest.approx(row[order[near]].mean())
    others = (code == code[7]) & (np.arange(n) != 7)
    assert means[-1][7] == pytest.approx(row[others].mean(), rel=0.2)  # shrunk a little
    assert np.corrcoef(free.smooth(row[None])[0], row)[0, 1] > 0.4


def test_coordinates_of_many_values_stand_for_all_of_them() -> None:
    """The squared distance of two codes is that of their indicators, on average."""
    rng = np.random.default_rng(7)
    codes = rng.integers(300, size=20_000)
    counts = np.bincount(codes)
    Z = coordinates(codes, counts, 24)
    assert Z.shape == (24, 20_000)
    pi = counts / counts.sum()
    assert Z.var(axis=1).sum() == pytest.approx(1 - (pi**2).sum(), rel=0.05)
    few = coordinates(codes % 5, np.bincount(codes % 5), 24)
    assert few.sum(axis=0).tolist() == [1.0] * 20_000
    assert np.isnan(coordinates(np.array([0, -1]), np.array([1]), 24)[:, 1]).all()


def test_without_anything_free_of_noise_there_is_one_attack() -> None:
    rng = np.random.default_rng(8)
    n = 400
    empty = NoiseFree.of(n, numbers={}, values={}, orders={}, gaps=np.zeros((1, n), dtype=bool))
    T = rng.normal(size=(1, n))
    shown = {"a": T + rng.normal(size=(1, n))}
    losses = Adversary(shown, ("a",), {}, Revealed(empty)).losses([Target("a", ("a",), T, False)])
    assert set(losses["a"]) == {"linear"}
    assert losses["a"]["linear"].mean() == pytest.approx(0.5, abs=0.15)
    assert FOLDS > 1


def small(rows: int, rng: np.random.Generator) -> pa.Table:
    """Kept columns that tell a little, in straight lines and by their values, and gaps."""
    year, place = rng.integers(1990, 2020, rows), rng.integers(40, size=rows)
    wage = part = 0.02 * (year - 2005) + rng.normal(size=rows)
    return pa.table(
        {
            "wage": wage,
            "tax": pa.array(part / 3 + rng.normal(size=rows), mask=rng.random(rows) < 0.1),
            "kind": texts((part + rng.normal(size=rows) > 0).astype(int)),
            "year": year,
            "place": texts(place),
            "east": rng.uniform(size=rows),
        }
    )


@pytest.mark.slow
def test_false_alarms_over_40_honest_releases_with_kept_columns(
    tmp_path: Path, counted: Counted
) -> None:
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 12])
        table = small(int(rng.integers(150, 3000)), rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CornerwaveWarning)
            dataset = known_dataset(
                tmp_path / str(seed), table, number=seed + 1, keep=["year", "place", "east"]
            )
        privacies = [p for p in (0.3, 0.6) if p <= dataset.frozen.hidden.highest]
        paths = [
            dataset.release(to=f"{p}", privacy=p).write(tmp_path / f"{seed} {p}.parquet")
            for p in privacies
        ]
        alarms += not audit(table, paths).sound
    print(f"{alarms} alarms in 40 honest audits with kept columns")
    assert alarms <= binomial_limit(40, ALPHA, 0.001)
    counted("honest", 40)
