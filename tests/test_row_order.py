"""What the order of the rows tells, and how shuffling takes it away."""

import hashlib
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave import Vault, cli, sizes
from cornerwave.audit import audit, verdict
from cornerwave.demo import people
from cornerwave.engines import _shuffle
from cornerwave.errors import ColumnError, CornerwaveWarning, SourceChanged, SourceError
from cornerwave.inspection import draft, inspect
from cornerwave.ledger import Key
from cornerwave.privacy import ALPHA, MATTERS, RowOrder, left_hidden
from cornerwave.sources import open_source
from tests.audit.shown import findings
from tests.conftest import survey_of
from tests.tables import KEY_AS_IS

KEY = Key.unsafe_from_seed(5)
ROWS = 20_000


def told(rows, *, numbers=("x",), categories=(), group=4096):
    """The columns that the order of rows tells, as a survey sees them."""
    table = pa.table(rows)
    order = RowOrder([*numbers, *categories])
    for start in range(0, table.num_rows, group):
        order.add(start, table.slice(start, group))
    return {each.column: each for each in order.revealed(numbers, categories)}


def households(random, rows, share, size=3):
    """Numbers of which neighbours in a household share some of the variance."""
    common = np.repeat(random.normal(size=-(-rows // size)), size)[:rows]
    return np.sqrt(share) * common + np.sqrt(1 - share) * random.normal(size=rows)


ORDERS = {
    "sorted": lambda random, n: np.sort(random.normal(size=n)),
    "sorted, long-tailed": lambda random, n: np.sort(random.standard_cauchy(size=n)),
    "sorted backwards, with gaps": lambda random, n: np.where(
        random.random(n) < 0.3, np.nan, -np.sort(random.normal(size=n))
    ),
    "sorted by something it depends on": lambda random, n: (
        0.5 * np.sort(random.normal(size=n)) + random.normal(size=n)
    ),
    "households of three": lambda random, n: households(random, n, 0.5),
    "a random walk": lambda random, n: np.cumsum(random.normal(size=n)),
    "weekly": lambda random, n: np.tile(random.normal(size=7), -(-n // 7))[:n],
    "two kinds in turn": lambda random, n: np.arange(n) % 2 + 0.3 * random.normal(size=n),
    "autoregressive": lambda random, n: np.convolve(
        random.normal(size=n + 40), 0.6 ** np.arange(41), "valid"
    ),
}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.first(9)
def test_an_order_that_tells_a_number_is_seen_and_a_random_one_is_not(name, seed):
    random = np.random.default_rng(seed)
    for rows in (1000, 10_000):
        x = ORDERS[name](random, rows)
        assert told({"x": x})["x"].share > MATTERS
        assert not told({"x": random.permutation(x)})


@pytest.mark.parametrize("values", [2, 9, 200])
def test_an_order_that_tells_a_category_is_seen_and_a_random_one_is_not(values):
    random = np.random.default_rng(values)
    grouped = np.sort(random.integers(values, size=3000))
    in_threes = np.repeat(random.integers(values, size=1000), 3)
    for codes in (grouped, in_threes):
        x = np.char.add("city", codes.astype(str))
        assert "x" in told({"x": x}, numbers=(), categories=["x"])
        assert not told({"x": random.permutation(x)}, numbers=(), categories=["x"])


@pytest.mark.slow
def test_small_tables_in_random_order_are_never_refused():
    """ALPHA is one in a million: not one of 300 tables of many kinds may be refused."""
    random = np.random.default_rng(1)
    for _ in range(300):
        rows = int(random.choice([3, 10, 30, 300]))
        rare = np.where(np.arange(rows) < 4, 1.0 + random.random(rows), 0.0)
        table = {
            "even": random.random(rows),
            "coin": random.integers(2, size=rows),
            "rare": random.permutation(rare),
            "gaps": np.where(random.random(rows) < 0.8, np.nan, random.random(rows)),
            "far": random.standard_cauchy(rows),
            "few": random.integers(3, size=rows).astype(str),
            "many": random.integers(200, size=rows).astype(str),
        }
        assert not told(table, numbers=[*table][:5], categories=["few", "many"])


def test_few_rows_are_told_by_their_order_only_if_they_are_sorted():
    """Two values on five rows take turns in one order of ten; twelve are sorted in one of 1e8."""
    for rows in range(4, 25):
        turns = np.resize(["x", "y"], rows)
        assert not told({"x": turns}, numbers=(), categories=["x"])
        assert not told({"x": np.resize([1.0, 2.0], rows)})
    assert not told({"x": np.arange(9.0)})
    assert told({"x": np.arange(12.0)})["x"].share > MATTERS
    assert told({"x": -np.arange(12.0)})["x"].share > MATTERS
    assert told({"x": np.repeat(["x", "y"], 15)}, numbers=(), categories=["x"])


@pytest.mark.slow
def test_chance_is_bounded_by_alpha(monkeypatch):
    """At ALPHA = 0.05 no more tables are told by chance than that, and sorted ones all are."""
    monkeypatch.setattr("cornerwave.privacy._row_order.ALPHA", 0.05)
    monkeypatch.setattr("cornerwave.privacy._row_order.MATTERS", 0.0)
    random, tables = np.random.default_rng(2), 400
    x = random.random((tables, 60))
    found = sum(bool(told({"x": row})) for row in x)
    # P(Binomial(400, 0.05) > 43) < 1e-6
    assert found <= 43
    assert all(told({"x": np.sort(row)}) for row in x[:20])
    assert ALPHA < 1e-5


def test_the_smoother_is_wieners():
    """AR(1) in white noise: the integral of v S / (S + v) over its spectrum."""
    r, privacy = 0.7, np.array([0.2, 0.5, 0.8])
    w = np.linspace(0, 2 * np.pi, 1 << 14, endpoint=False)
    spectrum, v = (1 - r * r) / np.abs(1 - r * np.exp(1j * w)) ** 2, privacy / (1 - privacy)
    exact = [(each * spectrum / (spectrum + each)).mean() for each in v]
    lags = np.arange(1, 65)
    np.testing.assert_allclose(left_hidden(lags, r**lags, privacy), exact, atol=2e-4)
    assert left_hidden(lags, 0.0 * lags, privacy).tolist() == privacy.tolist()


def test_runs_of_a_large_table_stand_for_it():
    """Memory is bounded: of many rows some runs are kept, in which the order still shows."""
    random = np.random.default_rng(3)
    table = pa.table({"x": np.sort(random.normal(size=200_000)), "y": random.normal(size=200_000)})
    order = RowOrder(["x", "y"], cells=1 << 12)
    for start in range(0, 200_000, 1 << 15):
        order.add(start, table.slice(start, 1 << 15))
    assert 1 << 13 <= order._rows <= 1 << 14
    assert [each.column for each in order.revealed(["x", "y"], [])] == ["x"]


# --- registration -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def by_wage():
    """The demo's people, sorted by wage, with a city that has nothing to do with it."""
    table = papq.read_table(people()).slice(0, ROWS).sort_by("wage")
    city = np.random.default_rng(4).integers(9, size=ROWS).astype(str)
    return table.append_column("city", pa.array(city).dictionary_encode())


def test_the_demo_table_is_in_an_order_that_tells_nothing(vault):
    assert vault.register("people", people()).frozen.schema.order is None


def test_registration_refuses_an_order_that_tells_and_names_the_choice(vault, by_wage, untouched):
    with (
        untouched(),
        pytest.raises(ColumnError, match=r"order of the rows reveals 'wage', 'age'") as e,
    ):
        vault.register("people", by_wage)
    assert e.value.use == ("shuffle", "keep_order")
    with pytest.raises(ColumnError, match="choose one"):
        vault.register("people", by_wage, shuffle=True, keep_order=True)
    kept = vault.register("people", by_wage, keep_order=True)
    assert kept.frozen.schema.order == "keep"


def test_the_order_is_part_of_the_identity(by_wage):
    from cornerwave.spine.freeze import freeze

    types = open_source(by_wage).schema
    ids = {
        order: freeze(*survey_of(by_wage, KEY, **{order: True}), types).identity()
        for order in ("shuffle", "keep_order")
    }
    assert ids["shuffle"] != ids["keep_order"]


@pytest.mark.slow
def test_a_released_column_that_gives_the_order_back_is_named(vault, by_wage):
    numbered = by_wage.append_column("id", pa.array([f"p{row:06}" for row in range(ROWS)]))
    with pytest.warns(CornerwaveWarning, match="'id' is released unchanged, and rows sorted by it"):
        vault.register("people", numbered, **KEY_AS_IS, shuffle=True)
    other = Vault.create(vault.path.parent / "other")
    other.register("people", numbered, key="id", drop=["id"], shuffle=True)  # no warning
    third = Vault.create(vault.path.parent / "third")
    third.register("people", numbered, key="id", shuffle=True)  # no warning: a pseudonym


def test_a_draft_says_what_the_order_tells(by_wage):
    found = inspect(open_source(by_wage))
    reports = {report.name: report for report in found.columns}
    assert reports["wage"].by_order > 0.5
    assert reports["city"].by_order == 0.0
    assert 'order = "shuffle"' in draft(found)
    mixed = by_wage.take(np.random.default_rng(5).permutation(ROWS))
    assert "order =" not in draft(inspect(open_source(mixed)))


def test_a_draft_can_be_registered_and_says_the_choice(tmp_path, by_wage, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    papq.write_table(by_wage, "people.parquet")

    def run(*words):
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        return end.value.code, capsys.readouterr().err

    run("init")
    code, said = run("register", "people", "people.parquet")
    assert code == 2
    assert "(--shuffle, --keep-order)" in said
    assert run("inspect", "people.parquet", "--out", "schema.toml")[0] == 0
    code, said = run("register", "people", "people.parquet", "--schema", "schema.toml")
    assert code == 0
    assert "shuffled, the same in every copy" in said
    Path("schema.toml").write_text(
        Path("schema.toml").read_text().replace('order = "shuffle"', 'order = "sorted"')
    )
    code, said = run("register", "people", "people.parquet", "--schema", "schema.toml")
    assert code == 2
    assert 'order must be one of "shuffle", "keep"' in said


# --- attack and defence -------------------------------------------------------------------


def increasing(y):
    """Isotonic regression: the increasing sequence nearest to y, by pooling violators."""
    means, counts = [], []
    for value in y:
        means.append(value)
        counts.append(1)
        while len(means) > 1 and means[-2] >= means[-1]:
            count = counts[-2] + counts[-1]
            mean = (means[-2] * counts[-2] + means[-1] * counts[-1]) / count
            means[-2:], counts[-2:] = [mean], [count]
    return np.repeat(means, counts)


def hidden(estimate, truth):
    return float(((estimate - truth) ** 2).mean() / truth.var())


def test_isotonic_regression_recovers_a_sorted_column_unless_it_is_shuffled(tmp_path):
    whole = papq.read_table(people()).sort_by("wage")
    truth = whole["wage"].to_numpy().astype(float)
    copies = {}
    for order in ("keep_order", "shuffle"):
        dataset = Vault.create(tmp_path / order).register("people", whole, **{order: True})
        copies[order] = dataset.release(to="a", privacy=0.9, raw=True).to_arrow()["wage"].to_numpy()
    assert hidden(increasing(copies["keep_order"]), truth) < 0.01  # the negative control
    # In a random order the fit is a few steps near the mean. Whatever the true order of the
    # copy's rows is, it explains none of them: the fit's variance is what it claims to know.
    fitted = increasing(copies["shuffle"])
    assert fitted.var() / truth.var() < 0.01
    assert hidden(fitted, truth) > 0.9
    assert not told({"x": copies["shuffle"]})
    assert told({"x": copies["keep_order"]})


@pytest.fixture(scope="module")
def shuffled(by_wage, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shuffled")
    numbered = by_wage.append_column("id", pa.array(np.random.default_rng(6).permutation(ROWS)))
    dataset = Vault.create(folder / "vault").register("people", numbered, keep=["id"], shuffle=True)
    return dataset, numbered


def test_every_level_has_the_same_order_and_every_row_its_own_noise(shuffled, tmp_path):
    dataset, source = shuffled
    near, far = (dataset.release(to="a", privacy=p).to_arrow() for p in (0.1, 0.9))
    assert near["id"].equals(far["id"])
    assert near["id"].to_pylist() != source["id"].to_pylist()
    assert sorted(near["id"].to_pylist()) == sorted(source["id"].to_pylist())
    # a row is still itself: the noise of its copy belongs to its position in the source
    twin = Vault.create(tmp_path / "twin", key=dataset._key).register(
        "people", source, keep=["id"], keep_order=True
    )
    place = np.argsort(source["id"].to_numpy())[near["id"].to_numpy()]
    wage = source["wage"].to_numpy()[place]
    assert np.corrcoef(near["wage"].to_numpy(), wage)[0, 1] > 0.9
    assert twin.id != dataset.id  # another choice is another dataset, with other noise


def test_the_same_bytes_at_any_memory_and_any_chunking(shuffled, tmp_path, at_a_time):
    dataset, source = shuffled
    papq.write_table(source, tmp_path / "source.parquet", row_group_size=777)

    def made(cells, again):
        at_a_time(SHUFFLE_CELLS=cells)
        path = again.release(to="a", privacy=0.5).write(tmp_path / "a.parquet", force=True)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    vault = Vault(tmp_path, dataset._key, dataset._ledger)
    chunked = vault.dataset("people", source=tmp_path / "source.parquet")
    results = {made(cells, each) for cells in (1 << 22, 20_000, 900) for each in (dataset, chunked)}
    assert len(results) == 1
    [(again, format_)] = dataset.again("a")[-1:]
    assert format_ == "parquet"
    remade = again.write(tmp_path / "again.parquet").read_bytes()
    assert {hashlib.sha256(remade).hexdigest()} == results


def test_the_order_of_a_dataset_says_nothing_about_that_of_another(vault):
    """Rows known in one shuffled dataset must not undo the shuffle of another."""
    random = np.random.default_rng(8)
    ids = np.arange(2000)
    copies = []
    for name in ("one", "two"):
        table = pa.table({"x": np.sort(random.normal(size=2000)), "id": random.permutation(ids)})
        place = np.argsort(table["id"].to_numpy())
        dataset = vault.register(name, table, keep=["id"], shuffle=True)
        copies.append(place[dataset.release(to="a", privacy=0.5).to_arrow()["id"].to_numpy()])
    assert (copies[0] == copies[1]).mean() < 0.01


def test_rows_wait_in_a_file_without_a_name_and_in_little_memory(tmp_path, at_a_time, monkeypatch):
    rows = 200_000
    table = pa.table({"x": np.sort(np.random.default_rng(9).normal(size=rows))})
    papq.write_table(table, tmp_path / "x.parquet", row_group_size=1 << 14)
    dataset = Vault.create(tmp_path / "vault").register("x", tmp_path / "x.parquet", shuffle=True)
    at_a_time(SHUFFLE_CELLS=1 << 12)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    largest = []
    read = _shuffle._Buckets.tables

    def watched(self):
        for part in read(self):
            largest.append(part.num_rows)
            assert [*(tmp_path / "temporary").iterdir()] == []
            yield part

    monkeypatch.setattr(_shuffle._Buckets, "tables", watched)
    dataset.release(to="a", privacy=0.5).write(tmp_path / "a.parquet")
    assert sum(largest) == rows
    # 4,096 on average, Poisson: no bucket is 12 deviations larger
    assert len(largest) >= 49
    assert max(largest) < 4096 + 12 * 64


def test_a_changed_source_is_refused_and_leaves_nothing(shuffled, tmp_path, at_a_time, monkeypatch):
    dataset, source = shuffled
    at_a_time(SHUFFLE_CELLS=20_000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    vault = Vault(tmp_path, dataset._key, dataset._ledger)
    longer = pa.concat_tables([source, source.slice(0, 1)])
    other = source.set_column(0, "age", pa.array(source["age"].to_numpy()[::-1]))
    for changed in (longer, source.slice(1), source.slice(0, 0), other):
        release = vault.dataset("people", source=changed).release(to="b", privacy=0.5)
        with pytest.raises(SourceChanged, match="not the registered table"):
            release.write(tmp_path / "b.parquet")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["temporary"]


def test_many_kinds_of_columns_are_shuffled_whole(vault):
    """Every row keeps its cells: kept columns of all types, gaps and dictionaries."""
    random, rows = np.random.default_rng(10), 500
    keys = random.permutation(rows)
    table = pa.table(
        {
            "x": np.sort(random.normal(size=rows)),
            "key": pa.array([f"k{k}" for k in keys]),
            "text": pa.array([None if k % 7 == 0 else f"t{k}" for k in keys]),
            "coded": pa.array([f"c{k % 5}" for k in keys]).dictionary_encode(),
            "when": pa.array(keys.astype("datetime64[D]")),
            "bytes": pa.array([bytes([k % 256]) for k in keys]),
            "": pa.array((keys % 2).astype(bool)),
        }
    )
    kept = ["text", "coded", "when", "bytes", ""]
    dataset = vault.register("t", table, key="key", key_as_is=True, keep=kept, shuffle=True)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(sizes, "SHUFFLE_CELLS", 100)
        copy = dataset.release(to="a", privacy=0.5).to_arrow()
    back = dict(zip(copy["key"].to_pylist(), copy.to_pylist(), strict=True))
    for row in table.to_pylist():
        assert all(back[row["key"]][name] == row[name] for name in kept)


# --- audit --------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_audit_fails_copies_whose_order_tells_a_column(by_wage):
    numbers = by_wage.select(["age", "wage"])
    X = np.array([numbers["age"].to_numpy(), numbers["wage"].to_numpy()], dtype=float)
    noise = np.linalg.cholesky(np.cov(X)) @ np.random.default_rng(11).normal(size=X.shape)
    copy = pa.table({"age": X[0] + 3 * noise[0], "wage": X[1] + 3 * noise[1]})
    found = audit(numbers, [copy])
    assert not found.clean
    assert any("order of the rows reveals wage, age" in line for line in findings(found))
    assert "1 check failed" in verdict(found)
    mixed = np.random.default_rng(12).permutation(ROWS)
    assert audit(numbers.take(mixed), [copy.take(mixed)]).clean


def test_the_audit_notes_an_order_that_was_kept_on_purpose_and_matches_shuffled_rows(tmp_path):
    random = np.random.default_rng(13)
    source = pa.table({"id": random.permutation(3000), "x": np.sort(random.normal(size=3000))})
    papq.write_table(source, tmp_path / "source.parquet")
    paths = {}
    for order in ("keep_order", "shuffle"):
        vault = Vault.create(tmp_path / order)
        dataset = vault.register("t", source, **KEY_AS_IS, **{order: True})
        paths[order] = dataset.release(to="a", privacy=0.5).write(tmp_path / f"{order}.parquet")
    kept = audit(tmp_path / "source.parquet", [paths["keep_order"]])
    assert kept.clean
    assert any("order of the rows reveals x" in line for line in findings(kept))
    with pytest.raises(SourceError, match="were shuffled"):
        audit(tmp_path / "source.parquet", [paths["shuffle"]])
    found = audit(tmp_path / "source.parquet", [paths["shuffle"]], key="id")
    assert found.clean
    assert found.sorted_copies == ("shuffle",)
