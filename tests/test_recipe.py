import pickle
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from cornerwave.columns import Scale
from cornerwave.engines.local import make_copies
from cornerwave.errors import LevelError, SourceChanged
from cornerwave.ledger import Key
from cornerwave.levels import Level
from cornerwave.noise import WhiteStreams, coefficients, lattice_path
from cornerwave.privacy import Hidden
from cornerwave.sources import open_source
from cornerwave.spec import CopySpec
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.recipe import NoiseSecrets, Recipe
from cornerwave.spine.rows import RowSecrets, numbered, row_ids
from tests.conftest import decide, freeze_table, make_people
from tests.tables import KEY_AS_IS

KEY = Key.unsafe_from_seed(2)
GOLDEN = [
    [
        "-0x1.1751840000000p+0",
        "0x1.b6023a8000000p+6",
        "0x1.c453e00000000p-1",
        "0x1.66e32c8000000p+6",
        "-0x1.8b10cc0000000p+1",
        "0x1.f023478000000p+6",
        "0x1.e62f930000000p+2",
        "0x1.4f874dc000000p+6",
        "-0x1.6eaaf00000000p-2",
        "nan",
    ],
    [
        "-0x1.318bb80000000p-1",
        "0x1.ca85216000000p+6",
        "-0x1.7eccd00000000p+0",
        "0x1.612ecd2000000p+6",
        "-0x1.61da760000000p+2",
        "0x1.ead9b90000000p+6",
        "-0x1.7826480000000p+1",
        "0x1.a789af8000000p+6",
        "0x1.b8bab40000000p+0",
        "nan",
    ],
]


class Collected:
    def __init__(self):
        self.groups = []

    def encode(self, group):
        return group

    def append(self, encoded):
        self.groups.append(encoded)

    @property
    def table(self):
        return pa.concat_tables(self.groups)


def freeze(table, **roles):
    return freeze_table(table, KEY, **roles)


def recipe_of(frozen, noise, key=KEY):
    return Recipe(
        "ab" * 16,
        frozen,
        [CopySpec(Level(v)) for v in noise],
        rows=RowSecrets.of(KEY.derive),
        noise=NoiseSecrets.of(key.derive),
    )


def copies(source, frozen, noise, *, key=KEY, **options):
    outputs = [Collected() for _ in noise]
    types = {column.name: column.type for column in frozen.source_types}
    make_copies(open_source(source, types), recipe_of(frozen, noise, key), outputs, **options)
    return [output.table for output in outputs]


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
        excess=np.zeros((2, 2)),
        factor=np.array([[4.0, 0.0], [-8.0, 6.0]]),
        grid=np.array([2.0**-22, 2.0**-21]),
        categories=(),
        missing=("y",),
        fingerprint="5:9ff23c15eca4feadc778bdc2f6404ab5",
        draws=None,
        hidden=Hidden({}, tuple(range(1, 1000)), {}),
    )
    near, far = copies(table, frozen, [0.25, 1.0])
    hexes = [[float(v).hex() for v in numbers(t, "xy").ravel()] for t in (near, far)]
    assert hexes == GOLDEN


def test_a_copy_is_the_table_plus_the_path(people):
    """The naive twin: all 999 white streams, rows of the Cholesky factor, and rounding."""
    frozen = freeze(people, drop=["id"])
    path = lattice_path()
    entered = [step.noise for step in path]
    streams = WhiteStreams(NoiseSecrets.of(KEY.derive).noise, entered, columns=3, rows=300)
    streams.place(streams.positions(0, 300))
    white = np.array([streams.normals(v).copy() for v in entered])
    weights = coefficients(path)
    noise = [Level.of(privacy=p).noise for p in (0.8, 0.333, 0.5, 0.91)]
    X = numbers(people)
    for level, copy in zip(noise, copies(people, frozen, noise), strict=True):
        row = weights[entered.index(level)]
        W = (frozen.factor @ np.tensordot(row, white, 1)).T
        error = np.abs(numbers(copy) - (X + W))
        assert np.nanmax(error / frozen.grid) <= 1.01


def test_making_it_again_is_the_same(people):
    frozen = freeze(people, drop=["id"])
    [one], [two] = (copies(people, frozen, [1.0]) for _ in range(2))
    assert one.equals(two)
    [other] = copies(people, frozen, [4.0])
    assert not one.equals(other)


def test_a_level_off_the_lattice_is_no_level_of_a_vault(people):
    frozen = freeze(people, drop=["id"])
    with pytest.raises(KeyError):
        recipe_of(frozen, [1.23456])
    with pytest.raises(LevelError, match="not a level of the lattice"):
        _ = Level(1.23456).thousandths


def test_many_in_one_pass_equal_one_by_one(people):
    frozen = freeze(people, drop=["id"])
    wanted = [9.0, 0.25, 4.0, 0.25]
    together = copies(people, frozen, wanted)
    for copy, noise in zip(together, wanted, strict=True):
        assert copy.equals(copies(people, frozen, [noise])[0])


def test_the_recipe_is_a_pure_function_of_ids_and_rows(people):
    """Any rows, in any order and any parts, have the copies that they have in the whole."""
    frozen = freeze(people, key="id")
    recipe = recipe_of(frozen, [1.0])
    [(_, table)] = numbered(open_source(people), frozen.schema)
    ids = row_ids(0, table, frozen.schema, recipe.row_secrets)
    whole, [copy] = recipe.copies(ids, table)
    chosen = np.random.default_rng(2).permutation(300)
    parts = [recipe.copies(ids[rows], table.take(rows)) for rows in np.split(chosen, [40, 41])]
    assert pa.concat_tables([t for _, [t] in parts]).equals(copy.take(chosen))
    found = parts[0][0] + parts[1][0] + parts[2][0]
    assert str(found.table) == str(whole.table) == frozen.fingerprint


def test_a_copy_that_is_held_does_not_change(people):
    """Copies are made in memory that is used again, but not while somebody holds one."""
    frozen = freeze(people, drop=["id"])
    recipe = recipe_of(frozen, [1.0])
    [(_, table)] = numbered(open_source(people), frozen.schema)
    ids = row_ids(0, table, frozen.schema, recipe.row_secrets)
    _, [held] = recipe.copies(ids, table)
    before = numbers(held).copy()
    _, [other] = recipe.copies(ids[::-1].copy(), table)
    assert not np.array_equal(numbers(other), before, equal_nan=True)
    assert np.array_equal(numbers(held), before, equal_nan=True)


def test_secrets_are_neither_shown_nor_pickled():
    for secrets in (RowSecrets.of(KEY.derive), NoiseSecrets.of(KEY.derive)):
        assert repr(secrets) == f"{type(secrets).__name__}(<secret>)"
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(secrets)
        assert type(secrets)(**secrets.reveal()) == secrets
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(recipe_of(freeze(make_people(20), drop=["id"]), [1.0]))


@pytest.fixture(scope="module")
def long_table():
    return make_people(5000)


@pytest.fixture(scope="module")
def long_copy(long_table):
    frozen = freeze(long_table, drop=["id"])
    return frozen, copies(long_table, frozen, [0.25, 1.0])


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("group_cells", [1, 3 * 2048, 1 << 20])
@pytest.mark.parametrize(("block_cells", "cache"), [(7, 0), (3000, 0), (3000, 1 << 25)])
def test_threads_groups_blocks_and_cache_change_no_bit(
    at_a_time, long_table, long_copy, threads, group_cells, block_cells, cache
):
    frozen, expected = long_copy
    at_a_time(GROUP_CELLS=group_cells, BLOCK_CELLS=block_cells, BLOCK_ROWS=1, CACHE_BYTES=cache)
    made = copies(long_table, frozen, [0.25, 1.0], threads=threads)
    assert all(a.equals(b) for a, b in zip(made, expected, strict=True))


@pytest.mark.parametrize("block_bytes", [64, 999, 1 << 23])
def test_chunks_of_a_csv_change_no_bit(at_a_time, tmp_path, long_table, long_copy, block_bytes):
    frozen, expected = long_copy
    path = tmp_path / "people.csv"
    pa.csv.write_csv(long_table, path)
    at_a_time(CSV_BLOCK=block_bytes)
    made = copies(path, frozen, [0.25, 1.0])
    assert all(a.equals(b) for a, b in zip(made, expected, strict=True))


@pytest.mark.parametrize("row_group", [11, 1000, 5000])
def test_row_groups_of_a_parquet_file_change_no_bit(tmp_path, long_table, long_copy, row_group):
    frozen, expected = long_copy
    path = tmp_path / "people.parquet"
    pa.parquet.write_table(long_table, path, row_group_size=row_group)
    made = copies(path, frozen, [0.25, 1.0])
    assert all(a.equals(b) for a, b in zip(made, expected, strict=True))


def test_with_a_key_column_shuffled_rows_have_the_same_noise(people):
    frozen = freeze(people, **KEY_AS_IS)
    shuffled = people.take(np.random.default_rng(3).permutation(300))
    [straight] = copies(people, frozen, [1.0])
    [mixed] = copies(shuffled, frozen, [1.0])
    assert mixed["id"].equals(shuffled["id"])
    assert mixed.sort_by("id").equals(straight.sort_by("id"))


class TestGrid:
    def on_grid(self, values, step):
        steps = values[~np.isnan(values)] / step
        return np.array_equal(steps, np.rint(steps))

    def test_every_value_of_every_level_is_on_one_grid(self, people):
        frozen = freeze(people, drop=["id"])
        noise = [Level.of(privacy=p).noise for p in (0.5, 0.001, 0.3, 0.999)]
        for copy in copies(people, frozen, noise):
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
        table = pa.table({"x": np.random.default_rng(1).permutation(np.tile(candidates, 500))})
        frozen = freeze(table)
        [copy] = copies(table, frozen, [1.0])
        y, step = copy["x"].to_numpy(), frozen.grid[0]
        # On the grid all candidates explain every value: y - round(x) is a noise on the grid.
        for x in candidates:
            assert self.on_grid(y - np.rint(x / step) * step, step)

    def test_a_large_mean_stays_exact(self):
        random = np.random.default_rng(5)
        x = 1e9 + np.round(random.standard_normal(2000), 3)
        table = pa.table({"x": x})
        frozen = freeze(table)
        [copy] = copies(table, frozen, [1.0])
        y = copy["x"].to_numpy()
        assert self.on_grid(y, frozen.grid[0])
        assert frozen.grid[0] <= 2.0**-20
        # sd of noise is that of x, within 5 standard errors
        assert abs((y - x).std() / x.std() - 1) < 5 / np.sqrt(2 * 2000)


def test_missing_stays_missing_and_nothing_else_becomes_it(people):
    frozen = freeze(people, drop=["id"])
    [copy] = copies(people, frozen, [1.0])
    for name in ("age", "wage", "height"):
        assert copy[name].is_null().equals(people[name].is_null())
        assert not np.isnan(copy[name].drop_null().to_numpy()).any()


@pytest.mark.filterwarnings("ignore::cornerwave.errors.SingularCovariance")
def test_a_constant_column_stays_and_collinear_columns_stay_collinear():
    x = np.array([1.0, 2.0, 4.0, 9.0, 3.0])
    table = pa.table({"flat": [0.1] * 5, "x": x, "twice": 2 * x})
    frozen = freeze(table)
    [copy] = copies(table, frozen, [1.0])
    assert copy["flat"].to_pylist() == [0.1] * 5
    off = np.abs(copy["twice"].to_numpy() - 2 * copy["x"].to_numpy())
    assert off.max() <= 4 * frozen.grid[1:].max()


@pytest.mark.parametrize("roles", [{"drop": ["id"]}, {"key": "id"}])
def test_a_changed_source_is_refused_whatever_was_handed_to_the_outputs(people, roles):
    frozen = freeze(people, **roles)
    wage = people["wage"].to_pylist()
    wage[150] += 0.01
    changed = people.set_column(2, "wage", pa.array(wage))
    with pytest.raises(SourceChanged, match="a value differs"):
        copies(changed, frozen, [1.0])
    with pytest.raises(SourceChanged, match="it has 299 rows, but 300 were registered"):
        copies(people.slice(1), frozen, [1.0])
    with pytest.raises(SourceChanged, match="it has 600 rows"):
        copies(pa.concat_tables([people, people]), frozen, [1.0])


def test_an_empty_source_is_refused(people):
    frozen = freeze(people, drop=["id"])
    with pytest.raises(SourceChanged, match="it has 0 rows"):
        copies(people.slice(0, 0), frozen, [1.0])


@pytest.mark.parametrize("step", ["encode", "append"])
def test_a_fault_in_an_output_comes_through(people, step):
    class Broken(Collected):
        def fault(self, group):
            raise RuntimeError("the sink is full")

    setattr(Broken, step, Broken.fault)
    frozen = freeze(people, drop=["id"])
    with pytest.raises(RuntimeError, match="the sink is full"):
        make_copies(open_source(people), recipe_of(frozen, [1.0]), [Broken()])


def test_noise_has_the_promised_covariance_and_independent_noise_has_not():
    """Cov(W(u), W(v)) = min(u, v) K between copies, over 20,000 rows."""
    rows, noise = 20_000, [Level.of(privacy=p).noise for p in (0.667, 0.333, 0.5)]
    x = np.random.default_rng(8).standard_normal((rows, 2)) @ [[2.0, 1.0], [0.0, 0.5]]
    table = pa.table({"a": x[:, 0], "b": x[:, 1]})
    frozen = freeze(table)
    W = np.hstack([numbers(c, "ab") - x for c in copies(table, frozen, noise)])
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


@pytest.mark.parametrize(
    ("values", "roles", "nullable"),
    [
        (["a", "b", "a", "b"], {}, False),
        (["a", None, "a", "b"], {}, True),
        (["a", None, "a", "b"], {"hide_missing": ["c"]}, True),
    ],
)
def test_a_category_that_is_never_missing_says_so(values, roles, nullable):
    rng = np.random.default_rng(0)
    cells = [values[i] for i in rng.integers(0, 4, 400)]
    table = pa.table({"x": rng.normal(size=400), "c": cells})
    frozen = freeze(table, **roles)
    recipe = recipe_of(frozen, [1.0])
    assert recipe.schema(recipe.wanted[0]).field("c").nullable is nullable
    _, [copy] = recipe.copies(row_ids(0, table, frozen.schema, recipe.row_secrets), table)
    assert copy.schema.field("c").nullable is nullable
    assert bool(copy["c"].null_count) is nullable
