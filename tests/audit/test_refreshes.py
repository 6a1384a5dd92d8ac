"""Are categories refreshed as a copy states? Honest ones pass, planted faults do not."""

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import ALPHA, audit, verdict
from cornerwave.audit._chance import divergences
from cornerwave.errors import CornerwaveWarning
from cornerwave.levels import retention
from tests.audit.releases import binomial_limit, known_dataset
from tests.audit.schemes import texts, truth

ROWS = 20_000
COUNTS = (50, 30, 15, 5)


def source_table(rows=ROWS, seed=1):
    rng = np.random.default_rng(seed)
    kind = truth(seed, rows, COUNTS)
    place = np.minimum(rng.geometric(0.01, rows) - 1, 200)
    return pa.table(
        {
            "kind": texts(kind),
            "code": texts(place),
            "area": texts(place // 10),
            "sign": pa.array(rng.random(rows) < 0.2),
            "note": pa.array(np.array(["x", "y", ""])[kind % 3], mask=rng.random(rows) < 0.3),
            "digits": pa.array([f"{n:03d}" for n in kind]),
            "grade": pa.array(
                np.minimum(rng.geometric(0.4, rows), 12), mask=rng.random(rows) < 0.2
            ),
        }
    )


CHOICES = {
    "marginal": {},
    "uniform": {"uniform": ["kind", "sign"]},
    "hidden": {"hide_missing": ["note"]},
    "together": {"together": [["code", "area"]]},
    "pooled": {"min_count": 60},
    "all at once": {
        "uniform": ["kind"],
        "hide_missing": ["note"],
        "together": [["code", "area"]],
        "min_count": 20,
    },
}


@pytest.mark.filterwarnings("ignore::cornerwave.errors.CornerwaveWarning")
@pytest.mark.parametrize("ending", ["parquet", pytest.param("csv", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("choices", "rows"),
    [
        pytest.param(CHOICES["all at once"], 5000, id="all at once, few"),
        *(
            pytest.param(choices, ROWS, id=name, marks=pytest.mark.slow)
            for name, choices in CHOICES.items()
        ),
    ],
)
def test_honest_releases_pass(tmp_path, choices, rows, ending):
    table = source_table(rows)
    dataset = known_dataset(tmp_path, table, categorical=["grade"], **choices)
    paths = [
        dataset.release(to=f"r{noise}", noise=noise).write(tmp_path / f"r{noise}.{ending}")
        for noise in (0.25, 1.0, 9.0)
    ]
    found = audit(table, paths)
    assert found.clean, [check.note for check in found.faults] + [verdict(found)]
    names = [check.name for check in found.checks]
    each = ("retention", "draws", "replacements", "whole copy")
    expected = dict.fromkeys(each, 3) | {"path": 4}  # three pairs, all three
    assert Counter(names) == expected


def test_a_pool_that_leaves_as_missing_tells_nothing_of_missing_values(tmp_path):
    """Were they apart, a pool shown by one copy and missing in another would give itself away."""
    table = source_table().select(["grade"])
    with pytest.warns(CornerwaveWarning, match="missing already are refreshed with them"):
        dataset = known_dataset(tmp_path, table, categorical=["grade"], min_count=500)
    assert dataset.frozen.missing == ()
    copies = [dataset.release(to="r", noise=noise).to_arrow() for noise in (0.5, 4.0)]
    better, worse = (copy["grade"].to_numpy(zero_copy_only=False) for copy in copies)
    held = table["grade"].to_numpy(zero_copy_only=False)
    shown = np.isnan(better) & ~np.isnan(worse)
    # given the better copy, the worse one says nothing of what is missing: two shares, ALPHA 1e-6
    parts = [np.isnan(held)[shown], np.isnan(held)[np.isnan(better) & ~shown]]
    pooled_share = np.isnan(held)[np.isnan(better)].mean()
    error = np.sqrt(pooled_share * (1 - pooled_share) * sum(1 / len(part) for part in parts))
    assert abs(parts[0].mean() - parts[1].mean()) < 4.9 * error
    assert 0 < parts[0].mean() < 1


def released(folder, table, codes, noise=1.0, base="marginal"):
    """A copy of one category, with metadata that states what it likes."""
    told = {
        "noise": noise,
        "columns": {"kind": {"role": "category", "base": base, "pooled": False, "together": None}},
    }
    copy = pa.table({"kind": texts(codes)}).replace_schema_metadata(
        {b"cornerwave": json.dumps(told).encode()}
    )
    papq.write_table(copy, folder / "copy.parquet")
    return audit(table.select(["kind"]), [folder / "copy.parquet"])


def refreshed(x, keep, base, seed=5):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(x)) < keep, x, rng.choice(len(COUNTS), len(x), p=base))


PI = np.array(COUNTS) / sum(COUNTS)


def test_a_wrong_label_a_value_kept_too_often_and_wrong_draws_are_told_apart(tmp_path):
    table, x, q = source_table(), truth(1, ROWS, COUNTS), retention(1.0)
    assert released(tmp_path, table, refreshed(x, q, PI)).clean
    wrong = released(tmp_path, table, refreshed(x, q, PI), noise=1.2)
    assert next(check.name for check in wrong.faults) == "retention"
    assert "kind retains" in wrong.faults[0].note
    favoured = released(tmp_path, table, refreshed(x, np.where(x == 3, 0.95, q), PI))
    assert next("is retained more or less often" in check.note for check in favoured.faults)
    even = released(tmp_path, table, refreshed(x, q, np.full(4, 0.25)))
    assert "draws" in {check.name for check in even.faults}
    assert released(tmp_path, table, refreshed(x, q, np.full(4, 0.25)), base="uniform").clean
    bare = released(tmp_path, table, x)
    assert {check.name for check in bare.faults} == {"retention", "draws"}


def test_values_that_happen_not_to_show_are_not_taken_for_pooled(tmp_path):
    """600 values of three rows each, much noise: a third of them is nowhere to be seen."""
    cells = [f"v{i}" for i in range(600) for _ in range(3)] + [f"rare {i}" for i in range(8)]
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        dataset = known_dataset(
            folder, pa.table({"c": cells}), number=number, min_count=3, keep_order=True
        )
        path = dataset.release(to="r", privacy=0.9).write(folder / "r.parquet")
        found = audit(pa.table({"c": cells}), [path])
        assert found.sound
        # three rows of a value may be too few to measure what stays hidden of it
        assert all("not measured precisely" in why for why in found.untested.values())


def test_few_rows_and_little_noise_are_no_fault(tmp_path):
    """One changed cell of a hundred, where a fifth of one was expected: chance, not a fault."""
    cells = np.random.default_rng(1).permutation(["x", "y"] * 50)
    dataset = known_dataset(tmp_path, pa.table({"c": cells}), few_rows=True)
    for privacy in (0.001, 0.002, 0.004, 0.008, 0.016):
        path = dataset.release(to="r", privacy=privacy).write(tmp_path / f"{privacy}.parquet")
        found = audit(pa.table({"c": cells}), [path])
        assert found.sound
        assert all("not measured precisely" in why for why in found.untested.values())


def test_a_value_that_the_source_does_not_hold_is_found(tmp_path):
    table, x = source_table(), truth(1, ROWS, COUNTS)
    codes = refreshed(x, retention(1.0), PI)
    codes[17] = 9
    found = released(tmp_path, table, codes)
    assert [check.note for check in found.faults] == [
        "kind shows values that the source does not hold"
    ]


def test_digits_of_a_csv_copy_stay_text(tmp_path):
    table = pa.table({"digits": pa.array([f"{n:03d}" for n in truth(1, ROWS, COUNTS)])})
    pacsv.write_csv(table, tmp_path / "copy.csv")
    found = audit(table, [tmp_path / "copy.csv"])
    assert [check.note for check in found.faults] == ["has no noise: it is the source"]


def test_scores_of_binomial_counts_keep_their_bound():
    """P(score > z) < 2 exp(-z^2/2): exactly, from the binomial law, for few and many rows."""
    for n, p in [(5, 0.1), (40, 0.5), (1000, 0.003)]:
        k = np.arange(n + 1)
        logs = np.cumsum(np.log(np.append(1.0, (n - k[:-1]) / (k[:-1] + 1))))
        law = np.exp(logs + k * np.log(p) + (n - k) * np.log1p(-p))
        scores = divergences(k, np.full(n + 1, n), np.full(n + 1, p))
        for z in (2.0, 3.0, 4.0):
            assert law[scores > z].sum() <= 2 * np.exp(-z * z / 2)


@pytest.mark.slow
def test_false_alarms_over_200_honest_releases_are_within_alpha(tmp_path):
    alarms = 0
    for release in range(200):
        table = source_table(2000, seed=release).select(["kind", "sign", "note"])
        folder = tmp_path / str(release)
        folder.mkdir()
        dataset = known_dataset(folder, table, number=release, hide_missing=["note"])
        paths = [
            dataset.release(to="r", noise=noise).write(tmp_path / f"{release}-{noise}.parquet")
            for noise in (0.25, 1.0, 9.0)
        ]
        alarms += not audit(table, paths).clean
    # with a rate of ALPHA more than this many have probability below 0.001
    assert alarms <= binomial_limit(200, ALPHA, 0.001)
