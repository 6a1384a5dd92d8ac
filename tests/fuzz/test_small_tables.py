"""A whole day with small and odd tables: every command ends with a result or a refusal.

Few rows, constant columns, counters, gaps, spikes, numbers at the ends of floating point: what
a new user tries first, and what is not in a table that was made for a test.
"""

import warnings

import numpy as np
import pytest

from cornerwave import cli

RESULT, FINDING, REFUSED = 0, 1, 2


def _with_gaps(random, rows):
    return np.where(random.random(rows) < 0.5, "", random.normal(size=rows).round(2).astype(str))


def _dates(random, rows):
    return np.datetime64("2010-01-01") + random.integers(0, 4000, rows)


KINDS = {
    "normal": lambda random, rows: random.normal(size=rows).round(3),
    "few": lambda random, rows: random.integers(0, 3, rows),
    "counter": lambda _, rows: np.arange(rows),
    "constant": lambda _, rows: np.full(rows, 5),
    "words": lambda random, rows: random.choice(["a", "b", "c", "d e"], rows),
    "gaps": _with_gaps,
    "spike": lambda random, rows: np.where(random.random(rows) < 0.7, 0.0, random.random(rows)),
    "dates": _dates,
    "ends": lambda random, rows: 10.0 ** random.integers(-300, 300, rows),
    "markers": lambda random, rows: random.choice(["", "NA", "x"], rows),
    "mail": lambda _, rows: np.char.add(np.arange(rows).astype(str), "@example.org"),
    "large": lambda random, rows: random.integers(-(2**60), 2**60, rows),
}


def _write(random, path):
    """Write a table of a few columns of any kinds, most of them with less than 13 rows."""
    rows = int(random.integers(0, 13) if random.random() < 0.7 else random.integers(100, 140))
    kinds = random.choice([*KINDS], random.integers(1, 6))
    columns = [KINDS[kind](random, rows).astype(str) for kind in kinds]
    lines = [[f"{kind}_{place}" for place, kind in enumerate(kinds)], *zip(*columns, strict=True)]
    path.write_text("".join(",".join(line) + "\n" for line in lines))


@pytest.fixture
def day(capfd):
    """Run commands; only a result, a finding or a refusal may come of them."""

    def call(*arguments):
        with warnings.catch_warnings(), pytest.raises(SystemExit) as stop:
            cli.main(list(map(str, arguments)))
        told = capfd.readouterr()
        assert (stop.value.code or 0) in (RESULT, FINDING, REFUSED), told.err
        return (stop.value.code or 0) == RESULT, told.err

    return call


def _released(day):
    """Release to two recipients in two formats; by noise where no level has the privacy."""
    for recipient, amount, out in (("ann", 0.3, "ann.csv"), ("bob", 0.7, "bob.parquet")):
        release = ("release", "table", "--to", recipient, "--out", out)
        if day(*release, "--privacy", amount)[0] or day(*release, "--noise", amount)[0]:
            yield out


def _spend(day, random, path):
    day("init")
    drafted, _ = day("inspect", path, "--out", "draft.toml")
    register = ["register", "table", path]
    if drafted and random.random() < 0.5:
        draft = path.parent / "draft.toml"
        text = draft.read_text().replace('"decide"', '"category"')
        draft.write_text(text.replace("# few_rows", "few_rows"))
        register += ["--schema", draft]
    else:
        register += ["--few-rows"]
    done, told = day(*register)
    if "--shuffle" in told:
        done, told = day(*register, "--shuffle")
    if not done:
        return False
    copies = list(_released(day))
    for question in ("levels", "schema", "ledger"):
        day(question, "table")
    day("levels", "table", "--json")
    day("coalition", "table", "ann", "bob")
    day("report", "table", "--out", "report.html")
    if copies:
        day("audit", path, *copies, "--html", "audit.html")
        day("attack", *copies)
        day("attack", *copies, "--truth", path)
    return True


def _spend_days(day, tmp_path, seed, days):
    random, registered = np.random.default_rng(seed), 0
    for number in range(days):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.MonkeyPatch.context() as here:
            here.chdir(folder)
            path = folder / "table.csv"
            _write(random, path)
            registered += _spend(day, random, path)
    return registered


def test_a_day_with_small_tables(day, tmp_path):
    """Some of the tables must get through, or nothing was tried."""
    assert _spend_days(day, tmp_path, seed=1, days=8) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_days_with_small_tables(day, tmp_path, seed):
    registered = _spend_days(day, tmp_path, seed, days=60)
    print(f"{registered} of 60 tables were released, audited and attacked")
    assert registered >= 15
