"""Privacy of the whole copy: what is promised is what the best linear estimate leaves."""

import numpy as np
import pyarrow as pa
import pytest

from cornerwave import Level, Privacy, Vault
from cornerwave.errors import LevelError
from cornerwave.vault import Key

ROWS = 20_000
# 3 hundredths: the sampling error of a share at ROWS rows is about 1 / sqrt(ROWS) = 0.007,
# the estimate is fitted on half of them, and the shares are 3 or 4 such errors wide at most
TOLERANCE = 0.03


def vault_in(folder):
    """A vault whose copies are the same in every run: what is measured draws its chance once."""
    return Vault.create(folder, key=Key(bytes(range(32))))


def table(rows=ROWS, seed=1):
    """Numbers told by categories, three columns that name one place, a column of its own."""
    rng = np.random.default_rng(seed)
    grade = rng.choice(6, rows, p=[0.3, 0.25, 0.2, 0.15, 0.05, 0.05])
    wage = 1000.0 * (grade + 1) + rng.normal(0, 250, rows)
    region = rng.choice(4, rows)
    city = 3 * region + rng.choice(3, rows)
    return pa.table(
        {
            "wage": np.round(wage, 2),
            "age": rng.integers(18, 80, rows),
            "grade": [f"g{k}" for k in grade],
            "region": [f"r{k}" for k in region],
            "city": [f"c{k}" for k in city],
            "sex": [f"s{k}" for k in rng.choice(2, rows)],
        }
    )


def coordinates(found):
    """Every column as centred numbers or indicators: (rows, coordinates), and whose they are."""
    values, owners = [], []
    for name in found.column_names:
        column = found[name].combine_chunks()
        if pa.types.is_string(column.type):
            cells = np.array(column.fill_null("?").to_pylist())
            for value in np.unique(cells):
                values.append((cells == value).astype(float))
                owners.append(name)
        else:
            x = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
            values.append(np.where(np.isnan(x), 0.0, x - np.nanmean(x)))
            owners.append(name)
    return np.array(values).T, np.array(owners)


def measured(truth, copy):
    """The share of each column that a regression on the whole copy leaves, on other rows."""
    X, owners = coordinates(truth)
    Y, _ = coordinates(copy)
    Y = np.column_stack([np.ones(len(Y)), Y])
    half = len(X) // 2
    weights, *_ = np.linalg.lstsq(Y[:half], X[:half], rcond=1e-9)
    left = ((X[half:] - Y[half:] @ weights) ** 2).mean(axis=0)
    variance = X[half:].var(axis=0)
    names = dict.fromkeys(owners.tolist())
    return {n: left[owners == n].sum() / variance[owners == n].sum() for n in names}


@pytest.fixture(scope="module")
def source():
    return table()


@pytest.mark.parametrize(
    "choices", [{}, {"uniform": ["grade"]}, {"together": [["region", "city"]]}]
)
def test_the_formula_is_what_an_adversary_measures(tmp_path, source, choices):
    dataset = vault_in(tmp_path / "v").register("t", source, **choices)
    level = Level.of(privacy=0.6)
    found = measured(source, dataset.release(to="a", noise=level.noise).to_arrow())
    stated = dataset.frozen.hidden.at(level)
    for names, share in stated.items():
        if "+" not in names:
            assert found[names] == pytest.approx(share, abs=TOLERANCE), names


@pytest.mark.parametrize("privacy", [0.3, 0.6, 0.8])
def test_a_whole_copy_hides_what_it_promises(tmp_path, source, privacy):
    dataset = vault_in(tmp_path / "v").register("t", source)
    release = dataset.release(to="a", privacy=privacy)
    assert release.privacy >= privacy
    found = measured(source, release.to_arrow())
    assert min(found.values()) > privacy - TOLERANCE
    # the negative control: the noise that would do for columns that know nothing of each other
    alone = dataset.release(to="b", noise=Level.of(privacy=privacy).noise).to_arrow()
    assert min(measured(source, alone).values()) < privacy - 2 * TOLERANCE


def test_numbers_alone_need_no_more_than_their_own_noise(tmp_path):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(5000, 3)) @ rng.normal(size=(3, 3))
    dataset = vault_in(tmp_path / "v").register(
        "t", pa.table({c: X[:, i] for i, c in enumerate("abc")})
    )
    assert dataset.frozen.hidden.needed == tuple(range(1, 1000))
    assert dataset.release(to="a", privacy=0.8).level == Level(4.0)


def test_a_kept_column_makes_a_privacy_impossible_and_is_named(tmp_path, source):
    dataset = vault_in(tmp_path / "v").register("t", source, keep=["grade"])
    highest = dataset.frozen.hidden.highest
    assert highest < 0.1  # the grade tells nearly all of the wage
    with pytest.raises(LevelError, match=r"grade tells 9\d% of wage whatever the noise") as e:
        dataset.release(to="a", privacy=0.5)
    assert f"the highest privacy is {highest:g}" in str(e.value)
    dataset.release(to="a", noise=1.0)  # raw noise stays possible


def test_a_gap_that_tells_is_seen(tmp_path):
    """Whoever earns most has no wage in the table: what is missing tells the grade."""
    rng = np.random.default_rng(3)
    grade = rng.choice(3, ROWS)
    age = 20.0 + 10 * grade + rng.normal(0, 2, ROWS)
    wage = pa.array(rng.normal(size=ROWS), mask=grade == 2)
    found = pa.table({"age": age, "wage": wage})
    shown = vault_in(tmp_path / "v").register("t", found)
    hidden = vault_in(tmp_path / "w").register("t", found, hide_missing=["wage"])
    assert shown.frozen.hidden.highest < 0.6
    assert hidden.frozen.hidden.highest == 0.999


def test_the_price_is_explained(tmp_path, source):
    hidden = vault_in(tmp_path / "v").register("t", source).frozen.hidden
    assert hidden.tellers["wage"][0] == "grade"
    assert hidden.tellers["region"] == ("city", 1.0)
    half = hidden.level_of(500).noise
    joined = [
        r
        for r in hidden.remedies
        if r.action == "together" and set(r.columns) == {"region", "city"}
    ]
    assert joined
    assert joined[0].needed < half


def test_shares_rise_with_the_level(tmp_path, source):
    hidden = vault_in(tmp_path / "v").register("t", source).frozen.hidden
    for shares in hidden.shares.values():
        assert (np.diff(shares) >= 0).all()
    reached = [n for n in hidden.needed if n]
    assert (np.diff(reached) >= 0).all()
    assert all(needed >= p for p, needed in enumerate(hidden.needed, 1) if needed)


def test_a_coalition_has_the_privacy_of_its_best_copy(tmp_path, source):
    dataset = vault_in(tmp_path / "v").register("t", source)
    for to, privacy in (("a", 0.4), ("b", 0.7)):
        dataset.release(to=to, privacy=privacy).to_arrow()
    found = dataset.coalition(["a", "b"])
    assert found.joint_privacy == found.best_privacy >= 0.4
    assert found.gain == 0
    assert dataset.level_of(Privacy(0.4)) == min(dataset.levels)


def test_small_tables_are_not_asked_for_noise_by_chance(tmp_path):
    """Independent columns, 300 rows: what they seem to tell of each other is chance."""
    worst = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        columns = {f"n{i}": rng.normal(size=300) for i in range(3)}
        columns |= {f"c{i}": rng.choice(["a", "b", "c", "d"], 300) for i in range(4)}
        dataset = vault_in(tmp_path / f"v{seed}").register("t", pa.table(columns))
        worst.append(dataset.frozen.hidden.needed[499])
    assert np.median(worst) == 500
    assert max(worst) <= 550
