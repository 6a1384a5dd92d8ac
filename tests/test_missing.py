"""Numbers missing in secret: their draws look like values, and are the same everywhere."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.errors import SingularCovariance
from cornerwave.noise import position_ids
from cornerwave.spine.missing import Draws, conditional, fill_missing
from cornerwave.vault import Vault
from tests.panels import panel
from tests.processor import same_lines_of
from tests.scores import z_bound

SECRET = bytes(range(32))
ROWS = 20_000

REPORT = """
import hashlib
import numpy as np
from cornerwave.errors import SingularCovariance
from cornerwave.spine.missing import conditional
rng = np.random.default_rng(7)
for columns in (2, 5, 9):
    A = rng.integers(-8, 9, (columns, columns)) / 8
    K, seen, wanted = A @ A.T + np.eye(columns), np.arange(0, columns, 2), np.arange(1, columns, 2)
    found = conditional(K, seen, wanted)
    print(hashlib.sha256(b"".join(part.tobytes() for part in found)).hexdigest())
"""


@pytest.fixture(scope="module")
def registered(tmp_path_factory):
    """A table of two columns that follow each other, one with a spike and a tail, and a third."""
    rng = np.random.default_rng(3)
    x = rng.normal(50, 10, ROWS)
    wage = np.where(rng.random(ROWS) < 0.3, 0.0, np.exp(0.05 * x + rng.normal(0, 0.3, ROWS)))
    gone = rng.random(ROWS) < 0.3
    table = pa.table(
        {
            "x": pa.array(x, mask=gone),
            "y": x + rng.normal(0, 1, ROWS),
            "wage": pa.array(wage, mask=rng.random(ROWS) < 0.3),
            "shown": pa.array(rng.normal(0, 1, ROWS), mask=rng.random(ROWS) < 0.1),
        }
    )
    vault = Vault.create(tmp_path_factory.mktemp("missing") / "vault")
    dataset = vault.register("t", table, hide_missing=["x", "wage"])
    return dataset.frozen, table, gone


def matrix(table):
    return np.stack([column.to_numpy() for column in table.columns])


def filled(registered, **changes):
    frozen, table, _ = registered
    ids = position_ids(0, ROWS)
    changed = replace(frozen, **changes)
    return fill_missing(matrix(table), ids, changed.schema, changed.draws, SECRET)


def lonely(registered):
    """What must fall: plain normal draws, apart from the row's other numbers."""
    frozen, _, _ = registered
    return Draws(frozen.mean, np.diag(np.diag(frozen.covariance)), {})


def test_only_what_is_missing_in_secret_is_filled(registered):
    _, table, _ = registered
    x, out = matrix(table), filled(registered)
    present = ~np.isnan(x)
    assert np.array_equal(out[present], x[present])
    assert not np.isnan(out[[0, 1, 2]]).any()
    assert np.array_equal(np.isnan(out[3]), np.isnan(x[3]))


def test_a_draw_depends_on_its_row_alone(registered):
    frozen, table, _ = registered
    x, ids, out = matrix(table), position_ids(0, ROWS), filled(registered)
    order = np.random.default_rng(1).permutation(ROWS)[:500]
    part = fill_missing(
        np.ascontiguousarray(x[:, order]), ids[order], frozen.schema, frozen.draws, SECRET
    )
    assert np.array_equal(part, out[:, order], equal_nan=True)


def test_a_draw_fits_the_other_numbers_of_its_row(registered):
    """x - y has a deviation of 1, of x drawn by itself 14: ALPHA as in z_bound."""
    _, _, gone = registered
    out = filled(registered)
    off = (out[0] - out[1])[gone]
    # quantiles bend the draws a little: a tenth is allowed beside what chance does
    assert abs(off.std() - 1) < 0.1 + z_bound(1) / np.sqrt(2 * len(off))
    by_itself = filled(registered, draws=lonely(registered))
    assert (by_itself[0] - by_itself[1])[gone].std() > 10


def test_a_draw_has_the_distribution_of_its_column(registered):
    """Kolmogorov's distance at ALPHA 1e-6, plus a share of the quantiles; the normal law fails."""
    _, table, _ = registered
    wage, out = matrix(table)[2], filled(registered)[2]
    gone = np.isnan(wage)
    limit = np.sqrt(np.log(2 / 1e-6) / 2) * np.sqrt(1 / gone.sum() + 1 / (~gone).sum()) + 1 / 255
    places = np.quantile(wage[~gone], np.linspace(0.02, 0.98, 97)) + 0.5

    def distance(values):
        shares = [
            (values[gone] <= place).mean() - (wage[~gone] <= place).mean() for place in places
        ]
        return np.abs(shares).max()

    assert distance(out) < limit + 0.02  # the spike's edge moves with the other columns
    assert distance(filled(registered, draws=lonely(registered))[2]) > 2 * limit + 0.02


@pytest.mark.parametrize("own", [0.0, 0.01])
@pytest.mark.filterwarnings("ignore::cornerwave.errors.SingularCovariance")
def test_a_total_stays_the_sum_of_its_parts(vault, own):
    """Noise hides nothing across the plane that a total lies in: a draw must lie there too.

    Rank correlation of the distance from the plane with being drawn, at ALPHA as in z_bound.
    """
    rng = np.random.default_rng(5)
    a, b = rng.gamma(2, 1, (2, ROWS))
    gone = rng.random(ROWS) < 0.1
    total = pa.array(a + b + own * rng.normal(size=ROWS), mask=gone)
    dataset = vault.register("t", pa.table({"a": a, "b": b, "h": total}), hide_missing=["h"])
    copy = dataset.release(to="r", noise=0.5).to_arrow()
    off = np.abs(copy["h"].to_numpy() - copy["a"].to_numpy() - copy["b"].to_numpy())
    ranks = np.argsort(np.argsort(off)) / ROWS - 0.5
    error = np.sqrt(1 / 12 / gone.sum() + 1 / 12 / (~gone).sum())
    assert abs(ranks[gone].mean() - ranks[~gone].mean()) < z_bound(1) * error


def test_a_constant_column_is_filled_with_its_value(vault):
    gone = np.arange(500) % 10 == 0
    table = pa.table({"a": np.arange(500.0), "k": pa.array(np.full(500, 5.0), mask=gone)})
    with pytest.warns(SingularCovariance):
        dataset = vault.register("t", table, hide_missing=["k"], keep_order=True)
    assert set(dataset.release(to="r", noise=1.0).to_arrow()["k"].to_pylist()) == {5.0}


@pytest.mark.parametrize("columns", [2, 3, 6])
def test_the_conditional_law_is_the_normal_one(columns):
    rng = np.random.default_rng(columns)
    A = rng.normal(size=(columns, columns))
    K = A @ A.T
    seen, wanted = np.arange(0, columns, 2), np.arange(1, columns, 2)
    weights, spread = conditional(K, seen, wanted)
    B = np.linalg.solve(K[np.ix_(seen, seen)], K[np.ix_(seen, wanted)]).T
    assert np.allclose(weights, B)
    rest = K[np.ix_(wanted, wanted)] - B @ K[np.ix_(seen, wanted)]
    assert np.allclose(spread @ spread.T, rest)
    assert np.array_equal(spread, np.tril(spread))


def test_columns_that_say_the_same_count_once():
    K = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])
    weights, spread = conditional(K, np.array([0, 1]), np.array([2]))
    assert weights.tolist() == [[0.5, 0.0]]
    assert spread[0, 0] == pytest.approx(np.sqrt(0.75))
    weights, spread = conditional(K, np.array([0]), np.array([1]))
    assert (weights.tolist(), spread.tolist()) == ([[1.0]], [[0.0]])


@pytest.mark.slow
def test_bit_identical_on_all_processors():
    assert same_lines_of(REPORT)


# For ever: key 00 01 .. 1f, rows 2^40 .. 2^40 + 3, each lacking one or two of three columns.
GOLDEN = [
    2.7185857195827223,
    0.9614259031801666,
    2.8168378659640307,
    2.3751893923773033,
    3.0000018604254,
]


def test_golden_draws(registered):
    frozen, _, _ = registered
    law = Draws(
        mean=np.array([1.0, -2.0, 0.5, 0.0]),
        covariance=np.array(
            [[4.0, 1.0, 0.5, 0.0], [1.0, 2.0, 0.25, 0.0], [0.5, 0.25, 1.0, 0.0], [0, 0, 0, 1.0]]
        ),
        quantiles={"wage": ((-1.0, -1.5), (0.0, -0.5), (0.0, 0.5), (3.0, 1.5))},
    )
    small = replace(frozen, draws=law)
    nan = np.nan
    x = np.array([[nan, 2.0, nan, 8.0], [1.0, 3.0, 0.5, 2.0], [nan, nan, 0.25, nan], [0.0] * 4])
    out = fill_missing(x, position_ids(2**40, 4), small.schema, small.draws, SECRET)
    assert out[np.isnan(x)].tolist() == GOLDEN


def test_gaps_in_numbers_of_persons_are_advised_against_by_leaving_the_column_out(tmp_path):
    """They cannot be hidden beside a unit: advice to do so would be refused."""
    table = panel(persons=300, rows=5)
    tall = table["height"].to_numpy() > 172
    weight = pa.array(np.where(tall, np.nan, table["weight"].to_numpy()), from_pandas=True)
    table = table.set_column(table.column_names.index("weight"), "weight", weight)
    chosen = {"unit": "patient", "shuffle": True}
    vault = Vault.create(tmp_path / "vault")
    found = vault.register("t", table, **chosen).frozen.hidden
    assert found.highest < 0.9
    actions = {(each.action, each.columns) for each in found.remedies}
    assert ("drop", ("weight",)) in actions
    assert all(action != "hide" for action, _ in actions)
    # the control: by rows they can be hidden, and are advised to be
    rows = table.drop_columns(["patient"])
    alone = vault.register(
        "rows", rows, shuffle=True, independent_rows=True, unrelated=["t"]
    ).frozen.hidden
    assert ("hide", ("gaps of weight",)) in {(each.action, each.columns) for each in alone.remedies}
