"""Floats with few decimals have as many in copies, and stay what the noise made of them."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.audit import audit
from cornerwave.columns import nearest_decimals
from cornerwave.errors import ColumnError
from cornerwave.inspection import draft, inspect
from cornerwave.ledger import Key
from cornerwave.miner import Copy
from cornerwave.outputs import read_metadata
from cornerwave.sources import open_source
from cornerwave.vault import Vault

ROWS = 2000


def diamonds() -> pa.Table:
    """Two decimals, skewed; one decimal, about normal; and a ratio with all of its digits."""
    rng = np.random.default_rng(5)
    carat, depth = rng.gamma(3, 0.3, ROWS) + 0.2, rng.normal(61.7, 1.4, ROWS)
    return pa.table(
        {
            "carat": np.round(carat, 2),
            "depth": np.round(depth, 1),
            "ratio": carat / depth,
            "price": rng.integers(300, 1500, ROWS),
        }
    )


def decimals_of(values) -> int:
    """The most decimals of numbers as they are written."""
    return max(-Decimal(repr(value)).normalize().as_tuple().exponent for value in values)


@given(st.integers(-(10**12), 10**12), st.integers(1, 6))
def test_a_rounded_number_is_the_double_that_its_decimal_is_read_as(steps, decimals):
    written = float(Fraction(steps, 10**decimals))
    near = nearest_decimals(np.array([written * (1 + 1e-14)]), decimals)
    assert near[0] == written


@given(st.floats(-1e6, 1e6), st.floats(0, 100), st.integers(1, 4))
def test_a_rounded_number_lies_within_its_bounds(low, width, decimals):
    high = low + width + 10.0**-decimals  # some decimal lies between
    values = np.array([-np.inf, low - 1, low, (low + high) / 2, high, high + 1, np.inf, np.nan])
    near = nearest_decimals(values, decimals, low, high)
    assert np.isnan(near[-1])
    assert ((near[:-1] >= low) & (near[:-1] <= high)).all()


def test_a_draft_states_decimals_and_copies_have_them(vault, tmp_path):
    (tmp_path / "schema.toml").write_text(draft(inspect(open_source(diamonds()))))
    dataset = vault.register("diamonds", diamonds(), schema=tmp_path / "schema.toml")
    kept = {column.name: column.decimals for column in dataset.frozen.schema.columns}
    assert kept == {"carat": 2, "depth": 1, "ratio": None, "price": None}
    path = dataset.release(to="ann", privacy=0.5).write(tmp_path / "copy.csv")
    copy = pacsv.read_csv(path)
    assert decimals_of(copy.column("carat").to_pylist()) == 2
    assert decimals_of(copy.column("depth").to_pylist()) == 1
    assert decimals_of(copy.column("ratio").to_pylist()) > 6  # the control: not chosen
    stated = read_metadata(path).columns
    assert (stated["carat"].rounded, stated["depth"].rounded) == (0.01, 0.1)
    assert stated["carat"].type == "double"
    assert stated["ratio"].rounded is None


def test_rounding_changes_no_figure_beyond_its_step(vault, tmp_path):
    raws = {"carat": 2, "depth": 1}
    rounded = vault.register("rounded", diamonds(), decimals=raws)
    made = rounded.release(to="ann", privacy=0.5)
    fine = rounded.release(to="ann", privacy=0.5, raw=True).to_arrow()
    copy = made.to_arrow()
    for name, decimals in raws.items():
        # drawn together by what the copy states, the raw copy lies half a step away at most
        own = read_metadata(made.write(tmp_path / "copy.parquet")).columns[name].spread
        together = own.centre + own.factor * (fine.column(name).to_numpy() - own.centre)
        off = np.abs(copy.column(name).to_numpy() - together)
        assert 0 < off.max() <= 0.5 * 10.0**-decimals * (1 + 1e-9)
    assert audit(diamonds(), [tmp_path / "copy.parquet"]).sound
    mean = Copy.open(tmp_path / "copy.parquet").mean(["carat"])
    truth = diamonds().column("carat").to_numpy().mean()
    assert abs(mean.value[0] - truth) < 5 * mean.standard_error[0]


def test_noise_narrower_than_a_step_is_not_rounded_away(vault):
    """Rounded to whole tenths, most values would be those of the table, and look exact."""
    rng = np.random.default_rng(6)
    table = pa.table({"x": np.round(rng.normal(0, 0.2, ROWS), 1), "y": rng.normal(size=ROWS)})
    dataset = vault.register("narrow", table, decimals={"x": 1})
    own = dataset.release(to="ann", privacy=0.01).to_arrow().column("x")
    assert decimals_of(own.to_pylist()) > 1
    wide = dataset.release(to="ann", privacy=0.5).to_arrow().column("x")
    assert decimals_of(wide.to_pylist()) == 1
    asked = dataset.release(to="ann", privacy=0.01, round=["x"]).to_arrow().column("x")
    assert decimals_of(asked.to_pylist()) == 1  # whoever asks gets it


def test_no_noise_depends_on_decimals(tmp_path):
    made, key = [], Key.generate()
    for name, decimals in (("without", {}), ("with", {"carat": 2})):
        vault = Vault.create(tmp_path / name, key=key)
        dataset = vault.register("diamonds", diamonds(), decimals=decimals)
        made.append(dataset.release(to="ann", privacy=0.5, raw=True).to_arrow())
    assert made[0].equals(made[1])


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"price": 1}, "are for floats that stay floats"),
        ({"carat": 0}, "a whole number from 1 to 15"),
        ({"carat": "two"}, "a whole number from 1 to 15"),
        ({"none": 1}, "none"),
    ],
)
def test_decimals_that_no_copy_can_have_are_refused(vault, wrong, why):
    with pytest.raises(ColumnError, match=why):
        vault.register("diamonds", diamonds(), decimals=wrong)
