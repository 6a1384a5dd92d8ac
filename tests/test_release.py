from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from cornerwave import rows as rows_module
from cornerwave.errors import SourceChanged
from cornerwave.frozen import Frozen
from cornerwave.levels import Level
from cornerwave.noise import WhiteStreams, coefficients, steps
from cornerwave.register import measure
from cornerwave.release import Order, Wanted, make_copies
from cornerwave.rows import Secrets
from cornerwave.table import read_csv
from cornerwave.table.read import open_source
from cornerwave.table.scale import Scale
from cornerwave.vault import Key
from tests.conftest import decide, make_people

KEY = Key.unsafe_from_seed(2)
GOLDEN = [
    [
        "0x1.487d000000000p+0",
        "0x1.889182e000000p+6",
        "0x1.2c81180000000p+1",
        "0x1.5adfbb4000000p+6",
        "-0x1.6362f80000000p+0",
        "0x1.d170746000000p+6",
        "0x1.a79ce48000000p+3",
        "0x1.1931ade000000p+6",
        "-0x1.fd23200000000p-1",
        "nan",
    ],
    [
        "0x1.05c5640000000p+0",
        "0x1.83e9b38000000p+6",
        "0x1.aa9baf0000000p+3",
        "0x1.1531e1c000000p+6",
        "-0x1.1dda6f0000000p+2",
        "0x1.f57b5ba000000p+6",
        "0x1.6f267d8000000p+3",
        "0x1.28c90cc000000p+6",
        "-0x1.7d36d60000000p+1",
        "nan",
    ],
]


class Collected:
    def __init__(self):
        self.groups = []

    def write(self, group):
        self.groups.append(group)

    @property
    def table(self):
        return pa.concat_tables(self.groups)


def freeze(table, **roles):
    source = open_source(table)
    return measure(source, decide(source.schema, **roles), key=KEY, mark_secret=bytes(32)).frozen


def copies(source, frozen, noise, wanted, *, key=KEY, **options):
    order = Order("ab" * 16, frozen, tuple(noise), tuple(Wanted(Level(v)) for v in wanted))
    sinks = [Collected() for _ in wanted]
    types = {column.name: column.type for column in frozen.source_types}
    make_copies(open_source(source, types), order, sinks, key=key, **options)
    return [sink.table for sink in sinks]


def numbers(table, columns=("age", "wage", "height")):
    return np.column_stack([table[name].to_numpy() for name in columns])


def test_golden_copy():
    """Format 1 for ever: if this fails, copies released before can not be made again."""
    table = pa.table({"x": [1.0, 2.5, -3.0, 10.0, 0.125], "y": [100.0, 90.5, 120.25, 80.0, None]})
    frozen = Frozen(
        schema=decide(table.schema),
        source_types=table.schema,
        rows=5,
        scales=(Scale(), Scale()),
        mean=np.array([2.125, 97.6875]),
        covariance=np.array([[16.0, -32.0], [-32.0, 100.0]]),
        factor=np.array([[4.0, 0.0], [-8.0, 6.0]]),
        grid=np.array([2.0**-22, 2.0**-21]),
        categories=(),
        missing=("y",),
        fingerprint="5:5e1aee014115ebbd2ee161786419a21a9e57b7700cbe074ff12a6f8ec77387a6",
    )
    near, far = copies(table, frozen, [4.0, 0.25, 1.0], [0.25, 1.0])
    hexes = [[float(v).hex() for v in numbers(t, "xy").ravel()] for t in (near, far)]
    assert hexes == GOLDEN


def test_a_copy_is_the_table_plus_the_path(people):
    """The naive twin: white streams, the Cholesky row, the factor, and rounding."""
    frozen = freeze(people, drop=["id"])
    noise = [4.0, 0.5, 1.0, 9.0]
    streams = WhiteStreams(Secrets.of(KEY).noise, noise, columns=3, rows=300)
    streams.place(streams.positions(0, 300))
    white = np.array([streams.normals(v).copy() for v in noise])
    weights = coefficients(steps(noise))
    made = copies(people, frozen, noise, noise)
    X = numbers(people)
    for row, copy in zip(weights, made, strict=True):
        W = (frozen.factor @ np.tensordot(row, white, 1)).T
        error = np.abs(numbers(copy) - (X + W))
        assert np.nanmax(error / frozen.grid) <= 1.01


def test_making_it_again_is_the_same(people):
    frozen = freeze(people, drop=["id"])
    [one], [two] = (copies(people, frozen, [1.0], [1.0]) for _ in range(2))
    assert one.equals(two)
    [other] = copies(people, frozen, [1.0, 2.0], [2.0])
    assert not one.equals(other)


def test_later_levels_never_change_an_earlier_copy(people):
    frozen = freeze(people, drop=["id"])
    [before] = copies(people, frozen, [1.0], [1.0])
    for later in ([1.0, 0.5], [1.0, 2.0, 0.9], [1.0, np.nextafter(1.0, 2)]):
        assert copies(people, frozen, later, [1.0])[0].equals(before)


def test_many_in_one_pass_equal_one_by_one(people):
    frozen = freeze(people, drop=["id"])
    noise = [3.0, 1.0, 0.2, 2.0, 7.0]
    together = copies(people, frozen, noise, [7.0, 0.2, 2.0])
    for copy, wanted in zip(together, [7.0, 0.2, 2.0], strict=True):
        assert copy.equals(copies(people, frozen, noise, [wanted])[0])


@pytest.fixture(scope="module")
def long_table():
    return make_people(5000)


@pytest.fixture(scope="module")
def long_copy(long_table):
    frozen = freeze(long_table, drop=["id"])
    return frozen, copies(long_table, frozen, [2.0, 0.5, 1.0], [0.5, 1.0])


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("group_cells", [1, 3 * 2048, 1 << 20])
@pytest.mark.parametrize("block_cells", [7, 3000])
def test_threads_groups_and_blocks_change_no_bit(
    monkeypatch, long_table, long_copy, threads, group_cells, block_cells
):
    frozen, expected = long_copy
    monkeypatch.setattr(rows_module, "GROUP_CELLS", group_cells)
    monkeypatch.setattr("cornerwave.release.BLOCK_CELLS", block_cells)
    made = copies(long_table, frozen, [2.0, 0.5, 1.0], [0.5, 1.0], threads=threads)
    assert all(a.equals(b) for a, b in zip(made, expected, strict=True))


@pytest.mark.parametrize("block_bytes", [64, 999, 1 << 23])
def test_chunks_of_a_csv_change_no_bit(monkeypatch, tmp_path, long_table, long_copy, block_bytes):
    frozen, expected = long_copy
    path = tmp_path / "people.csv"
    pa.csv.write_csv(long_table, path)
    monkeypatch.setattr(read_csv, "CSV_BLOCK_BYTES", block_bytes)
    made = copies(path, frozen, [2.0, 0.5, 1.0], [0.5, 1.0])
    assert all(a.equals(b) for a, b in zip(made, expected, strict=True))


@pytest.mark.parametrize("row_group", [11, 1000, 5000])
def test_row_groups_of_a_parquet_file_change_no_bit(tmp_path, long_table, long_copy, row_group):
    frozen, expected = long_copy
    path = tmp_path / "people.parquet"
    pa.parquet.write_table(long_table, path, row_group_size=row_group)
    made = copies(path, frozen, [2.0, 0.5, 1.0], [0.5, 1.0])
    assert all(a.equals(b) for a, b in zip(made, expected, strict=True))


def test_with_a_key_column_shuffled_rows_have_the_same_noise(people):
    source = open_source(people)
    schema = decide(source.schema, key="id")
    frozen = measure(source, schema, key=KEY, mark_secret=bytes(32)).frozen
    shuffled = people.take(np.random.default_rng(3).permutation(300))
    [straight] = copies(people, frozen, [1.0], [1.0])
    [mixed] = copies(shuffled, frozen, [1.0], [1.0])
    assert mixed["id"].equals(shuffled["id"])
    assert mixed.sort_by("id").equals(straight.sort_by("id"))


class TestGrid:
    def on_grid(self, values, step):
        steps = values[~np.isnan(values)] / step
        return np.array_equal(steps, np.rint(steps))

    def test_every_value_of_every_level_is_on_one_grid(self, people):
        frozen = freeze(people, drop=["id"])
        noise = [1.0, 1e-6, 0.3, 1e6]
        for copy in copies(people, frozen, noise, noise):
            for name, step in zip(("age", "wage", "height"), frozen.grid, strict=True):
                assert self.on_grid(copy[name].to_numpy(), step)

    def test_plain_float_noise_is_not_on_the_grid(self, people):
        # The negative control: low bits of x + z are those of neither.
        frozen = freeze(people, drop=["id"])
        X = numbers(people)
        Y = X + np.random.default_rng(0).standard_normal(X.shape) * X.std(axis=0)
        assert not self.on_grid(Y[:, 1], frozen.grid[1])

    def test_low_bits_tell_nothing_of_which_value_it_was(self):
        """Mironov's attack: which x among the candidates could have given this float?"""
        candidates = np.array([0.1, 0.7, 3.3])
        table = pa.table({"x": np.tile(candidates, 500)})
        frozen = freeze(table)
        [copy] = copies(table, frozen, [1.0], [1.0])
        y, step = copy["x"].to_numpy(), frozen.grid[0]
        # On the grid all candidates explain every value: y - round(x) is a noise on the grid.
        for x in candidates:
            assert self.on_grid(y - np.rint(x / step) * step, step)

    def test_a_large_mean_stays_exact(self):
        random = np.random.default_rng(5)
        x = 1e9 + np.round(random.standard_normal(2000), 3)
        table = pa.table({"x": x})
        frozen = freeze(table)
        [copy] = copies(table, frozen, [1.0], [1.0])
        y = copy["x"].to_numpy()
        assert self.on_grid(y, frozen.grid[0])
        assert frozen.grid[0] <= 2.0**-20
        # sd of noise is that of x, within 5 standard errors
        assert abs((y - x).std() / x.std() - 1) < 5 / np.sqrt(2 * 2000)


def test_missing_stays_missing_and_nothing_else_becomes_it(people):
    frozen = freeze(people, drop=["id"])
    [copy] = copies(people, frozen, [1.0], [1.0])
    for name in ("age", "wage", "height"):
        assert copy[name].is_null().equals(people[name].is_null())
        assert not np.isnan(copy[name].drop_null().to_numpy()).any()


@pytest.mark.filterwarnings("ignore::cornerwave.errors.SingularCovariance")
def test_a_constant_column_stays_and_collinear_columns_stay_collinear():
    x = np.array([1.0, 2.0, 4.0, 9.0, 3.0])
    table = pa.table({"flat": [0.1] * 5, "x": x, "twice": 2 * x})
    frozen = freeze(table)
    [copy] = copies(table, frozen, [1.0], [1.0])
    assert copy["flat"].to_pylist() == [0.1] * 5
    off = np.abs(copy["twice"].to_numpy() - 2 * copy["x"].to_numpy())
    assert off.max() <= 4 * frozen.grid[1:].max()


@pytest.mark.parametrize("roles", [{"drop": ["id"]}, {"key": "id"}])
def test_a_changed_source_is_refused_whatever_was_handed_to_the_sinks(people, roles):
    source = open_source(people)
    schema = decide(source.schema, **roles)
    frozen = measure(source, schema, key=KEY, mark_secret=bytes(32)).frozen
    wage = people["wage"].to_pylist()
    wage[150] += 0.01
    changed = people.set_column(2, "wage", pa.array(wage))
    with pytest.raises(SourceChanged, match="a value differs"):
        copies(changed, frozen, [1.0], [1.0])
    with pytest.raises(SourceChanged, match="it has 299 rows, 300 were registered"):
        copies(people.slice(1), frozen, [1.0], [1.0])
    with pytest.raises(SourceChanged, match="it has 600 rows"):
        copies(pa.concat_tables([people, people]), frozen, [1.0], [1.0])


def test_an_empty_source_is_refused(people):
    frozen = freeze(people, drop=["id"])
    with pytest.raises(SourceChanged, match="it has 0 rows"):
        copies(people.slice(0, 0), frozen, [1.0], [1.0])


def test_a_fault_in_a_sink_comes_through(people):
    class Broken:
        def write(self, group):
            raise RuntimeError("the sink is full")

    frozen = freeze(people, drop=["id"])
    order = Order("ab" * 16, frozen, (1.0,), (Wanted(Level(1.0)),))
    with pytest.raises(RuntimeError, match="the sink is full"):
        make_copies(open_source(people), order, [Broken()], key=KEY)


def test_noise_has_the_promised_covariance_and_independent_noise_has_not():
    """Cov(W(u), W(v)) = min(u, v) K between copies, over 20,000 rows."""
    rows, noise = 20_000, [2.0, 0.5, 1.0]
    x = np.random.default_rng(8).standard_normal((rows, 2)) @ [[2.0, 1.0], [0.0, 0.5]]
    table = pa.table({"a": x[:, 0], "b": x[:, 1]})
    frozen = freeze(table)
    W = np.hstack([numbers(c, "ab") - x for c in copies(table, frozen, noise, noise)])
    promised = np.kron(np.minimum.outer(noise, noise), frozen.covariance)
    assert not strays(W, promised)
    lonely = np.random.default_rng(9).standard_normal((rows, 6))
    lonely = lonely @ np.linalg.cholesky(np.kron(np.diag(noise), frozen.covariance)).T
    assert strays(lonely, promised)


ALPHA = 1e-9


def strays(sample, promised):
    """Say whether an entry of the sample covariance is too far from the promised one."""
    n, m = sample.shape
    bound = NormalDist().inv_cdf(1 - ALPHA / (2 * m * m))
    spread = np.sqrt((np.outer(np.diag(promised), np.diag(promised)) + promised**2) / n)
    return bool((np.abs(sample.T @ sample / n - promised) > bound * spread).any())
