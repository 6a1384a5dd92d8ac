"""Persons in households: noise of three paths, whole households of others, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.audit import audit
from cornerwave.editions import AllPersons
from cornerwave.errors import BiasWarning, ColumnError, CornerwaveWarning
from cornerwave.inspection import inspect
from cornerwave.ledger import Key
from cornerwave.levels import LATTICE
from cornerwave.miner import Copy
from cornerwave.noise import (
    PersonHistoryReader,
    PersonNoise,
    PersonReader,
    Reading,
    lattice_index,
    lattice_path,
    position_ids,
)
from cornerwave.privacy import hidden_of_persons
from cornerwave.schema_file import read_choices, schema_text
from cornerwave.sources import open_source
from cornerwave.spine import person_sample
from cornerwave.spine.coordinates import sampled_persons
from cornerwave.spine.freeze import Frozen
from cornerwave.spine.person_counts import Nesting
from cornerwave.vault import Vault
from tests.conftest import decide, freeze_table, survey_of
from tests.panels import with_column

KEY = Key.unsafe_from_seed(5)
UNITS = ["household", "person"]


def households(count=150, seed=0, *, most=4, rows=4, first=0):
    """Rooms are constant in each household, height in each person; income has a level in both.

    The numbers of persons begin anew in each household; those of rows are unequal.
    """
    rng = np.random.default_rng([seed, first])
    sizes = rng.integers(1, most + 1, count)
    of = np.repeat(np.arange(count), sizes)
    number = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    person = np.repeat(np.arange(len(of)), rng.integers(1, rows + 1, len(of)))
    home, level, own = rng.normal(size=count), rng.normal(size=len(of)), rng.normal(size=len(of))
    n, region, sex = len(person), rng.integers(0, 4, count), rng.integers(0, 2, len(of))
    good = rng.random(n) < 0.3 + 0.4 * (home[of] > 0)[person]
    return pa.table(
        {
            "household": [f"H{first + h:05d}" for h in of[person]],
            "person": number[person],
            "income": (home[of] + 0.8 * level)[person] + 0.7 * rng.normal(size=n),
            "rooms": (100 + 20 * home + rng.normal(0, 9, count))[of[person]],
            "height": (170 + 9 * own + 3 * home[of])[person],
            "region": np.array(list("NESW"))[region[of[person]]],
            "sex": np.array(["f", "m"])[sex[person]],
            "mood": np.array(["bad", "good"])[good.astype(int)],
        }
    )


NUMBERS = ("household", "person", "income", "rooms", "height")


def numbers_of(count=150, seed=0, **about):
    return households(count, seed, **about).select(NUMBERS)


def codes_of(table):
    """The household of each row, and the person of each: a pair."""
    home = np.unique(table["household"].to_pylist(), return_inverse=True)[1]
    return home, np.unique(home * 10_000 + np.asarray(table["person"]), return_inverse=True)[1]


def values(table, *names):
    return np.array([table[name].to_numpy() for name in names])


def made(tmp_path, table, *, noise=1.0, **choices):
    vault = Vault.create(tmp_path / "v")
    dataset = vault.register(
        "homes", table, **{"unit": UNITS, "keep_order": True, "few_rows": True, **choices}
    )
    return dataset, dataset.release(to="a", noise=noise, raw=True).to_arrow()


# --- noise --------------------------------------------------------------------------------


def read_noise(noise, ids, units, outers, *levels):
    places = [lattice_index(v) for v in levels]
    reading = Reading(lattice_path(), places)
    reader = PersonReader(reading, bytes(32), bytes(31) + b"p", noise=noise, rows=len(ids))
    made = {k: W.copy() for k, W in reader.noise(ids, units, None, outers)}
    return [made[k] for k in places]


def test_the_noise_of_rows_has_the_covariances_of_households_persons_and_rows():
    H, B, R = np.diag([4.0, 1.0, 2.0]), np.diag([1.0, 0.0, 3.0]), np.diag([2.0, 0.0, 0.0])
    H[0, 2] = H[2, 0] = -1.0
    noise = PersonNoise.nested(H, B, R, np.zeros((3, 3)))
    count = 20_000  # households of two persons with two rows each
    outers = np.repeat(position_ids(0, count), 4, axis=0)
    units = np.repeat(position_ids(10**6, 2 * count), 2, axis=0)
    u, v = LATTICE[300], LATTICE[700]
    one, two = read_noise(noise, position_ids(10**7, 4 * count), units, outers, u, v)
    a, b = (each.reshape(3, count, 2, 2) for each in (one, two))
    expected = {"row": H + B + R, "person": H + B, "household": H}
    pairs = {
        "row": (a[:, :, 0, 0], b[:, :, 0, 0]),
        "person": (a[:, :, 0, 0], b[:, :, 0, 1]),
        "household": (a[:, :, 0, 0], b[:, :, 1, 0]),
    }
    for what, (x, y) in pairs.items():
        found = x @ y.T / count / min(u, v)
        # a product of normals varies by the variances of both; v is larger than u
        error = np.sqrt(np.outer(np.diag(H + B + R), np.diag(H + B + R)) * 2 * v / u / count)
        assert (np.abs(found - expected[what]) < 6 * error + 1e-9).all(), what
    assert (a[1] == a[1, :, :1, :1]).all(), "the same in all rows of a household, to the bit"
    assert (a[2] == a[2, :, :, :1]).all(), "the same in all rows of a person, to the bit"
    assert (a[0, :, 0, 0] != a[0, :, 0, 1]).all()


def test_households_persons_and_rows_together_have_at_least_the_noise_of_rows():
    rng = np.random.default_rng(2)
    for _ in range(50):
        H, B, R, K = (each @ each.T for each in rng.normal(size=(4, 4, 3)))
        H[0, 0] -= 3.0  # as chance can make it
        B[:, 1] = B[1] = R[:, 1] = R[1] = R[:, 2] = R[2] = 0.0
        noise = PersonNoise.nested(H, B, R, K)
        assert np.linalg.eigvalsh(noise.shape - K).min() > -1e-9
        assert noise.constant == (1, 2)
        assert noise.outer_constant == (1,)
        parts = noise.outer[0] @ noise.outer[0].T + noise.person[0] @ noise.person[0].T
        parts = parts + noise.within[0]
        assert np.allclose(parts, noise.shape)
        assert PersonNoise.from_json(noise.to_json()).outer.tolist() == noise.outer.tolist()


def test_covariances_are_those_that_a_plain_sum_over_pairs_finds():
    table = numbers_of(60, rows=3)
    survey = survey_of(table, KEY, unit=UNITS, keep_order=True, few_rows=True)[1]
    sample = survey.persons
    x, (home, person) = sample.numbers, _of_sample(sample)
    K = survey.moments.covariance
    noise = person_sample.nested_noise(sample, 3, np.zeros_like(K))
    by_person, by_home = [], []
    for i in range(len(home)):
        mine = np.flatnonzero(person == person[i])
        if len(mine) > 1:
            by_person.append((i, mine[(np.flatnonzero(mine == i)[0] + 1) % len(mine)]))
        persons = np.unique(person[home == home[i]])
        if len(persons) > 1:
            other = persons[(np.flatnonzero(persons == person[i])[0] + 1) % len(persons)]
            theirs = np.flatnonzero(person == other)
            by_home.append((i, theirs[np.flatnonzero(mine == i)[0] % len(theirs)]))
    i, j = np.array(by_person).T
    k, m = np.array(by_home).T
    R = np.cov(x[:, i] - x[:, j]) / 2
    apart = np.cov(x[:, k] - x[:, m]) / 2
    H = (np.cov(x[:, k] + x[:, m]) - 2 * apart) / 4
    assert np.allclose(noise.within[0], R, atol=1e-9)
    assert np.allclose(noise.outer[0] @ noise.outer[0].T, H, rtol=1e-6, atol=1e-6)
    B = noise.person[0] @ noise.person[0].T
    assert np.allclose(B[::2, ::2], (apart - R)[::2, ::2], rtol=1e-6, atol=1e-6)


def _of_sample(sample):
    sizes = np.diff(np.append(sample.starts, len(sample.units)))
    person = np.repeat(np.arange(len(sizes)), sizes)
    return np.unique(sample.outers, return_inverse=True)[1], person


def test_samples_have_whole_households_and_add_up_in_any_parts(monkeypatch):
    monkeypatch.setattr(person_sample, "MOST_ROWS", 6)
    table = numbers_of(120)
    rng = np.random.default_rng(4)
    of = person_sample.PersonSample.of
    home, person = codes_of(table)
    hashed = rng.integers(1, 2**63, 10_000).astype(np.uint64)
    u, h, r = hashed[person], hashed[5_000 + home], hashed[2_000:][: len(home)]
    x = np.arange(len(home), dtype=np.float64)
    everything = of(u, r, [x], [], 60, h)
    for _ in range(10):
        part = rng.integers(0, 3, len(home))
        some = [
            of(u[part == k], r[part == k], [x[part == k]], [], 60, h[part == k]) for k in (0, 1, 2)
        ]
        added = some[2] + (some[0] + some[1])
        for name in ("units", "rows", "outers", "counts", "numbers"):
            assert np.array_equal(getattr(added, name), getattr(everything, name)), name
        assert added.limit == everything.limit
    chosen = np.unique(everything.outers)
    assert (np.bincount(np.unique(everything.outers, return_inverse=True)[1]) <= 6).all()
    assert chosen.max() < np.setdiff1d(h, chosen).min(), "those with the smallest hashes"


def test_a_copy_has_one_noise_in_each_household_and_person(tmp_path):
    table = numbers_of()
    dataset, copy = made(tmp_path, table)
    home, person = codes_of(table)
    noise = values(copy, "income", "rooms", "height") - values(table, "income", "rooms", "height")
    first_home, first_person = (np.unique(g, return_index=True)[1] for g in (home, person))
    assert np.array_equal(noise[1], noise[1][first_home][home])
    assert np.array_equal(noise[2], noise[2][first_person][person])
    assert len(np.unique(noise[0])) == table.num_rows
    assert len(np.unique(noise[2])) == len(first_person), "and persons differ"
    assert dataset.frozen.persons.outer_constant == (1,)


def test_a_person_is_the_pair_whatever_names_it(tmp_path):
    """The copy of a table is the same, to the bit of its noise, if persons have other numbers."""
    table = numbers_of()
    _, person = codes_of(table)
    noises = []
    for place, named in enumerate((table, with_column(table, "person", pa.array(person)))):
        (tmp_path / str(place)).mkdir()
        _, copy = made(tmp_path / str(place), named, unit=UNITS)
        shown = np.unique(copy["person"].to_pylist(), return_inverse=True)[1]
        assert len(np.unique(shown)) == len(np.unique(person))
        assert np.array_equal(
            np.unique(shown[np.unique(person, return_index=True)[1]]), np.unique(person)
        )
        noises.append(values(copy, "height")[0] - values(table, "height")[0])
    for noise in noises:
        assert len(np.unique(noise)) == len(np.unique(person))


# --- what is left -------------------------------------------------------------------------


def left_by_best(truth, copy, home, person):
    """What the best linear estimate from a value, its person's and household's means leaves."""

    def mean(x, group):
        return (np.bincount(group, x) / np.bincount(group))[group]

    seen = np.stack([f for y in copy for f in (y, mean(y, person), mean(y, home))])
    seen = np.vstack([np.ones(len(home)), seen])
    half, left = home % 2 == 0, {}
    for place, x in enumerate(truth):
        targets = {"value": x, "mean": mean(x, person), "group": mean(x, home)}
        for kind, y in targets.items():
            error = 0.0
            for train in (half, ~half):
                b = np.linalg.lstsq(seen[:, train].T, y[train], rcond=None)[0]
                error += ((y[~train] - b @ seen[:, ~train]) ** 2).sum()
            left[place, kind] = error / len(y) / y.var()
    return left


def test_a_copy_hides_households_and_noise_of_persons_alone_does_not(tmp_path):
    table = numbers_of(800, rows=3)
    home, person = codes_of(table)
    truth = values(table, "income", "rooms", "height")
    shares = {}
    for unit in ("both", "person"):
        (tmp_path / unit).mkdir()
        one = with_column(table, "person", pa.array(person)).drop_columns(["household"])
        named = {"unit": UNITS} if unit == "both" else {"unit": "person"}
        dataset = Vault.create(tmp_path / unit / "v").register(
            "homes", table if unit == "both" else one, keep_order=True, **named
        )
        copy = dataset.release(to="a", privacy=0.5, raw=True).to_arrow()
        shares[unit] = left_by_best(truth, values(copy, "income", "rooms", "height"), home, person)
    # of 800 households a share p of variance is known to 2 p sqrt((1 - p) / 800): .025
    assert min(shares["both"].values()) > 0.5 - 4 * 0.025
    assert shares["person"][0, "group"] < 0.4
    assert shares["person"][1, "group"] < 0.35, "a column that is constant in each household"
    assert shares["person"][1, "value"] < 0.35


def test_the_promise_counts_households_and_what_persons_of_one_differ_in():
    """Noise of persons alone, or of rows alone, is measured to hide too little."""
    table = numbers_of(800, rows=3)
    surveyor, survey = survey_of(table, KEY, unit=UNITS, keep_order=True)
    frozen = freeze_table(table, KEY, unit=UNITS, keep_order=True)
    noise, K = frozen.persons, frozen.covariance
    H, B = noise.outer[0] @ noise.outer[0].T, noise.person[0] @ noise.person[0].T
    R, none = noise.within[0], np.zeros_like(K)

    def least(outer, between, within):
        made = PersonNoise.nested(outer, between, within, none)
        [rows] = sampled_persons(surveyor, survey, [], made)
        return {name: float(shares[499]) for name, shares in hidden_of_persons(rows).items()}

    fair = least(H, B, R)
    assert min(fair.values()) > 0.44
    persons = least(none, H + B, R)
    assert persons["rooms"] < 0.35
    assert persons["income"] < fair["income"] - 0.1
    rows = least(none, none, H + B + R)
    assert rows["rooms"] < 0.2
    assert rows["height"] < 0.42
    alike = least(H + B, none, R)
    assert alike["income"] < 0.25, "persons of a household differ without noise"


# --- categories ---------------------------------------------------------------------------


def test_an_event_replaces_the_categories_of_a_whole_household(tmp_path):
    table = households(900, rows=3)
    home, _ = codes_of(table)
    _, copy = made(tmp_path, table, noise=1.0)
    hidden = {}
    for name in ("region", "sex", "mood"):
        own, shown = (np.asarray(t[name].to_pylist()) for t in (table, copy))
        x = np.array([(own == value) for value in np.unique(own)], dtype=np.float64)
        y = np.array([(shown == value) for value in np.unique(own)], dtype=np.float64)
        hidden[name] = _left_of_groups(x, y, home)
    region = np.asarray(copy["region"].to_pylist())
    first = np.unique(home, return_index=True)[1]
    assert (region == region[first][home]).all(), "replaced or not, a household has one region"
    # q^2 = 0.5 of 900 households: 1 - q^2 has the standard error 2 q sqrt(q (1 - q) / 900) = .021
    assert min(hidden.values()) > 0.5 - 4.5 * 0.021


def _left_of_groups(x, y, group):
    """What a line from what a copy shows of groups on average leaves of their means."""
    count = np.bincount(group)
    x, y = (np.array([np.bincount(group, row) / count for row in each]) for each in (x, y))
    y = np.vstack([np.ones(len(count)), y])
    b = np.linalg.lstsq(y.T, x.T, rcond=None)[0]
    return float(((x - b.T @ y) ** 2).sum() / ((x - x.mean(axis=1, keepdims=True)) ** 2).sum())


def test_a_clock_of_each_person_falls_to_the_vote_of_the_household(tmp_path):
    """The control: persons replaced one by one show the region of their household."""
    table = households(900, rows=3)
    home, person = codes_of(table)
    one = with_column(table, "person", pa.array(person)).drop_columns(["household"])
    dataset = Vault.create(tmp_path / "v").register("homes", one, unit="person", keep_order=True)
    copy = dataset.release(to="a", noise=1.0, raw=True).to_arrow()
    own, shown = (np.asarray(t["region"].to_pylist()) for t in (table, copy))
    x, y = (np.array([(e == v) for v in "ENSW"], dtype=np.float64) for e in (own, shown))
    assert _left_of_groups(x, y, home) < 0.4


# --- what is refused, and what is stated --------------------------------------------------


def register(tmp_path, table, **choices):
    vault = Vault.create(tmp_path / "v")
    return vault.register("homes", table, **{"unit": UNITS, "keep_order": True, **choices})


def moved(table, names):
    """Persons with numbers of their own, of whom some have moved to another household."""
    _, person = codes_of(table)
    home = np.array(table["household"].to_pylist(), dtype=object)
    for each in names:
        rows = np.flatnonzero(person == each)
        home[rows[-1]] = home[0] if home[rows[-1]] != home[0] else home[-1]
    table = with_column(table, "person", pa.array(person))
    return with_column(table, "household", pa.array(home.tolist()))


def test_persons_who_move_are_refused_and_numbers_that_begin_anew_are_not(tmp_path):
    table = numbers_of(200)
    _, person = codes_of(table)
    several = np.flatnonzero(np.bincount(person) > 1)[5:8]
    message = rf"^3 of {person.max() + 1} values of 'person' are in more than one 'household'"
    with pytest.raises(ColumnError, match=message) as caught:
        register(tmp_path, moved(table, several))
    assert "P0" not in str(caught.value)
    assert "H0" not in str(caught.value)
    nesting = survey_of(table, KEY, unit=UNITS, keep_order=True)[1].nesting
    assert nesting.in_several > 0
    nesting.check(decide(table.schema, unit=UNITS))


def test_which_households_persons_are_in_adds_up_in_any_parts():
    schema = decide(numbers_of().schema, unit=UNITS)
    words = np.arange(1, 31, dtype=np.uint64)
    whole = Nesting(words, words + np.uint64(100), words + np.uint64(100))
    one = Nesting(words[:20], words[:20] + np.uint64(100), words[:20] + np.uint64(100))
    two = Nesting(words[10:], words[10:] + np.uint64(100), words[10:] + np.uint64(100))
    assert np.array_equal((one + two).names, whole.names)
    assert (two + one).in_several == 0
    other = Nesting(words[:2], words[:2] + np.uint64(500), words[:2] + np.uint64(500))
    assert (other + whole).in_several == 2
    again = Nesting.read((whole + other).to_bytes())
    with pytest.raises(ColumnError, match="2 of 30 values"):
        again.check(schema)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"unit": ["household", "household"]}, "named as the unit more than once"),
        ({"unit": ["household", "person", "height"]}, "at most 2 units"),
        ({"key": "person"}, "the key and also the unit"),
        ({"unit": ["person", "household"]}, "'person' names . persons or things"),
    ],
)
def test_units_that_cannot_be_are_refused_in_one_line(tmp_path, choices, message):
    with pytest.raises(ColumnError, match=message) as caught:
        register(tmp_path, numbers_of(120), **choices)
    assert "\n" not in str(caught.value)


def test_units_of_which_one_says_nothing_are_refused(tmp_path):
    table = numbers_of(200)
    _, person = codes_of(table)
    with pytest.raises(ColumnError, match="differs in every row of each 'household'"):
        register(tmp_path, with_column(table, "person", pa.array(np.arange(len(table)))))
    (tmp_path / "2").mkdir()
    with pytest.raises(ColumnError, match="so both name the same"):
        register(tmp_path / "2", with_column(table, "household", pa.array(person)))


# --- updates -------------------------------------------------------------------------------


def equal_homes(count, persons=2, rows=3, seed=0):
    """Households of as many persons, with as many rows: an income, a region and a mood; keys."""
    rng = np.random.default_rng(seed)
    home = np.repeat(np.arange(count), persons * rows)
    person = np.tile(np.repeat(np.arange(persons), rows), count)
    n, of = len(home), np.repeat(np.arange(count * persons), rows)
    income = rng.normal(size=count)[home] + rng.normal(size=count * persons)[of]
    region, mood = rng.integers(0, 4, count)[home], rng.integers(0, 3, n)
    return pa.table(
        {
            "row": np.arange(n),
            "household": [f"H{h:05d}" for h in home],
            "person": person,
            "income": income + rng.normal(size=n),
            "region": np.array(list("NESW"))[region],
            "mood": np.array(list("abc"))[mood],
        }
    )


def means_of(x, size):
    """The mean of every `size` rows that follow each other, for each of them."""
    return np.repeat(x.reshape(len(x), -1, size).mean(axis=2), size, axis=1)


def left_of(wanted, seen, size):
    """The share that a linear estimate leaves of households that it was not fitted on."""
    half = np.repeat(np.random.default_rng(0).integers(0, 2, len(wanted) // size), size)
    A, left = np.column_stack([np.ones(len(wanted)), *seen]), np.empty(len(wanted))
    for k in (0, 1):
        weights = np.linalg.lstsq(A[half != k], wanted[half != k], rcond=None)[0]
        left[half == k] = wanted[half == k] - A[half == k] @ weights
    return (left**2).mean() / wanted.var()


@pytest.mark.parametrize("alike", ["household", "person", "row"])
@pytest.mark.first(2)
def test_an_update_hides_what_changed_of_households_persons_and_rows(vault, monkeypatch, alike):
    """All rows of a household change by the same, those of a person, or each by its own."""
    homes, (persons, rows) = 1500, {"household": (5, 2), "person": (2, 5), "row": (2, 4)}[alike]
    table = equal_homes(homes, persons, rows).select(["row", "household", "person", "income"])
    rng, size = np.random.default_rng(5), persons * rows
    many = {"household": size, "person": rows, "row": 1}[alike]
    change = 0.6 * np.repeat(rng.normal(size=homes * size // many), many)
    old = values(table, "income")[0]
    changed = with_column(table, "income", pa.array(old + change))
    dataset = vault.register("homes", table, unit=UNITS, key="row", keep_order=True)
    before = dataset.release(to="a", noise=1.0, raw=True).to_arrow()
    dataset.update(changed, old=table)
    dataset = vault.dataset("homes", source=changed)

    def left(wanted):
        after = dataset.release(to="a", noise=1.0, raw=True).to_arrow()
        both = np.vstack([values(each, "income") for each in (before, after)])
        beside = np.vstack([means_of(both, rows), means_of(both, size)])
        return left_of(wanted, [*both, *beside], size)

    # what those have by themselves who change alike
    wider = {"household": None, "person": size, "row": rows}[alike]
    alone = change if wider is None else change - means_of(change[None], wider)[0]
    # of 1,500 households a share of .5 has an error of at most .02
    assert min(left(change), left(alone)) > 0.475
    assert min(left(old), left(old + change)) > 0.475
    assert left(means_of((old + change)[None], size)[0]) > 0.475
    # negative control: without the fresh path of those who change alike
    make = PersonHistoryReader.__init__

    def without_one(self, *args, **named):
        make(self, *args, **named)
        lost = {"row": self._later, "person": self._shared[0], "household": self._shared[1]}[alike]
        lost.update({e: SimpleNamespace(white=_nothing(r.white)) for e, r in lost.items()})

    monkeypatch.setattr(PersonHistoryReader, "__init__", without_one)
    assert left(alone) < 0.4


def _nothing(white):
    """A path that is 0 at all levels."""
    return lambda ids: ((index, 0 * path) for index, path in white(ids))


def test_categories_of_households_that_are_updated_move_together(vault):
    """The region of whole households is corrected, moods of single rows."""
    homes, size = 400, 6
    table, rng = equal_homes(homes), np.random.default_rng(3)
    codes = {n: np.unique(table[n].to_pylist(), return_inverse=True) for n in ("region", "mood")}
    moves = {
        "region": np.repeat(rng.random(homes) < 0.4, size),
        "mood": rng.random(len(table)) < 0.2,
    }
    changed = table
    for name, (letters, own) in codes.items():
        now = np.where(moves[name], (own + 1) % len(letters), own)
        changed = with_column(changed, name, pa.array(letters[now]))
    choices = {"unit": UNITS, "key": "row", "keep_order": True, "few_rows": True}
    dataset = vault.register("homes", table, **choices)
    first = dataset.release(to="a", noise=3.0, raw=True).to_arrow()
    dataset.update(changed, old=table)
    dataset = vault.dataset("homes", source=changed)
    second = dataset.release(to="a", noise=3.0, raw=True).to_arrow()
    kept = []
    for copy, source in ((first, table), (second, changed)):
        same = [np.array(copy[n].to_pylist()) == source[n].to_pylist() for n in codes]
        kept.append(np.logical_and(*same).reshape(homes, size).all(axis=1))
    assert (kept[0] != kept[1]).sum() <= 3  # the same by chance
    assert abs(kept[0].mean() - 0.5) < 5 * 0.5 / homes**0.5
    for name in codes:
        one, two = (np.array(each[name].to_pylist()) for each in (first, second))
        assert ((one != two) == moves[name]).all(), name
    shown = np.array(second["region"].to_pylist()).reshape(homes, size)
    assert (shown == shown[:, :1]).all()  # one region in each household, also of those replaced


def test_a_row_keeps_its_household_and_its_person(vault):
    table = equal_homes(60)
    choices = {"unit": UNITS, "key": "row", "keep_order": True, "few_rows": True}
    dataset = vault.register("homes", table, **choices)
    for name in UNITS:
        cells = np.roll(table[name].to_pylist(), 1)
        with pytest.raises(ColumnError, match=f"'{name}' changed in .* rows"):
            dataset.update(with_column(table, name, pa.array(cells)), old=table)


def test_linked_tables_have_one_unit(vault):
    table = numbers_of(150)
    with pytest.raises(ColumnError, match="has two units, 'household', 'person', and linked"):
        vault.register_linked("homes", {"a": table, "b": table}, unit=UNITS)


def _write(path, table):
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, path)


def test_a_schema_file_states_both_units_in_their_order(tmp_path):
    types = numbers_of().schema
    schema = decide(types, unit=["household", "person"], drop=["household"], keep=["person"])
    path = tmp_path / "schema.toml"
    path.write_text(schema_text(schema), encoding="utf-8")
    assert 'unit = ["household", "person"]' in path.read_text(encoding="utf-8")
    again = decide(types, **vars(read_choices(path, types.names)))
    assert again == schema
    assert again.units == ["household", "person"]
    turned = path.read_text(encoding="utf-8").replace(
        '["household", "person"]', '["person", "household"]'
    )
    path.write_text(turned, encoding="utf-8")
    assert decide(types, **vars(read_choices(path, types.names))).units == ["person", "household"]


def test_each_unit_is_a_pseudonym_dropped_or_kept(tmp_path):
    table = numbers_of()
    home, person = codes_of(table)
    _, copy = made(tmp_path, table)
    for name, codes in (("household", home), ("person", person)):
        shown = np.unique(copy[name].to_pylist(), return_inverse=True)[1]
        pairs = np.unique(np.stack([shown, codes]), axis=1).shape[1]
        assert pairs == len(np.unique(shown)) == len(np.unique(codes)), name
    (tmp_path / "2").mkdir()
    dataset, copy = made(tmp_path / "2", table, drop=["household"], keep=["person"])
    assert copy.column_names == ["person", "income", "rooms", "height"]
    assert copy["person"].to_pylist() == table["person"].to_pylist()
    said = " ".join(dataset.frozen.people.sentences(dataset.frozen.schema))
    assert "unit: household, not in copies; 150 households, typically" in said
    assert "person is released unchanged" in said


def test_the_owner_is_told_of_households_that_stand_out(tmp_path):
    table = numbers_of(150)
    home, person = codes_of(table)
    dataset, _ = made(tmp_path, table)
    people = dataset.frozen.people
    rows = np.bincount(person)
    of = home[np.unique(person, return_index=True)[1]]
    shapes = [tuple(sorted(rows[of == h])) for h in range(150)]
    alone = sum(shapes.count(shape) < 5 for shape in shapes)
    assert (people.households, people.persons) == (150, len(rows))
    assert people.households_stand_out == alone
    [said] = [line for line in people.sentences(dataset.frozen.schema) if "belong together" in line]
    assert f"{alone} households stand out" in said


def test_a_row_without_a_household_is_one_of_its_own(tmp_path):
    table = numbers_of(200)
    home = [None if i % 50 == 0 else h for i, h in enumerate(table["household"].to_pylist())]
    lost = with_column(table, "household", pa.array(home))
    dataset, copy = made(tmp_path, lost)
    noise = values(copy, "rooms")[0] - values(table, "rooms")[0]
    gone = np.flatnonzero([h is None for h in home])
    assert len(np.unique(noise[gone])) == len(gone)
    assert len(np.unique(copy["household"].take(pa.array(gone)).to_pylist())) == len(gone)
    assert dataset.frozen.people.unnamed == len(gone)


def test_persons_of_a_household_are_warned_of_with_the_way_out(tmp_path):
    table = numbers_of(400)
    _, person = codes_of(table)
    one = with_column(table, "person", pa.array(person))
    with pytest.warns(CornerwaveWarning, match="persons with the same 'household'") as said:
        register(tmp_path, one, unit="person", drop=["household"])
    assert 'unit = ["household", "person"]' in str(said[0].message)


def test_standard_errors_of_a_copy_come_from_households(tmp_path):
    table = numbers_of(200)
    dataset = register(tmp_path, table)
    dataset.release(to="a", privacy=0.5).write(tmp_path / "a.parquet")
    assert Copy.open(tmp_path / "a.parquet").unit == "household"
    dataset.release(to="b", privacy=0.5)
    (tmp_path / "2").mkdir()
    hidden = register(tmp_path / "2", table, drop=["household"])
    hidden.release(to="a", privacy=0.5).write(tmp_path / "b.parquet")
    with pytest.warns(BiasWarning, match="persons of b.parquet belong to households"):
        assert Copy.open(tmp_path / "b.parquet").unit == "person"


# --- editions -----------------------------------------------------------------------------


def test_rows_that_come_have_the_noise_of_their_person_and_household(tmp_path):
    table = numbers_of(150)
    _, person = codes_of(table)
    first = np.unique(person, return_index=True)[1][:20]
    more = table.take(pa.array(first))
    rng = np.random.default_rng(9)
    more = with_column(
        more, "income", pa.array(values(more, "income")[0] + rng.normal(size=len(first)))
    )
    for name, each in (("old", table), ("more", more)):
        _write(tmp_path / f"{name}.parquet", each)
    dataset = register(tmp_path, tmp_path / "old.parquet")
    dataset.append(tmp_path / "more.parquet")
    copy = dataset.release(to="a", noise=1.0, raw=True).to_arrow()
    both = pa.concat_tables([table, more])
    noise = values(copy, "rooms", "height", "income") - values(both, "rooms", "height", "income")
    old, new = noise[:, : len(table)], noise[:, len(table) :]
    assert np.array_equal(new[0], old[0][first])
    assert np.array_equal(new[1], old[1][first])
    assert not np.any(new[2] == old[2][first])


@pytest.mark.parametrize(
    ("name", "message"),
    [("rooms", "'rooms': so far the same in all rows of a household"), ("person", "1 of ")],
)
def test_rows_that_break_a_household_are_refused(tmp_path, name, message):
    table = numbers_of(150)
    _, person = codes_of(table)
    table = with_column(table, "person", pa.array(person))
    more = table.slice(0, 1)
    if name == "rooms":  # of a person who is new in the household
        more = with_column(more, "person", pa.array([99_999]))
        more = with_column(more, "rooms", pa.array(values(more, "rooms")[0] + 1))
    else:
        more = with_column(more, "household", pa.array(["H99999"]))
    for place, each in (("old", table), ("more", more)):
        _write(tmp_path / f"{place}.parquet", each)
    dataset = register(tmp_path, tmp_path / "old.parquet")
    with pytest.raises(ColumnError, match=message):
        dataset.append(tmp_path / "more.parquet")


def test_what_a_ledger_keeps_of_persons_has_their_households():
    surveyor, survey = survey_of(numbers_of(), KEY, unit=UNITS, keep_order=True)
    kept = AllPersons.of(survey, surveyor.schema)
    again = AllPersons.read(kept.to_bytes())
    assert np.array_equal(again.sample.outers, kept.sample.outers)
    more = again.with_rows(survey).sample
    assert (more.counts[more.starts] == 2 * kept.sample.counts[kept.sample.starts]).all()


def test_what_is_frozen_is_kept_exactly():
    frozen = freeze_table(numbers_of(), KEY, unit=UNITS, keep_order=True)
    again = Frozen.from_json(frozen.to_json())
    assert again.to_json() == frozen.to_json()
    assert again.schema.nested == ("household", "person")
    assert again.identity() == frozen.identity()


# --- audit --------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_audit_with_both_units_passes_and_fails_noise_of_persons_alone(tmp_path):
    table = numbers_of(1000, rows=3)
    _, person = codes_of(table)
    found = {}
    for unit in ("both", "person"):
        (tmp_path / unit).mkdir()
        one = with_column(table, "person", pa.array(person)).drop_columns(["household"])
        choices = {"unit": UNITS if unit == "both" else "person", "keep_order": True}
        dataset = Vault.create(tmp_path / unit / "v").register(
            "homes", table if unit == "both" else one, **choices
        )
        path = tmp_path / unit / "copy.parquet"
        dataset.release(to="a", privacy=0.5).write(path)
        found[unit] = audit(table, [path], unit=UNITS)
    kinds = {left.attack for _, left in found["both"].linked.left}
    assert kinds == {"value", "mean", "change", "group", "apart"}
    assert not [left for _, left in found["both"].linked.left if left.short]
    short = {(left.column, left.attack) for _, left in found["person"].linked.left if left.short}
    assert {("rooms", "group"), ("income", "group")} <= short
    assert not found["person"].clean


# --- inspect ------------------------------------------------------------------------------


def hints(table):
    return [said for said in inspect(open_source(table)).warnings if "To hide both" in said]


def test_a_first_look_finds_persons_within_households_and_none_by_chance():
    table = numbers_of(400)
    _, person = codes_of(table)
    [said] = hints(with_column(table, "person", pa.array(person)))
    assert 'unit = ["household", "person"]' in said
    rng = np.random.default_rng(1)
    own = rng.normal(size=(2, person.max() + 1))[:, person]
    home = rng.integers(0, 400, person.max() + 1)[person]
    alone = {"household": home, "person": person, "height": own[0], "level": own[1]}
    assert hints(pa.table(alone)) == []
