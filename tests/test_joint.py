"""Privacy of the whole copy: what is promised is what the best linear estimate leaves."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn import datasets

from cornerwave import Coalition, Level, Privacy, Vault
from cornerwave.errors import LevelError
from cornerwave.ledger import Key
from cornerwave.privacy import MostRevealing, Shown
from tests.conftest import freeze_table

ROWS = 20_000
SECRET = Key(bytes(range(32)))
# 3 hundredths: the sampling error of a share at ROWS rows is about 1 / sqrt(ROWS) = 0.007,
# the estimate is fitted on half of them, and the shares are 3 or 4 such errors wide at most
TOLERANCE = 0.03


def vault_in(folder):
    """A vault whose copies are the same in every run: what is measured draws its chance once."""
    return Vault.create(folder, key=SECRET)


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


def measured(truth, *copies):
    """The share of each column that a regression on whole copies leaves, on other rows."""
    X, owners = coordinates(truth)
    Y = np.column_stack([np.ones(len(X)), *(coordinates(copy)[0] for copy in copies)])
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
@pytest.mark.first(2)
def test_the_formula_is_what_an_adversary_measures(tmp_path, source, choices):
    dataset = vault_in(tmp_path / "v").register("t", source, **choices)
    level = Level.of(privacy=0.6)
    found = measured(source, dataset.release(to="a", noise=level.noise).to_arrow())
    stated = dataset.frozen.hidden.at(level)
    for names, share in stated.items():
        if "+" not in names:
            assert found[names] == pytest.approx(share, abs=TOLERANCE), names


@pytest.mark.parametrize("privacy", [0.3, 0.6, 0.8])
@pytest.mark.first(2)
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
    with pytest.raises(LevelError, match=r"grade alone reveals 9\d%") as e:
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
    assert hidden.strongest["wage"].by.name == "grade"
    assert hidden.strongest["region"] == MostRevealing(Shown("city"), 1.0)
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


@pytest.mark.parametrize("choices", [{}, {"uniform": ["grade"]}])
@pytest.mark.first(1)
def test_independent_noise_hides_what_an_adversary_measures(tmp_path, source, choices):
    """Vaults of other keys have independent noise: what their copies hide is what is said."""
    held = {"a": Level.of(privacy=0.5), "b": Level.of(privacy=0.5), "c": Level.of(privacy=0.7)}
    vaults = [Vault.create(tmp_path / to, key=Key(bytes([i]) * 32)) for i, to in enumerate(held)]
    registered = [vault.register("t", source, **choices) for vault in vaults]
    copies = [
        dataset.release(to=to, noise=level.noise).to_arrow()
        for dataset, (to, level) in zip(registered, held.items(), strict=True)
    ]
    ours = [registered[0].release(to=to, noise=v.noise).to_arrow() for to, v in held.items()]
    found = registered[0].coalition(list(held))
    assert min(measured(source, *ours).values()) == pytest.approx(
        found.joint_privacy, abs=TOLERANCE
    )
    independent = min(measured(source, *copies).values())
    assert independent == pytest.approx(found.independent_privacy, abs=TOLERANCE)
    # the negative control: what copies of numbers alone would leave
    assert Coalition.of(list(held.items())).independent_privacy > independent + 2 * TOLERANCE


def real_tables():
    """Tables that others measured: numbers, and a category that they tell."""
    for load in (datasets.load_breast_cancer, datasets.load_wine, datasets.load_iris):
        found = load()
        names = [str(name) for name in found.feature_names]
        kind = [str(found.target_names[code]) for code in found.target]
        yield pa.table([*found.data.T, kind], names=[*names, "kind"])


def random_table(seed):
    """Some numbers and categories, of which some tell others."""
    rng = np.random.default_rng(seed)
    rows, common = 600, rng.normal(size=(3, 600))
    columns = {}
    for i in range(rng.integers(1, 4)):
        columns[f"n{i}"] = rng.normal(size=3) @ common + rng.normal(size=rows)
    for i in range(rng.integers(0, 4)):
        score = rng.normal(size=3) @ common + rng.normal(size=rows)
        cuts = np.quantile(score, np.sort(rng.random(rng.integers(1, 5))))
        columns[f"c{i}"] = [f"v{k}" for k in np.searchsorted(cuts, score)]
    return pa.table(columns)


def test_independent_noise_never_hides_more_than_one_path():
    """On real and random tables, for one copy and for several; one copy is the same in both."""
    contradicted = 0
    for number, found in enumerate([*real_tables(), *map(random_table, range(20))]):
        rng = np.random.default_rng(number)
        uniform = [name for name in found.column_names if name == "c0" and number % 2]
        hidden = freeze_table(found, SECRET, uniform=tuple(uniform), keep_order=True).hidden

        def privacy_of(level, hidden=hidden):
            return hidden.promised(level.on_lattice())

        for members in (1, 2, 5, 40):
            places = rng.integers(1, 1000, members)
            held = [(f"r{i}", Level.of(privacy=p / 1000)) for i, p in enumerate(places)]
            together = Coalition.of(held, privacy_of=privacy_of)
            assert together.joint_privacy == privacy_of(min(level for _, level in held))
            assert together.independent_privacy <= together.joint_privacy
            if members == 1:
                assert together.independent_privacy == together.joint_privacy
            # the negative control: the figure of numbers alone, beside that of the whole copy
            contradicted += Coalition.of(held).independent_privacy > together.joint_privacy
    assert contradicted > 10


@pytest.mark.slow
def test_small_tables_are_not_asked_for_noise_by_chance(tmp_path):
    """Independent columns, 300 rows: what they seem to tell of each other is chance."""
    worst = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        columns = {f"n{i}": rng.normal(size=300) for i in range(3)}
        columns |= {f"c{i}": rng.choice(["a", "b", "c", "d"], 300) for i in range(4)}
        vault = vault_in(tmp_path / f"v{seed}")
        dataset = vault.register("t", pa.table(columns), few_rows=True)
        worst.append(dataset.frozen.hidden.needed[499])
    assert np.median(worst) == 500
    assert max(worst) <= 550
