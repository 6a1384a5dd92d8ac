"""The scale that a draft proposes for a number, and what copies by the draft look like."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import ndtr, ndtri

from cornerwave.columns import KNOTS
from cornerwave.errors import CornerwaveWarning
from cornerwave.inspection import draft, inspect
from cornerwave.outlook import advice, outlook_of
from cornerwave.sources import open_source
from cornerwave.spine.frozen import BURIED
from cornerwave.vault import Vault
from tests.scores import ALPHA, z_bound

ROWS = 4000


def drawn(seed: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    z, u = rng.normal(size=ROWS), rng.random(ROWS)
    return {
        "normal": 170 + 9 * z,
        "centimetres": np.rint(170 + 9 * z).astype(np.int64),
        "uniform": u,
        "minutes": rng.exponential(20, ROWS),
        "gain": np.where(u < 0.6, 0.0, np.rint(np.exp(5 + z))),
        "peak": rng.laplace(size=ROWS),
        "day": np.datetime64("2001-01-01", "D") + (3000 * u).astype(np.int64),
        "often": np.where(u < 0.999, 7.25, z),
    }


def proposed(table: pa.Table) -> dict[str, tuple[str | None, str]]:
    """The transform and the reason that are drafted for each column."""
    found = {}
    for each in inspect(open_source(table)).columns:
        if each.scale is not None:
            found[each.name] = (each.scale.transform, each.scale.reason)
    return found


def test_about_normal_numbers_keep_their_scale_and_others_are_drafted_for_ranks() -> None:
    found = proposed(pa.table(drawn()))
    assert {name for name, (scale, _) in found.items() if scale is None} == {
        "normal",
        "centimetres",
    }
    for name, why in {
        "normal": "numbers about normal",
        "centimetres": "whole numbers about normal",
        "uniform": "% of a copy at privacy 0.5 would leave its range",
        "minutes": "% of a copy at privacy 0.5 would leave its range",
        "gain": "61% of the values are 0",
        "peak": "numbers that are not normal",
        "day": "% of a copy at privacy 0.5 would leave its range",
    }.items():
        assert why in found[name][1]
    assert "often" not in found  # nearly constant: ranks cannot order it


def test_the_share_beyond_the_range_is_that_of_a_copy() -> None:
    x = drawn()["uniform"]
    [(_, why)] = proposed(pa.table({"x": x})).values()
    rng, n = np.random.default_rng(1), 10**6
    chosen = rng.choice(x, n)
    noisy = chosen + x.std() * rng.normal(size=n)
    copy = x.mean() + (noisy - x.mean()) / np.sqrt(2)
    share = np.mean((copy < x.min()) | (copy > x.max()))
    assert why.startswith(f"on its own scale {share:.0%} of a copy")


def test_of_few_rows_no_scale_is_drafted() -> None:
    assert proposed(pa.table({"x": drawn()["minutes"][:499]})) == {}
    assert proposed(pa.table({"x": drawn()["minutes"][:500]})).keys() == {"x"}


@pytest.mark.parametrize("seed", range(5))
def test_normal_samples_are_seldom_taken_for_others(seed: int) -> None:
    """Of 40 samples, by chance 5 % lie further from a normal one than the limit, and so do few."""
    rng = np.random.default_rng(seed)
    table = pa.table({f"x{i}y": rng.normal(3, 7, 600) for i in range(40)})
    found = proposed(table)
    ranked = sum(scale == "rank" for scale, _ in found.values())
    # binomial, and the share beyond the range of 600 values is about 1 in 400
    assert ranked <= 40 * 0.05 + z_bound(5) * np.sqrt(40 * 0.05 * 0.95)


def test_a_draft_states_scales_and_types_that_can_be_registered(tmp_path: Path) -> None:
    table = pa.table(drawn()).drop_columns(["often"])
    text = draft(inspect(open_source(table)))
    assert 'transform = "rank"    # 61% of the values are 0; on ranks copies' in text
    assert "# numbers about normal: they keep their own scale" in text
    assert 'type = "int64"    # it holds whole numbers alone' in text  # gain, of floats
    (tmp_path / "schema.toml").write_text(text)
    vault = Vault.create(tmp_path / "vault")
    dataset = vault.register("t", table, schema=tmp_path / "schema.toml")
    assert dataset.frozen.schema.column("gain").transform == "rank"
    for p in (0.2, 0.5, 0.8):
        copy = dataset.release(to="a", privacy=p).to_arrow()
        assert copy.schema.field("gain").type == pa.int64()
        assert copy.schema.field("day").type == pa.date32()
        for name in ("uniform", "minutes", "gain", "peak", "day"):
            x, z = (np.asarray(t[name].to_numpy(), float) for t in (table, copy))
            rounded = 0.5 if name in ("gain", "day") else 0.0
            # the slope beyond the outermost knots: 2^-10 of the distance to the next one
            slack = rounded + 0.01 * (x.max() - x.min())
            assert x.min() - slack <= z.min()
            assert z.max() <= x.max() + slack
            both = np.sort(np.concatenate([x, z])) + rounded
            apart = np.searchsorted(np.sort(x), both) - np.searchsorted(np.sort(z), both)
            # Massart's bound, and half a share to a knot, of which there are rows / 50
            most = np.sqrt(np.log(2 * 15 / ALPHA) / 2 / ROWS) + 0.5 / min(KNOTS, ROWS // 50)
            assert np.abs(apart).max() / ROWS < most
    # the control: on their own scale they leave the range
    plain = Vault.create(tmp_path / "other").register("own", pa.table({"x": table["minutes"]}))
    assert plain.release(to="a", privacy=0.5).to_arrow()["x"].to_numpy().min() < 0


# --- noise beyond reason, in words ------------------------------------------------------


def seldom_complete(rows: int = 4000) -> pa.Table:
    """Where x is present, y varies 40 times as much as elsewhere."""
    rng = np.random.default_rng(6)
    seldom = np.arange(rows) % 40 == 0
    x = np.where(seldom, rng.normal(size=rows), np.nan)
    return pa.table({"x": x, "y": rng.normal(size=rows) * np.where(seldom, 40.0, 1.0)})


def test_a_column_that_noise_would_bury_is_said_to_be(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "vault")
    with pytest.warns(CornerwaveWarning, match="privacy 0.5 would bury such a column") as caught:
        dataset = vault.register("t", seldom_complete(), keep_order=True)
    assert "% more noise" not in str(caught[0].message)
    said = [line for line in advice(dataset.frozen).sentences if "would bury" in line]
    [line] = said
    assert line.startswith("privacy 0.5 would bury 'y': ")
    K, S = (np.diag(each)[1] for each in (dataset.frozen.covariance, dataset.frozen.excess))
    assert f"{1 + S / K:,.0f} times the variance of the values" in line
    # the control: of a complete table nothing is
    complete = pa.table({"x": seldom_complete()["y"]})
    other = Vault.create(tmp_path / "other").register("t", complete, keep_order=True)
    assert not any("bury" in line for line in advice(other.frozen).sentences)


def test_a_level_that_would_bury_all_is_said_to(tmp_path: Path) -> None:
    """What is kept reveals nearly half of x: privacy 0.5 takes noise out of all proportion."""
    rng = np.random.default_rng(7)
    kept = rng.integers(0, 2, 4000)
    table = pa.table({"x": rng.normal(size=4000) + 1.93 * kept, "kept": kept})
    dataset = Vault.create(tmp_path / "vault").register("t", table, keep=["kept"])
    level = dataset.frozen.hidden.level_of(500)
    assert level is not None
    assert level.noise > BURIED
    [line] = [each for each in advice(dataset.frozen).sentences if "bury" in each]
    assert "given what copies show without noise ('kept'), privacy 0.5 would bury every" in line
    assert f"the noise has {level.noise:,.0f} times the variance of the values" in line


def test_what_stays_hidden_of_a_column_on_ranks_is_stated_in_its_own_units(tmp_path: Path) -> None:
    """Nine values of ten lie within what is stated of the best estimate, by sorted values alone."""
    rng, n = np.random.default_rng(4), 20_000
    wage = rng.gamma(1.0, 5.0, n)
    vault = Vault.create(tmp_path / "vault")
    dataset = vault.register("people", pa.table({"wage": wage}), transform={"wage": "rank"})
    ascending = np.sort(wage)

    def value(score: np.ndarray) -> np.ndarray:
        return np.interp(ndtr(score) * n - 0.5, np.arange(n), ascending)

    scores = ndtri((np.argsort(np.argsort(wage)) + 0.5) / n)
    half = 1.645 * np.sqrt(0.5)
    copies = scores + rng.normal(size=n)  # at privacy 0.5 the noise is 1
    low, high = value(copies / 2 - half), value(copies / 2 + half)
    inside = np.mean((low <= wage) & (wage <= high))
    assert abs(inside - 0.9) < z_bound(1) * np.sqrt(0.9 * 0.1 / n)
    outlook = outlook_of(dataset.frozen, 0.5)
    assert outlook is not None
    assert outlook.within["wage"] == pytest.approx(np.mean(high - low) / 2, rel=0.03)
    # by the variance alone, as on the column's own scale, it would be this
    assert abs(outlook.within["wage"] - half * wage.std()) > 0.05 * half * wage.std()
    assert "±" in outlook.in_words("wage")


def test_times_of_whole_seconds_are_drafted_as_such_and_others_are_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(12)
    seconds = rng.integers(0, 10**8, 1000)
    table = pa.table(
        {
            "whole": pa.array(seconds * 10**6).cast(pa.timestamp("us")),
            "finer": pa.array(seconds * 10**6 + 5).cast(pa.timestamp("us")),
        }
    )
    text = draft(inspect(open_source(table))).replace('order = "shuffle"', 'order = "keep"')
    assert text.count('type = "timestamp[s]"    # it holds whole') == 1
    (tmp_path / "s.toml").write_text(text)
    dataset = Vault.create(tmp_path / "v").register("t", table, schema=tmp_path / "s.toml")
    copy = pq.read_table(dataset.release(to="p", privacy=0.5).write(tmp_path / "t.parquet"))
    assert [copy.schema.field(name).type.unit for name in table.column_names] == ["ms", "us"]
