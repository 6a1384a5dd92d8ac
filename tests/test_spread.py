"""Copies that vary as the table does: a map of each copy alone that gives nothing away."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import attack_copies, audit, notes
from cornerwave.columns import SameSpread, centre_of, ratio_of, spreads_of
from cornerwave.errors import BiasWarning, SourceError
from cornerwave.levels import LATTICE, Level
from cornerwave.miner import Copy
from cornerwave.outputs import read_metadata
from cornerwave.spec import CopyMetadata, CopySpec
from cornerwave.spine.frozen import Frozen
from cornerwave.vault import Dataset
from tests.audit.releases import known_dataset
from tests.scores import ALPHA, z_bound

pytestmark = pytest.mark.filterwarnings("ignore::cornerwave.errors.CornerwaveWarning")

ROWS = 4000
PRIVACY = (0.2, 0.5, 0.8)
KNOTS = ROWS // 50
"""A share of rows to a knot: a quantile is known no better than to one of these."""


def people(rows: int = ROWS) -> dict[str, np.ndarray]:
    """Numbers far from 0, with a long tail, zeros, and whole numbers: all related."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, rows))
    return {
        "height": 170 + 9 * a,
        "wage": np.exp(9 + 0.7 * a + 0.3 * b),
        "gain": np.where(a + b > 1, np.exp(5 + b), 0.0),
        "age": np.clip(np.rint(45 + 12 * b), 18, 90).astype(np.int64),
    }


TRANSFORMS = {"wage": "log1p", "gain": "rank"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return known_dataset(tmp_path_factory.mktemp("spread"), people(), transform=TRANSFORMS)


@pytest.fixture(scope="module")
def copies(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Path]:
    """By privacy, copies that vary as the table does, and those that do not as "raw"."""
    folder = tmp_path_factory.mktemp("copies")
    made = {}
    for p in PRIVACY:
        drawn = dataset.release(to=f"a{p}", privacy=p)
        made[p] = drawn.write(folder / f"{p}.parquet")
        raw = dataset.release(to=f"b{p}", privacy=p, raw=True)
        made["raw", p] = raw.write(folder / f"raw{p}.parquet")
    return made


def shown(path: Path, name: str) -> np.ndarray:
    return np.asarray(papq.read_table(path)[name].to_numpy(), dtype=np.float64)


def on_scale(frozen: Frozen, name: str, values: np.ndarray) -> np.ndarray:
    """A column of a copy on the scale of its noise."""
    if TRANSFORMS.get(name) == "rank":
        return frozen.scales[frozen.schema.perturbed.index(name)].undone(values)
    return np.log1p(values) if name in TRANSFORMS else values


# --- an invertible map of the copy alone ------------------------------------------------


@pytest.mark.parametrize("p", PRIVACY)
def test_the_raw_copy_comes_back_exactly(p: float, dataset: Dataset, copies: Any) -> None:
    """By what the metadata states. Control: another centre gives another number in every row."""
    frozen, stated = dataset.frozen, read_metadata(copies[p])
    for place, name in enumerate(["height", "wage", "gain"]):
        spread, grid = stated.column(name).spread, frozen.grid[place]
        raw, drawn = (on_scale(frozen, name, shown(copies[key], name)) for key in (("raw", p), p))
        assert np.array_equal(np.rint(spread.undone(drawn) / grid), np.rint(raw / grid))
        moved = SameSpread(spread.centre + 0.01 * drawn.std(), spread.factor).undone(drawn)
        assert not (np.rint(moved / grid) == np.rint(raw / grid)).any()
    height = stated.column("height").spread.undone(shown(copies[p], "height"))
    assert np.array_equal(height, shown(copies["raw", p], "height"))


def test_one_centre_in_all_copies_and_the_factor_of_the_level(
    dataset: Dataset, copies: Any
) -> None:
    for name in people():
        spreads = {p: read_metadata(copies[p]).column(name).spread for p in PRIVACY}
        assert len({each.centre for each in spreads.values()}) == 1
        for p in PRIVACY:
            assert spreads[p].factor == (1 + read_metadata(copies[p]).noise) ** -0.5
            assert read_metadata(copies["raw", p]).column(name).spread is None
    assert read_metadata(copies[0.5]).column("gain").spread.centre == 0.0


def test_the_ledgers_line_makes_it_again(dataset: Dataset, copies: Any, tmp_path: Path) -> None:
    [(again, _)] = dataset.again("a0.5")
    assert CopySpec.of_json(again.spec.to_json()) == again.spec
    assert again.write(tmp_path / "again.parquet").read_bytes() == copies[0.5].read_bytes()


# --- it looks like the table ------------------------------------------------------------


@pytest.mark.parametrize("p", PRIVACY)
def test_columns_vary_as_those_of_the_table(p: float, copies: Any) -> None:
    """The raw copy does not, which is the control."""
    table = {**people(), "wage": np.log1p(people()["wage"])}
    for name in ("height", "wage", "age"):
        drawn, raw = shown(copies[p], name), shown(copies["raw", p], name)
        if name == "wage":
            drawn, raw = np.log1p(drawn), np.log1p(raw)
        # the variance of a copy about that of the table: sqrt(2 / n), and Sheppard's step^2 / 12
        error = np.sqrt(2 / ROWS) + 1 / 12 / table["age"].var() / z_bound(6)
        assert abs(drawn.var() / table[name].var() - 1) < z_bound(6) * error
        assert raw.var() / table[name].var() - 1 > z_bound(6) * error
    found = np.corrcoef([shown(copies[p], name) for name in ("height", "age")])[0, 1]
    assert abs(found - np.corrcoef(table["height"], table["age"])[0, 1]) < z_bound(1) / ROWS**0.5


@pytest.mark.parametrize("p", PRIVACY)
def test_on_ranks_it_has_the_columns_own_distribution(p: float, copies: Any) -> None:
    x, drawn, raw = (
        people()["gain"], shown(copies[p], "gain"), shown(copies["raw", p], "gain")
    )  # fmt: skip
    # scores with noise are as distributed as without: Massart's bound, and half a share to a knot
    most = np.sqrt(np.log(2 * len(PRIVACY) / ALPHA) / 2 / ROWS) + 0.5 / KNOTS
    assert distance(x, drawn) < most
    assert p < 0.5 or distance(x, raw) > most
    # the slope of level stretches: RISE of the distance to the next knot
    assert drawn.min() >= -1.0
    assert drawn.max() <= x.max()
    share = np.mean(x == 0)
    error = np.sqrt(2 * share * (1 - share) / ROWS)
    assert abs(np.mean(np.abs(drawn) < 1) - share) < z_bound(3) * error + 1 / KNOTS


def distance(x: np.ndarray, y: np.ndarray) -> float:
    """The largest distance of two distribution functions, between values that differ clearly."""
    at = np.concatenate([np.unique(x) + 1, [-1.0]])
    return float(np.abs(
        np.searchsorted(np.sort(x), at) - np.searchsorted(np.sort(y), at)
    ).max() / len(x))  # fmt: skip


def test_whole_numbers_on_ranks_stay_whole_and_in_range(tmp_path: Path) -> None:
    x = np.random.default_rng(2).poisson(2.0, ROWS)
    dataset = known_dataset(tmp_path, {"x": x}, transform={"x": "rank"})
    drawn = dataset.release(to="a", privacy=0.8).to_arrow()["x"]
    assert pa.types.is_integer(drawn.type)
    assert drawn.to_numpy().min() >= 0
    assert drawn.to_numpy().max() <= x.max()
    # the control: as the noise left it, it is neither
    assert pa.types.is_floating(dataset.release(to="b", privacy=0.8, raw=True).to_arrow()["x"].type)


def test_where_noise_exceeds_the_covariance_the_factor_allows_for_it(tmp_path: Path) -> None:
    """No table without gaps has the covariances of these pairs: its noise is wider, and with the
    factor 1/sqrt(1 + v) a copy would be too wide.
    """
    rng, names = np.random.default_rng(9), ("x", "y", "z")
    third = np.arange(ROWS) % 3
    cells = {name: np.full(ROWS, np.nan) for name in names}
    for k, (one, other, sign) in enumerate((("x", "y", 1), ("y", "z", 1), ("x", "z", -1))):
        a, b = rng.normal(size=(2, ROWS))
        cells[one] = np.where(third == k, a, cells[one])
        cells[other] = np.where(third == k, sign * (0.9 * a + 0.44 * b), cells[other])
    dataset = known_dataset(tmp_path, pa.table(cells), keep_order=True)
    frozen, release = dataset.frozen, dataset.release(to="a", noise=4.0)
    v, drawn = release.level.noise, release.to_arrow()
    ratios = np.diag(frozen.excess) / np.diag(frozen.covariance)
    assert (ratios > 0.2).all()
    for name, ratio, K in zip(names, ratios, np.diag(frozen.covariance), strict=True):
        values = drawn[name].drop_null().to_numpy()
        # of n values, and the ratio known to 2 sqrt(2 / n)
        margin = z_bound(3) * np.sqrt(2 / len(values)) + np.sqrt(2 / ROWS)
        assert abs(values.var() / K - 1) < margin
        # the control: the copy as it was before, by the other factor
        before = read_metadata(release.write(tmp_path / f"{name}.parquet")).column(name).spread
        assert before.undone(values).var() / (1 + v) / K - 1 > ratio * v / (1 + v) - 2 * margin


def test_what_does_not_vary_is_left_alone() -> None:
    none = np.zeros(1)
    assert spreads_of({"x": (3.0, 1.0)}, noise=1.0, variance=none) == {}


# --- nothing exact ----------------------------------------------------------------------


def read_centre(raw: np.ndarray, drawn: np.ndarray, factor: float) -> float:
    """The centre, from two copies of one level: Z = c + f (Y - c)."""
    return float(np.mean((drawn - factor * raw) / (1 - factor)))


def test_a_raw_and_a_drawn_copy_of_one_level_do_not_show_the_last_row(
    dataset: Dataset, copies: Any
) -> None:
    """Who knows all rows but the last one subtracts them. Control: the exact mean as the centre."""
    x, raw = people()["height"], shown(copies["raw", 0.5], "height")
    factor = read_metadata(copies[0.5]).column("height").spread.factor
    exact = SameSpread(float(x.mean()), factor).applied(raw)
    found = ROWS * read_centre(raw, exact, factor) - x[:-1].sum()
    assert abs(found - x[-1]) < 1e-3 * x.std()
    ours = read_centre(raw, shown(copies[0.5], "height"), factor)
    assert abs(ROWS * ours - x[:-1].sum() - x[-1]) > 5 * x.std()
    # whatever the last row is, the centre is the same
    for last in x[-1] + x.std() * np.linspace(-5, 5, 11):
        moved = np.append(x[:-1], last)
        assert centre_of(moved.mean(), moved.std() / ROWS**0.5) == pytest.approx(ours, abs=1e-9)


def test_an_excess_does_not_show_the_exact_variance() -> None:
    """Metadata state the excess, so an exact ratio to the variance would give this away."""

    def factors(of: Callable[[float], float]) -> set[float]:
        return {of(1 + i / ROWS) for i in range(-5, 6)}

    def ours(variance: float) -> float:
        ratio = ratio_of(variance, 0.3, rows=ROWS)
        each = spreads_of({"x": (0.0, ratio)}, noise=1.0, variance=np.array([variance]))
        return each["x"].factor

    assert len(factors(ours)) == 1
    assert len(factors(lambda variance: (2 + 0.3 / variance) ** -0.5)) > 1


# --- what recipients and attackers do with it -------------------------------------------


def left(X: np.ndarray, files: list[np.ndarray]) -> np.ndarray:
    """What a regression fitted to one half leaves of the other, as a share of its variance."""
    half = len(X) // 2
    Y = np.column_stack([np.ones(len(X)), *files])
    weights = np.linalg.lstsq(Y[:half], X[:half], rcond=None)[0]
    return np.asarray((X[half:] - Y[half:] @ weights).var(axis=0) / X[half:].var(axis=0))


def test_a_coalition_of_drawn_and_raw_copies_learns_what_its_best_member_does(
    dataset: Dataset, copies: Any
) -> None:
    """By a regression on all columns of all copies. Control: copies with independent noise."""
    names = ["height", "wage"]
    X = np.column_stack([people()["height"], np.log1p(people()["wage"])])

    def file(key: Any) -> np.ndarray:
        return np.column_stack([on_scale(dataset.frozen, n, shown(copies[key], n)) for n in names])

    keys = [0.2, 0.5, 0.8, ("raw", 0.5), ("raw", 0.8)]
    best, every = left(X, [file(("raw", 0.2))]), left(X, [file(key) for key in keys])
    # errors of n / 2 rows; and 10 useless coefficients cost rather than help
    margin = z_bound(2) * np.sqrt(2 / (ROWS // 2)) * best
    assert (every > best - margin).all()
    rng = np.random.default_rng(4)
    noise = [read_metadata(copies[p]).noise for p in PRIVACY]
    apart = [X + rng.multivariate_normal([0, 0], v * np.cov(X.T), ROWS) for v in noise]
    assert (left(X, apart) < best - margin).any()
    assert (left(X, [file(0.8)]) > 0.8 - 0.1).all()


def test_attacks_on_drawn_copies_recover_what_they_do_from_raw_ones(
    copies: Any, tmp_path: Path
) -> None:
    papq.write_table(pa.table(people()), tmp_path / "table.parquet")
    found = [
        attack_copies([copies[key] for key in keys], truth=tmp_path / "table.parquet")
        for keys in ((0.2, 0.5), (("raw", 0.2), ("raw", 0.5)))
    ]
    assert found[0].columns == found[1].columns
    assert found[0].together == pytest.approx(found[1].together, rel=0.03)
    # taken for raw, a drawn copy would be of another noise
    assert found[0].noise == found[1].noise


def test_the_miner_answers_as_from_the_raw_copy(copies: Any) -> None:
    drawn, raw = Copy.open(copies[0.5]), Copy.open(copies["raw", 0.5])
    for of in ("table", "population"):
        for name in ("height", "wage"):
            one, other = drawn.mean([name], of=of)[name], raw.mean([name], of=of)[name]
            assert one.value == pytest.approx(other.value, rel=1e-12)
            assert one.standard_error == pytest.approx(other.standard_error, rel=1e-9)
        pair = [each.covariance(["height", "wage"], of=of) for each in (drawn, raw)]
        assert pair[0].value == pytest.approx(pair[1].value, rel=1e-9)
    slopes = [
        c.regression("wage", on=["height"]).coefficients["height"].value for c in (drawn, raw)
    ]
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-9)
    means = [each.original_mean("wage").value for each in (drawn, raw)]
    assert means[0] == pytest.approx(means[1], rel=1e-9)


def agrees(found: Any, truth: float, comparisons: int) -> bool:
    return bool(abs(found.value - truth) < z_bound(comparisons) * found.standard_error)


@pytest.mark.parametrize("p", PRIVACY)
def test_the_miner_is_right_about_rounded_and_ranked_columns(p: float, copies: Any) -> None:
    """Control: the copy's own variance is not that of the noisy column that it is taken for."""
    copy, table = Copy.open(copies[p]), people()
    age, gain = table["age"], table["gain"]
    assert pa.types.is_integer(papq.read_schema(copies[p]).field("age").type)
    variance = copy.covariance(["age"], of="table")["age", "age"]
    assert agrees(variance, age.var(ddof=1), 12)
    assert agrees(copy.mean(["age"], of="table")["age"], age.mean(), 12)
    assert agrees(copy.original_mean("gain", of="table"), gain.mean(), 12)
    both = copy.covariance(["age", "height"], of="table")["age", "height"]
    assert agrees(both, np.cov(age, table["height"])[0, 1], 12)
    metadata = read_metadata(copies[p]).to_json()
    for column in metadata["columns"].values():
        column.pop("spread", None)
    taken = Copy.open(papq.read_table(copies[p]).replace_schema_metadata(None), metadata=metadata)
    assert not agrees(taken.covariance(["age"], of="table")["age", "age"], age.var(ddof=1), 12)


def test_a_distribution_is_that_of_the_table(copies: Any) -> None:
    """Bins of a rounded column lie about what it shows, wherever the centre is."""
    copy, table = Copy.open(copies[0.2]), people()
    column = copy.columns["age"]
    assert column.step == pytest.approx((1 + read_metadata(copies[0.2]).noise) ** 0.5)
    away = (column.as_left(shown(copies[0.2], "age")) - column.origin) / column.step
    assert np.abs(away - np.rint(away)).max() < 1e-6
    for name in ("age", "gain"):
        found = copy.distribution(name)
        raw = Copy.open(copies["raw", 0.2]).distribution(name)
        assert found.mean == pytest.approx(raw.mean, rel=0.02)
        reach = 6 * 2 / ROWS**0.5
        low, high = np.quantile(table[name], [0.5 - reach, 0.5 + reach])
        assert low - 1 <= found.quantile(0.5) <= high + 1


def test_the_audit_clears_drawn_copies_and_finds_a_wrong_factor(
    copies: Any, tmp_path: Path
) -> None:
    papq.write_table(pa.table(people()), tmp_path / "table.parquet")
    keys = [0.2, 0.5, ("raw", 0.5), 0.8]
    found = audit(tmp_path / "table.parquet", [copies[key] for key in keys])
    assert found.clean, [check.note for check in found.faults]
    steps = found.numbers.rounded_to[:, found.numbers.columns.index("age")]
    assert steps.tolist() == [1.0, 1.0, 0.0, 1.0]
    # the control: 15 % less noise than the factor that is stated would mean
    lying = papq.read_table(copies[0.5])
    stated = read_metadata(copies[0.5]).to_json()
    for column in stated["columns"].values():
        column["spread"] = {**column["spread"], "factor": column["spread"]["factor"] * 1.08}
    lying = lying.replace_schema_metadata({b"cornerwave": json.dumps(stated).encode()})
    papq.write_table(lying, tmp_path / "lying.parquet")
    assert not audit(tmp_path / "table.parquet", [tmp_path / "lying.parquet"]).clean


@pytest.mark.parametrize(
    "spread",
    [
        {"centre": 1.0},
        {"factor": 0.5},
        {"centre": 1.0, "factor": 0.0},
        {"centre": 1.0, "factor": 1.5},
        {"centre": float("nan"), "factor": 0.5},
        {"centre": "1", "factor": 0.5},
        {"centre": 1.0, "factor": 0.5, "more": 1},
        [1.0, 0.5],
    ],
)
def test_metadata_that_cannot_be_are_refused(spread: Any) -> None:
    stated = {"columns": {"x": {"role": "perturbed", "spread": spread}}}
    with pytest.raises(SourceError, match="'spread' must be"):
        CopyMetadata.read(stated, "a copy")
    right = {"columns": {"x": {"role": "perturbed", "spread": {"centre": 1.0, "factor": 0.5}}}}
    assert CopyMetadata.read(right, "a copy").column("x").spread == SameSpread(1.0, 0.5)


def test_at_every_level_factors_can_be_stated() -> None:
    last = Level(LATTICE[-1]).noise
    columns = {"x": (0.0, ratio_of(1.0, 1e15, rows=100))}
    each = spreads_of(columns, noise=last, variance=np.ones(1))
    stated = {"columns": {"x": {"spread": {"centre": 0.0, "factor": each["x"].factor}}}}
    assert CopyMetadata.read(stated, "a copy").column("x").spread == each["x"]


# --- frames -----------------------------------------------------------------------------


@pytest.fixture
def framed(tmp_path: Path) -> Callable[[Any], tuple[Dataset, list[Any]]]:
    """A dataset of a frame, and a drawn copy at each privacy as such a frame, with its metadata."""

    def made(frame: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        dataset = known_dataset(tmp_path, frame)
        releases = [dataset.release(to="a", privacy=p) for p in (0.2, 0.5)]
        return dataset, [(each.to_frame(), each.metadata) for each in releases]

    return made


def small() -> dict[str, np.ndarray]:
    return {name: values for name, values in people().items() if name in ("height", "age")}


@pytest.mark.parametrize("kind", [pa.table, pd.DataFrame])
def test_arrow_tables_and_pandas_frames_state_how_they_were_made(kind: Any, framed: Any) -> None:
    source = kind(small())
    _, made = framed(source)
    copies = [frame for frame, _ in made]
    assert all(isinstance(frame, type(source)) for frame in copies)
    assert audit(source, copies).clean
    found = attack_copies(copies, truth=source)
    assert found.noise == (0.25, 1.0)
    assert agrees(Copy.open(copies[0]).covariance(["height"], of="table")["height", "height"],
                  small()["height"].var(ddof=1), 2)  # fmt: skip
    # a part of the rows is of the same copy, and is no whole one
    part = copies[0][:100] if kind is pd.DataFrame else copies[0].slice(0, 100)
    with pytest.raises(SourceError, match="its metadata states"):
        Copy.open(part).mean()


def test_a_polars_frame_needs_its_metadata_beside_it(framed: Any) -> None:
    source = pl.DataFrame(small())
    _, made = framed(source)
    copies, metadata = [frame for frame, _ in made], [about for _, about in made]
    assert audit(source, copies, metadata=metadata).clean
    assert attack_copies(copies, truth=source, metadata=metadata).noise == (0.25, 1.0)
    variance = small()["height"].var(ddof=1)
    copy = Copy.open(copies[1], metadata=metadata[1])
    assert agrees(copy.covariance(["height"], of="table")["height", "height"], variance, 2)
    # the control: taken for a raw one, which each says
    taken = audit(source, copies, privacy=[0.2, 0.5])
    assert not taken.sound
    assert any("no metadata, so numbers were judged as" in note for note in notes(taken))
    with pytest.warns(BiasWarning, match="taken as the noise left them"):
        wrong = Copy.open(copies[1], noise=1.0)
    assert not agrees(wrong.covariance(["height"], of="table")["height", "height"], variance, 2)


def test_metadata_is_for_frames_one_each(framed: Any, copies: Any) -> None:
    _, made = framed(pa.table(small()))
    [(frame, about), _] = made
    with pytest.raises(SourceError, match="got metadata of 2 copies for 1"):
        audit(pa.table(small()), [frame], metadata=[about, about])
    with pytest.raises(SourceError, match="states how it was made"):
        audit(pa.table(people()), [copies[0.5]], metadata=[about])
    with pytest.raises(SourceError, match="'noise' must be"):
        audit(pa.table(small()), [frame], metadata=[{**about, "noise": "1"}])
