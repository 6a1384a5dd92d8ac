"""What copies hide of persons, measured by an outsider who knows which rows belong together.

The estimator is NumPy alone: a linear one on a row, the means of its person and the next row,
fitted on half of the persons and tried on the others. It shares nothing with the promise's formula.
"""

from secrets import token_hex
from warnings import catch_warnings, simplefilter

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.vault import Vault
from tests.panels import persons_of

pytestmark = pytest.mark.slow

SHARE = 0.95
"""Of what is declared, every value, mean and change keeps at least this share."""
PERSONS, KEYS, MORE_KEYS = 10_000, 4, 12
"""What is measured is a mean over keys. A share of a binary category that is constant in n persons
has the deviation 1.04 / sqrt(n) by chance: .0052 for 10,000 persons and four keys, so that the 5 %
that are allowed at 0.5 are 4.8 of them. Unequal persons count like 3,600: they take twelve keys."""


def panel(sizes, seed=0):
    """Height is constant, weight a level and fluctuation, cost follows its past; sex, diagnosis."""
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(len(sizes)), sizes)
    n, time = len(of), np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    height = rng.normal(170, 10, len(sizes))[of]
    cost, fresh = np.empty(n), rng.normal(size=n)
    diagnosis, drawn = np.empty(n, int), rng.integers(0, 5, n)
    moves = (rng.random(n) < 0.15) | (time == 0)
    for i in range(n):
        cost[i] = fresh[i] if time[i] == 0 else 0.9 * cost[i - 1] + np.sqrt(0.19) * fresh[i]
        diagnosis[i] = drawn[i] if moves[i] else diagnosis[i - 1]
    return pa.table(
        {
            "patient": [f"P{u:05d}" for u in of],
            "height": height,
            "weight": (height - 170) / 2 + rng.normal(75, 10, len(sizes))[of] + rng.normal(0, 4, n),
            "cost": 100 + 20 * cost,
            "sex": np.array(["f", "m"])[rng.integers(0, 2, len(sizes))[of]],
            "diagnosis": [f"D{d}" for d in diagnosis],
        }
    )


def unequal(seed=0):
    """1 to 200 rows a person, most of them few."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(50, rng.geometric(0.12, PERSONS))
    sizes[:50] = rng.integers(50, 201, 50)
    return sizes


NUMBERS, CATEGORIES = ("height", "weight", "cost"), ("sex", "diagnosis")


def coordinates(table):
    """The numbers and the indicators of categories (rows, k), standardised, and their columns."""
    found, names = [], []
    for name in NUMBERS:
        found.append(table[name].to_numpy())
        names.append(name)
    for name in CATEGORIES:
        cells = np.array(table[name].to_pylist())
        for value in np.unique(cells)[1:]:
            found.append((cells == value).astype(float))
            names.append(name)
    return np.column_stack(found), names


def person_means(X, of):
    sums = np.array([np.bincount(of, weights=column) for column in X.T]).T
    return (sums / np.bincount(of)[:, None])[of]


def hidden(table, copies):
    """The least share that values, means and changes of each column keep, from some copies."""
    of = np.unique(np.array(table["patient"].to_pylist()), return_inverse=True)[1]
    X, names = coordinates(table)
    Y = np.hstack([coordinates(copy)[0] for copy in copies])
    number = np.bincount(of)[of][:, None]
    means = person_means(Y, of)
    seen = np.hstack([Y, means, Y / number, means / number])
    fold = np.random.default_rng(0).integers(0, 2, of.max() + 1)[of]
    follows = np.flatnonzero(of[1:] == of[:-1])
    change, steps = X[follows + 1] - X[follows], Y[follows + 1] - Y[follows]
    targets = {
        "value": (X, seen, fold),
        "mean": (person_means(X, of), seen, fold),
        "change": (change, np.hstack([steps, seen[follows]]), fold[follows]),
    }
    kept = {}
    for kind, (wanted, features, half) in targets.items():
        left = residuals(wanted, features, half)
        for name in dict.fromkeys(names):
            own = [i for i, each in enumerate(names) if each == name]
            variance = wanted[:, own].var(axis=0).sum()
            if variance > 1e-12:
                kept[name, kind] = float((left[:, own] ** 2).mean(axis=0).sum() / variance)
    return kept


def residuals(wanted, features, half):
    """What a linear estimate leaves, of persons that it was not fitted on."""
    out, A = np.empty_like(wanted), np.column_stack([np.ones(len(features)), features])
    for k in (0, 1):
        weights = np.linalg.lstsq(A[half != k], wanted[half != k], rcond=None)[0]
        out[half == k] = wanted[half == k] - A[half == k] @ weights
    return out


def registered(tmp_path, tables, **choices):
    """A table in a new vault, with new keys; further tables are appended."""
    vault = Vault.create(tmp_path / token_hex(8))
    choices = choices or {"unit": "patient"}
    dataset = vault.register("people", tables[0], keep_order=True, **choices)
    for table in tables[1:]:
        with catch_warnings():  # persons grow
            simplefilter("ignore")
            dataset.append(table)
    return vault.dataset("people", source=tables)


def copies_of(dataset, *privacies):
    return [dataset.release(to=f"r{p}", privacy=p, raw=True).to_arrow() for p in privacies]


def mean_of(found):
    """The mean of what several keys gave."""
    return {at: float(np.mean([each[at] for each in found])) for at in found[0]}


@pytest.mark.parametrize(
    ("sizes", "keys"),
    [(np.full(PERSONS, 10), KEYS), (unequal(), MORE_KEYS)],
    ids=["equal", "unequal"],
)
def test_values_means_and_changes_keep_what_is_declared(tmp_path, sizes, keys):
    table = panel(sizes)
    datasets = [registered(tmp_path, [table]) for _ in range(keys)]
    for privacy in (0.5, 0.8):
        found = mean_of([hidden(table, copies_of(each, privacy)) for each in datasets])
        assert min(found.values()) >= SHARE * privacy, found
        assert len(found) == 13  # five columns in three ways, but height and sex do not change


def test_noise_by_row_falls(tmp_path):
    """Negative control: the same table, its rows declared to be independent."""
    table = panel(np.full(PERSONS, 10))
    dataset = registered(tmp_path, [table], independent_rows=True, drop=["patient"])
    found = hidden(table, copies_of(dataset, 0.5))
    for at in (("height", "value"), ("weight", "mean"), ("sex", "value")):
        assert found[at] < 0.25, at


def test_three_levels_together_say_no_more_than_the_best(tmp_path):
    table = panel(np.full(PERSONS, 10))
    copies = copies_of(registered(tmp_path, [table]), 0.5, 0.65, 0.8)
    alone, together = hidden(table, copies[:1]), hidden(table, copies)
    for at, kept in together.items():
        assert kept > alone[at] - 0.01, at
    # negative control: copies of three vaults, each with noise of its own
    apart = [copies_of(registered(tmp_path, [table]), 0.5)[0] for _ in range(3)]
    assert hidden(table, apart)["height", "value"] < 0.3


def months(count=4):
    """Months of the same persons, five rows each."""
    whole, n = panel(np.full(PERSONS, 5 * count), seed=3), 5 * count
    month = np.arange(whole.num_rows) % n // 5
    return [whole.filter(pa.array(month == m)) for m in range(count)]


@pytest.fixture(scope="module")
def of_months(tmp_path_factory):
    """What copies of appended months keep."""
    tables, folder = months(), tmp_path_factory.mktemp("months")
    whole = pa.concat_tables(tables)
    return mean_of([hidden(whole, copies_of(registered(folder, tables), 0.5)) for _ in range(KEYS)])


def test_months_that_are_appended_cannot_be_averaged(of_months, tmp_path):
    assert min(of_months.values()) >= SHARE * 0.5, of_months
    # negative control: each month as a table of its own, with noise of its own
    tables = months()
    apart = [copies_of(registered(tmp_path, [table]), 0.5)[0] for table in tables]
    found = hidden(pa.concat_tables(tables), [pa.concat_tables(apart)])
    assert found["height", "value"] < 0.25


def test_a_history_that_grows_from_5_to_20_rows_takes_more_noise(of_months, tmp_path):
    """Cost follows its past: 5 rows are nearly one level, 20 are not, and B is that of 5."""
    assert of_months["cost", "value"] >= SHARE * 0.5
    # negative control: the noise of the first edition; of two rows that are far apart, the change
    tables = months()
    dataset = registered(tmp_path, tables)
    noise = dataset.registered.hidden.level_of(500).noise
    copy = dataset.release(to="a", noise=noise, raw=True).to_arrow()
    whole = pa.concat_tables(tables)
    by_chance = np.random.default_rng(0).permutation(whole.num_rows)
    order = by_chance[np.argsort(persons_of(whole)[by_chance], kind="stable")]
    shuffled = [each.take(pa.array(order)) for each in (whole, copy)]
    assert hidden(shuffled[0], shuffled[1:])["cost", "change"] < 0.35
    copy = copies_of(dataset, 0.5)[0].take(pa.array(order))
    assert hidden(shuffled[0], [copy])["cost", "change"] >= SHARE * 0.5


@pytest.mark.parametrize("of_row", [False, True], ids=["person", "row"])
def test_a_kept_flag_beside_which_rows_vary_more_leaves_what_is_declared(tmp_path, of_row):
    """One of ten persons, or rows, fluctuates ten times as much: a fit for each value."""
    rng, rows = np.random.default_rng(4), 8
    of = np.repeat(np.arange(PERSONS), rows)
    flag = (rng.random(len(of) if of_row else PERSONS) < 0.1).astype(float)
    flag = flag if of_row else flag[of]
    x = rng.normal(size=PERSONS)[of] + np.where(flag == 1, 3.0, 0.3) * rng.normal(size=len(of))
    table = pa.table({"patient": [f"P{u:05d}" for u in of], "flag": flag, "x": x})
    follows, half = np.flatnonzero(of[1:] == of[:-1]), rng.integers(0, 2, PERSONS)[of]
    change = x[follows + 1] - x[follows]
    # four cells: the flags of both rows
    cells = np.eye(4)[(flag[follows] + 2 * flag[follows + 1]).astype(int)]

    def left_of_change(copy):
        y = copy["x"].to_numpy()
        seen = np.column_stack([y[follows], y[follows + 1], person_means(y[:, None], of)[follows]])
        seen = np.hstack([seen * cell for cell in cells.T[..., None]])
        left = residuals(change[:, None], seen, half[follows])
        return (left**2).mean() / change.var()

    keys = range(KEYS)
    kept = [registered(tmp_path, [table], unit="patient", keep=["flag"]) for _ in keys]
    assert np.mean([left_of_change(copies_of(each, 0.5)[0]) for each in kept]) >= SHARE * 0.5
    # negative control: the same noise as beside a flag that is not kept
    apart = registered(tmp_path, [table], unit="patient", drop=["flag"])
    assert left_of_change(copies_of(apart, 0.5)[0]) < 0.35
