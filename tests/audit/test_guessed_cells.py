"""The adversary guesses categories cell by cell; bayes on many rows attacks some of them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.audit import _recovery, attack_copies
from cornerwave.errors import CornerwaveWarning
from cornerwave.privacy import CategoryDistribution, guess
from tests.audit.releases import frame, gaussian, known_dataset
from tests.audit.releases import ours as copies_of
from tests.audit.schemes import COUNTS, NOISE, independent, ours, tables

ROWS = 40_000
REACH = 4.5 * np.sqrt(0.25 / ROWS)
"""A share of so many cells is off by more with probability below 1e-5."""


def attacked(scheme, **choices):
    source, copies = tables(scheme, 3, rows=ROWS)
    [found] = attack_copies(copies, noise=NOISE, truth=source, **choices).categories
    return found


def test_guesses_are_right_as_often_as_expected_and_pooling_ours_gains_nothing() -> None:
    found = attacked(ours)
    law = CategoryDistribution(COUNTS)
    assert found.blind == pytest.approx(guess(law, NOISE).blind, abs=REACH)
    assert found.expected == pytest.approx(guess(law, NOISE).best, abs=REACH)
    assert found.alone == pytest.approx(found.expected, abs=2 * REACH)
    assert found.together < found.alone + REACH
    assert found.rows == ROWS


def test_pooling_independent_copies_gains_what_theory_says() -> None:
    found = attacked(independent)
    assert found.together == pytest.approx(
        guess(CategoryDistribution(COUNTS), NOISE).independent, abs=2 * REACH
    )
    assert found.together > found.alone + 2 * REACH


def test_without_a_truth_the_expected_share_is_told(tmp_path: Path) -> None:
    source, _ = tables(ours, 3, rows=4000)
    table = source.append_column("even", source.column("c"))
    dataset = known_dataset(tmp_path, table, uniform=["even"])
    paths = [dataset.release(to="r", noise=v).write(tmp_path / f"{v}.parquet") for v in NOISE]
    blind = attack_copies(paths)
    scored = attack_copies(paths, truth=table)
    for told, known in zip(blind.categories, scored.categories, strict=True):
        assert (told.columns, told.alone, told.together) == (known.columns, None, None)
        # the distribution comes from the best copy, at retention 0.82
        assert told.expected == pytest.approx(known.alone, abs=6 * np.sqrt(0.25 / 4000))
    assert blind.alone is None


def test_bayes_attacks_some_of_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    X = gaussian(20_000)
    copies = [frame(copy) for copy in copies_of(X, [1.0])]
    whole = attack_copies(copies, noise=[1.0], truth=frame(X), method="bayes")
    monkeypatch.setattr(_recovery, "MOST_ATTACKED", 3000)
    some = attack_copies(copies, noise=[1.0], truth=frame(X), method="bayes")
    assert (whole.rows, whole.attacked) == (20_000, 20_000)
    assert (some.rows, some.attacked) == (20_000, 20_000 // 7 + 1)
    # squared errors of normal estimates have a deviation of sqrt(2) times their mean
    assert some.together == pytest.approx(whole.together, abs=5 * 0.5 * np.sqrt(2 / 2800))


def test_bayes_says_how_long_it_takes_to_write_every_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    X = gaussian(500)
    [copy] = [frame(copy) for copy in copies_of(X, [1.0])]
    choices = {"noise": [1.0], "truth": frame(X), "method": "bayes"}
    attack_copies([copy], out=tmp_path / "x.parquet", **choices)
    monkeypatch.setattr(_recovery, "WORTH_SAYING", 0.0)
    with pytest.warns(CornerwaveWarning, match="bayes takes about 0 minutes"):
        attack_copies([copy], out=tmp_path / "y.parquet", **choices)


def test_columns_of_text_without_bound_are_not_guessed() -> None:
    names = pa.table({"name": [f"person {i}" for i in range(70_000)], "n": np.arange(70_000.0)})
    found = attack_copies([names], noise=[1.0])
    assert (found.categories, found.columns) == ((), ("n",))
