"""Categories in an audit: ours gives nothing away together, the schemes that must fall do."""

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.audit.guesses import audit_categories
from cornerwave.noise.refresh import refresh, retention, thresholds
from cornerwave.noise.stream import position_ids
from cornerwave.table.categories import Encoded

ROWS = 40_000
COUNTS = [5, 3, 2]
NOISE = [0.5, 1.0, 3.0]
VALUES = pa.array(["a", "b", "c"])


def truth(seed):
    return np.random.default_rng(seed).choice(3, ROWS, p=np.array(COUNTS) / 10).astype(np.int32)


def ours(x, seed, column=0):
    bounds = thresholds(COUNTS)
    key = seed.to_bytes(32, "big")
    ids = position_ids(0, ROWS)
    return list(refresh(x, ids, noise=NOISE, bounds=bounds, key=key, column=column))


def independent(x, seed, column=0):
    rng = np.random.default_rng([seed, 7 + column])
    drawn = [rng.choice(3, ROWS, p=np.array(COUNTS) / 10) for _ in NOISE]
    kept = [rng.random(ROWS) < retention(level) for level in NOISE]
    return [np.where(k, x, r) for k, r in zip(kept, drawn, strict=True)]


def shared_uniform(x, seed, column=0):
    """One uniform and one replacement per cell: where two copies differ, the better is true."""
    rng = np.random.default_rng([seed, 7 + column])
    uniform, drawn = rng.random(ROWS), rng.choice(3, ROWS, p=np.array(COUNTS) / 10)
    return [np.where(uniform < retention(level), x, drawn) for level in NOISE]


def encoded(name, codes):
    return Encoded(name, np.asarray(codes, dtype=np.int64), VALUES)


def judged(scheme, seed, columns=("c",)):
    tables = [{}, *({} for _ in NOISE)]
    for place, name in enumerate(columns):
        x = truth(seed + 100 * place)
        for table, codes in zip(tables, [x, *scheme(x, seed, place)], strict=True):
            table[name] = encoded(name, codes)
    thirds = [slice(0, 10_000), slice(10_000, 10_001), slice(10_001, ROWS)]
    groups = (
        [{n: Encoded(n, e.codes[part], VALUES) for n, e in table.items()} for table in tables]
        for part in thirds
    )
    return audit_categories(groups, columns, len(NOISE))


@pytest.mark.parametrize("seed", range(3))
def test_ours_gives_nothing_away_together(seed):
    found = judged(ours, seed, ("c", "d"))
    assert len(found) == 3 * 4  # each column and both, by three pairs and all
    assert not any(guessed.gains for guessed in found)
    assert {guessed.best for guessed in found if 0 in guessed.copies} == {0}


@pytest.mark.parametrize("scheme", [independent, shared_uniform])
def test_schemes_that_must_fall_do(scheme):
    for guessed in judged(scheme, 1):
        assert guessed.gains, guessed.copies
    assert any(
        guessed.gains for guessed in judged(scheme, 2, ("c", "d")) if len(guessed.columns) > 1
    )


def test_a_copy_alone_hides_what_the_knob_says():
    """ALPHA 1e-9: six standard errors of a mean of errors between 0 and 2."""
    tolerance = 6 / np.sqrt(ROWS) / (1 - np.sum((np.array(COUNTS) / 10) ** 2))
    for guessed in judged(ours, 5):
        level = NOISE[guessed.best]
        assert guessed.hidden_alone == pytest.approx(level / (1 + level), abs=tolerance)


def test_certainty_counts_even_where_the_guess_stays():
    """The shared uniform leaves the best guess as it is: only its certainty gives it away."""
    pair = judged(shared_uniform, 3)[0]
    assert pair.together == pair.alone
    assert pair.gains
