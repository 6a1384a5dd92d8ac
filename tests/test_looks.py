"""Copies look like the table where a miner loses nothing by it, and as the owner said."""

import warnings
from base64 import b64encode

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import audit
from cornerwave.errors import AlreadyRegistered, BiasWarning, ColumnError
from cornerwave.miner import Copy
from cornerwave.outputs import read_metadata
from cornerwave.spec import CopyMetadata
from cornerwave.vault import Vault

ROWS = 500
rng = np.random.default_rng(11)


def people():
    """A table with every kind of number, two categories and a key."""
    chance = np.random.default_rng(3)
    age = chance.integers(18, 90, ROWS)
    born = 7000 - 365 * age - chance.integers(0, 3650, ROWS)
    return pa.table(
        {
            "id": [f"p{i}" for i in chance.permutation(ROWS)],
            "age": pa.array(age, pa.uint8()),
            "wage": pa.array(np.round(40.0 * age + chance.normal(0, 500, ROWS), 2)),
            "grade": pa.array(chance.integers(1, 4, ROWS)),
            "born": pa.array(born.astype(np.int32)).view(pa.date32()),
            "at": pa.array(chance.integers(0, 86_400, ROWS).astype(np.int32)).view(pa.time32("s")),
            "city": [f"c{i}" for i in chance.integers(0, 4, ROWS)],
            "paid": pa.array(chance.integers(0, 10**4, ROWS)).cast(pa.decimal128(19, 0)),
        }
    )


SCHEMA = """
[[column]]
name = "id"
do = "key"
[[column]]
name = "wage"
do = "perturb"
clip = [0, inf]
type = "int32"
as = "pay"
[[column]]
name = "age"
do = "perturb"
round = false
[[column]]
name = "city"
do = "category"
as = "town"
[[column]]
name = "born"
do = "perturb"
clip = [1900-01-01, 2001-12-31]
[[column]]
name = "*"
do = "drop"
"""


@pytest.fixture
def dataset(vault):
    return vault.register("people", people(), key="id")


@pytest.fixture
def dressed(vault, tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return vault.register("people", people(), schema=tmp_path / "schema.toml")


def test_whole_numbers_and_dates_look_so_where_the_noise_is_wider_than_a_step(dataset):
    wide = dataset.release(to="ann", noise=4.0).to_arrow().schema
    assert wide.field("age").type == pa.int64()  # an 8-bit one would end within the noise
    assert wide.field("born").type == pa.date32()
    assert wide.field("paid").type == pa.decimal128(38, 0)
    for name in ("wage", "at"):  # a float; a time of day ends at midnight
        assert wide.field(name).type == pa.float64()
    # drawn together, its noise has a deviation of 1.0 at most: that of the column
    assert wide.field("grade").type == pa.float64()
    raw = dataset.release(to="ann", noise=4.0, raw=True, round=["grade"]).to_arrow().schema
    assert raw.field("grade").type == pa.int64()
    narrow = dataset.release(to="ann", noise=0.5).to_arrow().schema
    assert narrow.field("age").type == pa.int64()


def drawn(table, metadata):
    """The numbers of a raw copy drawn together as the metadata of another one state."""
    spreads = {name: about.spread for name, about in metadata.columns.items() if about.spread}
    return {
        name: own.centre + own.factor * (table.column(name).to_numpy() - own.centre)
        for name, own in spreads.items()
    }


def test_a_default_copy_is_the_raw_one_drawn_together_and_rounded(dataset):
    raw = dataset.release(to="ann", noise=4.0, raw=True).to_arrow()
    release = dataset.release(to="ann", noise=4.0)
    copy, expected = release.to_arrow(), drawn(raw, CopyMetadata.read(release.metadata, "it"))
    assert {raw.schema.field(n).type for n in ("age", "born", "grade")} == {pa.float64()}
    assert copy.column("age").to_pylist() == np.rint(expected["age"]).tolist()
    assert copy.column("age").to_pylist() != np.rint(raw.column("age").to_numpy()).tolist()
    assert (expected["age"] < 0).any()  # nothing was clipped
    assert copy.column("wage").to_numpy() == pytest.approx(expected["wage"], rel=1e-12)
    assert copy.column("city").equals(raw.column("city"))


def test_a_miner_loses_nothing_by_the_default(dataset, tmp_path):
    names = ["age", "wage", "born"]
    for noise in (0.5, 4.0):
        found = []
        for raw in (False, True):
            path = tmp_path / f"{noise}-{raw}.parquet"
            copy = Copy.open(dataset.release(to="ann", noise=noise, raw=raw).write(path))
            with warnings.catch_warnings():
                warnings.simplefilter("error", BiasWarning)
                found.append(copy.covariance(names))
        whole, plain = found
        # rounding adds at most step^2/12 to the noise of age, a few hundred
        assert np.all(np.abs(whole.value - plain.value) < 0.1 * plain.standard_error)


def test_a_schema_file_says_how_copies_look(dressed, tmp_path):
    path = dressed.release(to="ann", noise=1.0).write(tmp_path / "copy.parquet")
    copy = papq.read_table(path)
    raw = dressed.release(to="bob", noise=1.0, raw=True).to_arrow()
    assert copy.column_names == raw.column_names == ["id", "age", "pay", "born", "town"]
    assert copy.schema.types[:4] == [pa.string(), pa.float64(), pa.int32(), pa.date32()]
    expected = np.maximum(np.rint(drawn(raw, read_metadata(path))["pay"]), 0)
    assert copy.column("pay").to_pylist() == expected.tolist()
    assert min(copy.column("pay").to_pylist()) == 0
    assert max(copy.column("born").to_pylist()).isoformat() <= "2001-12-31"
    told = read_metadata(path).columns
    assert (told["pay"].source, told["town"].source) == ("wage", "city")
    assert (told["pay"].type, told["pay"].rounded) == ("int32", 1.0)
    assert told["pay"].clipped == (0.0, None)
    assert told["age"].source is None
    assert Copy.open(path).mean(["age"]).value.shape == (1,)


def test_a_release_says_otherwise(dressed):
    copy = dressed.release(
        to="ann", noise=1.0, round=["age"], clip={"wage": (500, None)}
    ).to_arrow()
    assert copy.schema.field("age").type == pa.uint8()
    assert min(copy.column("pay").to_pylist()) == 500
    only = dressed.release(to="ann", noise=1.0, raw=True, round=["age"]).to_arrow()
    assert only.schema.field("pay").type == pa.float64()
    assert min(only.column("pay").to_pylist()) < 0


def test_what_made_a_copy_stands_in_the_ledger(dressed, tmp_path):
    first = dressed.release(to="ann", noise=1.0).write(tmp_path / "a.parquet").read_bytes()
    [(copy, _)] = dressed.again("ann")
    assert copy.write(tmp_path / "b.parquet").read_bytes() == first
    assert copy.spec.finish.names == {"wage": "pay", "city": "town"}


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_an_audit_knows_renamed_columns(tmp_path, ending):
    names = {"wage": "pay", "city": "town", "grade": "mark"}
    table = people().drop_columns(["born", "at", "paid"])
    # a key of its own: one of a hundred keys raises a false alarm, by ALPHA
    (tmp_path / "key").write_text(f"cornerwave-key-1:{b64encode(bytes(range(32))).decode()}\n")
    (tmp_path / "key").chmod(0o600)
    vault = Vault.create(tmp_path / "v", key_file=tmp_path / "key")
    dataset = vault.register(
        "people",
        table,
        drop=["id"],
        categorical=["grade"],
        together=[["city", "grade"]],
        released_as=names,
    )
    paths = [
        dataset.release(to="ann", noise=v).write(tmp_path / f"{v}.{ending}") for v in (1.0, 4.0)
    ]
    found = audit(table, paths)
    assert found.numbers.columns == ("age", "wage")
    assert [each.name for each in found.categories.judged] == ["city+grade"]
    assert not found.left_out
    assert found.clean


def test_no_noise_depends_on_looks(vault, dataset, tmp_path):
    text = dataset.schema_file()
    (tmp_path / "s.toml").write_text(text.replace('name = "age"', 'name = "age"\nas = "years"'))
    tried = vault.register("people", people(), schema=_written(tmp_path, text), dry_run=True)
    assert tried.id == dataset.id
    with pytest.raises(AlreadyRegistered, match="another rounding, clipping, type or name"):
        vault.register("people", people(), schema=tmp_path / "s.toml")


def _written(tmp_path, text):
    path = tmp_path / "written.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "choices",
    [
        {"key": "id"},
        {"key": "id", "drop": ["id"], "keep": ["grade"], "hide_missing": ["wage"], "min_count": 3},
        {"drop": ["id"], "categorical": ["grade"], "together": [["city", "grade"]]},
        {"drop": ["id"], "uniform": ["city"], "transform": {"wage": "rank"}, "shuffle": True},
        {
            "drop": ["id"],
            "round": ["age"],
            "clip": {"wage": (None, 9e3), "born": (None, 0)},
            "released_as": {"age": 'the "age"'},
        },
    ],
)
def test_the_schema_file_of_a_dataset_registers_the_same_dataset(vault, tmp_path, choices):
    first = vault.register("people", people(), **choices)
    text = first.schema_file()
    again = vault.register("people", people(), schema=_written(tmp_path, text))
    assert (again.id, again.schema_file()) == (first.id, text)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('type = "int63"', "cannot have another kind"),
        ('type = "date32[day]"', "cannot have another kind"),
        ("clip = [5, 1]", "give the lower first"),
        ("clip = [-inf, inf]", "no bound"),
        ("clip = [nan, 1]", "finite bounds"),
        ('clip = ["a", 1]', "numbers as bounds"),
        ("clip = [0]", "two bounds"),
        ('as = "id"', "more than one column has this name"),
        ('as = ""', "not empty"),
        ('round = "yes"', "true or false"),
    ],
)
def test_looks_that_cannot_be_are_refused(vault, tmp_path, line, says):
    text = SCHEMA.replace('clip = [0, inf]\ntype = "int32"\nas = "pay"', line)
    with pytest.raises(ColumnError, match=says):
        vault.register("people", people(), schema=_written(tmp_path, text))
