"""What the knots of a rank scale give away: the mean of some rows to who knows all but one."""

import json
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import audit
from cornerwave.choices import Choices
from cornerwave.columns import decide
from cornerwave.spine import survey
from cornerwave.spine.rows import RowSecrets
from cornerwave.spine.sample import Sample, knot_weights
from cornerwave.spine.survey import Sampler
from tests.audit.releases import known_dataset
from tests.audit.shown import findings

pytestmark = pytest.mark.filterwarnings("ignore::cornerwave.errors.CornerwaveWarning")

ROWS, LEVELS = 300, (0.9, 0.99)
SECRETS = RowSecrets.of(lambda purpose: purpose.encode().ljust(32))


def people() -> np.ndarray:
    return np.random.default_rng(1).lognormal(10, 1, ROWS)


def released(folder: Path, x: np.ndarray, number: int = 1) -> list[Path]:
    folder.mkdir(exist_ok=True)
    dataset = known_dataset(folder, {"x": x}, number=number, transform={"x": "rank"})
    copies = {p: dataset.release(to="r", privacy=p, raw=True) for p in LEVELS}
    return [copy.write(folder / f"{p}.parquet") for p, copy in copies.items()]


def stated(path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(papq.read_schema(path).metadata[b"cornerwave"])
    return told


def read_plateau(paths: list[Path], knots: int) -> float:
    """The outermost knot as copies show it: where the line through their largest values begins.

    How often scores occur is known, so the largest values are known functions of the knot.
    """
    scores = np.array([NormalDist().inv_cdf((k + 0.5) / knots) for k in range(knots)])
    found = []
    for path in paths:
        y = np.sort(papq.read_table(path)["x"].to_numpy())
        size = np.sqrt(scores.var() * (1 + stated(path)["noise"]))
        S = np.array([size * NormalDist().inv_cdf((i + 0.5) / ROWS) for i in range(ROWS)])
        away = S - scores[-1]
        found.append(np.polyfit(away[away > 0.5], y[away > 0.5], 1)[1])
    return float(np.mean(found))


def attack(folder: Path, x: np.ndarray, number: int) -> float:
    """The largest value, by the knot and the other values of its share; in deviations of these."""
    paths = released(folder, x, number)
    knots = stated(paths[0])["columns"]["x"]["scores"]
    share = np.array_split(np.sort(x), knots)[-1]
    guess = len(share) * read_plateau(paths, knots) - share[:-1].sum()
    return float((guess - share[-1]) / share.std())


def test_who_knows_all_but_one_row_of_a_knot_does_not_learn_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To about the knot's standard error times its rows, sqrt(50) deviations; exact knots tell."""
    x = people()
    errors = [attack(tmp_path / str(number), x, number) for number in range(1, 6)]
    rms = float(np.sqrt(np.mean(np.square(errors))))
    # of 5 draws a deviation is off by a third of itself
    assert rms > 0.3 * np.sqrt(50)
    monkeypatch.setattr(survey, "knot_weights", lambda *_: None)
    exact = [attack(tmp_path / f"exact {number}", x, number) for number in (1, 2)]
    assert max(map(abs, exact)) < 0.03 * np.sqrt(50)


def test_the_audit_fails_exact_knots_and_passes_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(2).lognormal(10, 1, 2000)
    honest = audit(pa.table({"x": x}), released(tmp_path / "ours", x))
    assert honest.sound, findings(honest)
    monkeypatch.setattr(survey, "knot_weights", lambda *_: None)
    found = audit(pa.table({"x": x}), released(tmp_path / "exact", x))
    assert {check.name for check in found.faults} == {"knots"}


def test_knots_depend_on_the_key_the_column_and_the_rows_alone(tmp_path: Path) -> None:
    """The same in any parts and any order, in every copy; another key or column has others."""
    rng = np.random.default_rng(3)
    table = pa.table({"x": rng.lognormal(0, 1, 2000), "y": rng.normal(size=2000)})
    sampler = Sampler(decide(table.schema, Choices(transform={"x": "rank", "y": "rank"})), SECRETS)
    ids = np.column_stack([np.arange(2000, dtype=np.uint64), np.zeros(2000, dtype=np.uint64)])

    def of(rows: np.ndarray) -> Sample:
        return sampler.of(np.ascontiguousarray(ids[rows]), table.take(pa.array(rows)))

    whole = sampler.scales(of(np.arange(2000)))
    parts = np.array_split(rng.permutation(2000), 3)
    assert sampler.scales(of(parts[0]) + (of(parts[1]) + of(parts[2]))) == whole
    hashes = ids[:5, 0].copy()
    one, other = (knot_weights(SECRETS, hashes, name) for name in ("x", "y"))
    assert not (one == other).any()
    assert (one > 0).all()
    paths = released(tmp_path, np.asarray(table["x"]), 5)
    told = [stated(path)["columns"]["x"]["knots"] for path in paths]
    assert told[0] == told[1]
    elsewhere = released(tmp_path / "elsewhere", np.asarray(table["x"]), 6)
    assert stated(elsewhere[0])["columns"]["x"]["knots"] != told[0]


def test_weights_are_exponential() -> None:
    weights = knot_weights(SECRETS, np.arange(40_000, dtype=np.uint64), "x")
    below = np.sort(-np.expm1(-weights))
    # Kolmogorov's distance at 1e-6
    assert np.abs(below - np.arange(40_000) / 40_000).max() < np.sqrt(np.log(2e6) / 2 / 40_000)


def test_draws_for_hidden_gaps_use_knots_that_are_not_exact(tmp_path: Path) -> None:
    x = np.random.default_rng(4).lognormal(0, 1, 1000)
    table = pa.table({"x": pa.array(x, mask=np.arange(1000) % 10 == 0)})
    dataset = known_dataset(tmp_path, table, hide_missing=["x"])
    knots = np.array(dataset.frozen.draws.quantiles["x"])[:, 0]
    known = np.sort(x[np.arange(1000) % 10 != 0])
    exact = [part.mean() for part in np.array_split(known, len(knots))]
    assert len(knots) <= 900 // 50
    assert np.abs(knots - exact).min() > 0
    assert np.corrcoef(knots, exact)[0, 1] > 0.98
