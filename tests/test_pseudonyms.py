"""Pseudonyms in place of keys: stable, unique, and without the order or the prefix of the keys."""

import base64
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as papq
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from typer.testing import CliRunner

from cornerwave import Vault, cli
from cornerwave.audit import audit
from cornerwave.choices import Choices
from cornerwave.columns import decide
from cornerwave.dictionary import dictionary_of
from cornerwave.errors import AlreadyRegistered, ColumnError, CornerwaveWarning, SourceError
from cornerwave.ledger import Key
from cornerwave.levels import Level
from cornerwave.miner import Copy
from cornerwave.noise import position_ids
from cornerwave.outputs import read_metadata
from cornerwave.spec import CopySpec
from cornerwave.spine.recipe import NoiseSecrets, Recipe
from cornerwave.spine.rows import (
    RowSecrets,
    pseudonyms,
    pseudonyms_of_units,
    row_ids,
    unit_ids,
)
from tests.conftest import freeze_table, make_people
from tests.tables import KEY_AS_IS

ALPHA = 1e-6
KEY, OTHER = Key.unsafe_from_seed(24), Key.unsafe_from_seed(25)
GOLDEN = ["zxf5t7ikewklewkkxumt", "qizzomfezaegemdts4gb"]


def copy_of(table, *, privacy=0.8, secret=KEY, **choices):
    """A copy of a table whose key column is `id`, in the order of the table."""
    frozen = freeze_table(table, KEY, key="id", **choices)
    recipe = Recipe(
        "ab" * 16,
        frozen,
        [CopySpec(Level.of(privacy=privacy))],
        rows=RowSecrets.of(KEY.derive),
        noise=NoiseSecrets.of(secret.derive),
    )
    ids = row_ids(0, table, frozen.schema, recipe.row_secrets)
    return recipe.copies(ids, table)[1][0]


def mixed(table, seed=1):
    return table.take(np.random.default_rng(seed).permutation(table.num_rows))


def known(source, copy):
    """The pseudonym of each key, for copies in the order of the source."""
    return dict(zip(source["id"].to_pylist(), copy["id"].to_pylist(), strict=True))


# --- what they are ------------------------------------------------------------------------


def test_a_pseudonym_is_the_beginning_of_an_enciphered_row_id_in_base32():
    ids = np.random.default_rng(0).integers(0, 2**64, size=(1000, 2), dtype=np.uint64)
    secret = bytes(range(32))
    aes = Cipher(AES256(secret), modes.ECB()).encryptor()
    blocks = [aes.update(row.astype("<u8").tobytes()) for row in ids]
    wanted = [base64.b32encode(block).decode().lower()[:20] for block in blocks]
    assert pseudonyms(ids, secret).to_pylist() == wanted
    assert pseudonyms(ids[:0], secret).to_pylist() == []


def test_golden_pseudonyms():
    """If this fails, rows have other names in the next edition of a table."""
    assert copy_of(make_people(500))["id"].to_pylist()[:2] == GOLDEN


def test_pseudonyms_are_unique_and_belong_to_their_rows():
    people = make_people(5000)
    copy = copy_of(people)
    assert len(set(copy["id"].to_pylist())) == 5000
    assert copy.schema.field("id") == pa.field("id", pa.string(), nullable=False)
    order = np.random.default_rng(3).permutation(5000)
    assert copy_of(people.take(order)).equals(copy.take(order))


def test_they_depend_on_the_secret_and_not_on_the_level():
    people = make_people(500)
    first, level, secret = (
        set(copy_of(people, **other)["id"].to_pylist())
        for other in ({}, {"privacy": 0.3}, {"secret": OTHER})
    )
    assert first == level
    assert not first & secret


@pytest.mark.parametrize("as_it_is", [False, True])
def test_they_have_neither_the_order_nor_the_prefix_of_the_keys(as_it_is):
    """In random order rank correlations deviate by 1 / sqrt(n - 1), and two neighbours begin
    with the same of 32 characters once in 32 times. Keys as they are fail all three."""
    rows = 20_000
    people = make_people(rows).set_column(0, "id", pa.array([f"p{n:06}" for n in range(rows)]))
    names = np.array(copy_of(people, key_as_is=as_it_is)["id"].to_pylist())
    ranks = np.argsort(np.argsort(names)).astype(float)
    deviations = [
        np.corrcoef(ranks, np.arange(rows))[0, 1] * np.sqrt(rows - 1),
        np.corrcoef(ranks[1:], ranks[:-1])[0, 1] * np.sqrt(rows - 2),
        (np.mean(names[1:].astype("U1") == names[:-1].astype("U1")) * 32 - 1)
        / np.sqrt(31 / (rows - 1)),
    ]
    z = NormalDist().inv_cdf(1 - ALPHA / 2 / len(deviations))
    assert [abs(each) > z for each in deviations] == [as_it_is] * 3


# --- what the key reveals, and a pseudonym does not -----------------------------------------


def timed(rows=20_000):
    """A random walk in the order of its key; the rows lie in another order."""
    walk = np.cumsum(np.random.default_rng(5).normal(size=rows))
    return mixed(pa.table({"id": np.arange(rows), "x": walk}))


def visits(people=2000, each=10):
    """Rows of people, who begin the key and make up most of the value."""
    random = np.random.default_rng(6)
    level = np.repeat(random.normal(size=people), each)
    keys = [f"P{n // each:05}-{n % each:02}" for n in range(people * each)]
    return mixed(pa.table({"id": keys, "x": level + 0.1 * random.normal(size=people * each)}))


def in_order(names, y, width=51):
    """The mean of a row's neighbours in the order of the keys or pseudonyms."""
    order, means = np.argsort(names), np.empty(len(y))
    means[order] = np.convolve(y[order], np.ones(width) / width, "same")
    return means


def by_prefix(length):
    """The mean of the rows whose keys or pseudonyms begin alike."""

    def means(names, y):
        groups = np.unique(names.astype(f"U{length}"), return_inverse=True)[1]
        return (np.bincount(groups, y) / np.bincount(groups))[groups]

    return means


def left(source, copy, mean):
    """The share of x that a fit on the row's own value and the mean of others leaves."""
    x, y = (np.array(table["x"]) for table in (source, copy))
    known = np.column_stack([np.ones(len(y)), y, mean(np.array(copy["id"].to_pylist()), y)])
    return np.var(x - known @ np.linalg.lstsq(known, x, rcond=None)[0]) / np.var(x)


@pytest.mark.parametrize(
    ("table", "attack", "on_names", "most"),
    [(timed, in_order, in_order, 0.1), (visits, by_prefix(6), by_prefix(2), 0.3)],
)
def test_the_order_or_prefix_of_a_key_takes_the_noise_away_and_that_of_pseudonyms_does_not(
    table, attack, on_names, most
):
    source = table()
    assert left(source, copy_of(source), on_names) >= 0.95 * 0.8
    with pytest.warns(CornerwaveWarning, match="rows sorted by it reveal 'x'"):
        as_it_is = copy_of(source, key_as_is=True)
    assert left(source, as_it_is, attack) < most


@pytest.mark.parametrize("order", [{}, {"shuffle": True}, {"keep_order": True}])
def test_a_key_as_it_is_is_looked_at_whatever_happens_to_the_order(vault, order):
    said = r"'id' is released unchanged, .*'x': at privacy .* leave 0\.\d+ of 'x' hidden.*pseudonym"
    with pytest.warns(CornerwaveWarning, match=said):
        vault.register("t", timed(3000), **KEY_AS_IS, **order)
    other = Vault.create(vault.path.parent / "other")
    other.register("t", timed(3000), key="id", **order)  # no warning
    other.register("random", make_people(500), **KEY_AS_IS, **order)  # nothing to warn of


# --- the same wherever a copy is made -------------------------------------------------------


def test_a_row_has_one_pseudonym_in_all_copies_editions_and_ledgers(vault, tmp_path):
    people = make_people(600)
    first, more = people.slice(0, 500), people.slice(500)
    dataset = vault.register("people", first, key="id")
    near, far = (dataset.release(to=to, privacy=p) for to, p in (("a", 0.2), ("b", 0.9)))
    names = known(first, near.to_arrow())
    assert known(first, far.to_arrow()) == names
    dataset.append(more)
    whole = vault.dataset("people", source=[first, more])
    batch = known(more, whole.release(to="a", privacy=0.2, batch=2).to_arrow())
    every = known(people, whole.release(to="a", privacy=0.2).to_arrow())
    assert every == names | batch
    changed = mixed(people).slice(0, 550)
    whole.update(changed)
    later = vault.dataset("people", source=changed).release(to="a", privacy=0.2, edition=3)
    assert known(changed, later.to_arrow()).items() <= every.items()
    ledger = Vault.create(tmp_path / "again", key_file=vault.path / "key")
    again = ledger.register("x", first, key="id").release(to="c", noise=1.0)
    assert known(first, again.to_arrow()) == names


def test_other_datasets_and_other_vaults_have_other_pseudonyms(vault, tmp_path):
    people, other = make_people(500), make_people(500, seed=8)
    tables = [
        vault.register("people", people, key="id"),
        vault.register("others", other, key="id"),
        Vault.create(tmp_path / "else").register("people", people, key="id"),
    ]
    names = [set(each.release(to="a", noise=1.0).to_arrow()["id"].to_pylist()) for each in tables]
    assert len(names[0] | names[1] | names[2]) == 1500


def test_every_format_has_them_and_says_so(vault, tmp_path):
    people = make_people(500)
    release = vault.register("people", people, key="id", released_as={"id": "who"}).release(
        to="a", privacy=0.5, dictionary=True
    )
    wanted = release.to_arrow()["who"].to_pylist()
    assert not set(wanted) & set(people["id"].to_pylist())
    for name, read in (
        ("c.csv", pa.csv.read_csv),
        ("c.parquet", papq.read_table),
        ("c.arrow", pa.feather.read_table),
    ):
        path = release.write(tmp_path / name)
        assert read(path)["who"].to_pylist() == wanted
        about = read_metadata(path).columns["who"]
        assert (about.role, about.pseudonym, about.type) == ("key", True, "string")
        entry = next(e for e in dictionary_of(path).entries if e.column == "who")
        assert "pseudonym" in entry.what
        assert "who" not in Copy.open(path).columns
        assert about.source == "id"


# --- those of units --------------------------------------------------------------------------


def test_units_are_spelled_once_in_the_order_of_the_copy_and_not_of_the_source():
    """A list of distinct values in the source's order would show the order of its rows."""
    rng = np.random.default_rng(3)
    names = np.array([f"p{number:03}" for number in range(300)])
    order = rng.permutation(np.repeat(np.arange(300), 3))
    column = pa.array(names[order].tolist()).dictionary_encode()
    by_name = pa.DictionaryArray.from_arrays(
        pa.array(order.astype(np.int32)), pa.array([*names.tolist(), "nobody"])
    )
    made = []
    for each in (column, by_name, pa.array(names[order].tolist())):
        table = pa.table({"who": each, "x": rng.normal(size=900)})
        schema = decide(table.schema, Choices(unit=("who",), keep_order=True))
        units = unit_ids(position_ids(0, 900), table, schema, RowSecrets.of(KEY.derive))
        spelled = pseudonyms_of_units(units, bytes(32))
        assert spelled.to_pylist() == pseudonyms(units, bytes(32)).to_pylist()
        assert spelled.dictionary.to_pylist() == [*dict.fromkeys(spelled.to_pylist())]
        made.append(spelled)
    assert made[0].equals(made[1])
    assert made[0].equals(made[2])
    # the negative control: the list of `by_name` itself is in the order of the names
    by_number = dict(zip(order.tolist(), made[0].to_pylist(), strict=True))
    assert made[0].dictionary.to_pylist() != [by_number[number] for number in range(300)]


@pytest.mark.filterwarnings("ignore::cornerwave.errors.CornerwaveWarning")
def test_every_format_has_units_as_text(vault, tmp_path):
    people = make_people(600)
    rng = np.random.default_rng(4)
    who = pa.array([f"u{number}" for number in rng.integers(0, 150, 600)])
    table = people.drop_columns(["id"]).append_column("who", who)
    release = vault.register("people", table, unit="who", shuffle=True, few_rows=True).release(
        to="a", noise=1.0, raw=True
    )
    wanted = release.to_arrow()["who"]
    assert wanted.type == pa.string()
    for name, read in (("c.parquet", papq.read_table), ("c.arrow", pa.feather.read_table)):
        column = read(release.write(tmp_path / name))["who"]
        assert column.type == pa.string()
        assert column.to_pylist() == wanted.to_pylist()
    lines = pa.csv.read_csv(release.write(tmp_path / "c.csv"))
    assert lines["who"].to_pylist() == wanted.to_pylist()
    assert len(set(wanted.to_pylist())) == len(set(who.to_pylist()))


# --- the choice ------------------------------------------------------------------------------


def test_the_choice_changes_no_noise_and_is_made_once(vault, tmp_path):
    """In a lost ledger it could be made anew: other noise on the same values would average out."""
    people = make_people(500)
    dataset = vault.register("people", people, key="id")
    other = Vault.create(tmp_path / "other", key_file=vault.path / "key")
    open_one = other.register("people", people, **KEY_AS_IS)
    assert open_one.id == dataset.id
    with_names, with_keys = (
        each.release(to="a", noise=1.0).to_arrow() for each in (dataset, open_one)
    )
    assert with_keys["id"].equals(people["id"])
    assert with_keys.drop_columns("id").equals(with_names.drop_columns("id"))
    with pytest.raises(AlreadyRegistered, match=r"in place of the key is decided .*: a pseudonym"):
        vault.register("people", people, **KEY_AS_IS)
    with pytest.raises(AlreadyRegistered, match="decided for all of them: the key as it is"):
        other.register("people", people, key="id")


def test_a_schema_file_says_it_and_says_it_again(vault, tmp_path):
    people = make_people(500)
    dataset = vault.register("people", people, **KEY_AS_IS)
    text = dataset.schema_file()
    assert "as_is = true" in text
    (tmp_path / "schema.toml").write_text(text)
    assert vault.register("people", people, schema=tmp_path / "schema.toml").id == dataset.id
    (tmp_path / "schema.toml").write_text(text.replace("as_is = true\n", ""))
    other = Vault.create(tmp_path / "other")
    without = other.register("people", people, schema=tmp_path / "schema.toml")
    assert without.frozen.schema.pseudonym == "id"


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"key_as_is": True, "drop": ["id"]}, "no column is the key"),
        ({**KEY_AS_IS, "drop": ["id"]}, "'id': released as it is and also dropped"),
    ],
)
def test_choices_that_contradict_each_other_are_refused(vault, choices, said):
    with pytest.raises(ColumnError, match=said):
        vault.register("people", make_people(500), **choices)


@pytest.mark.parametrize("as_it_is", [False, True])
def test_the_values_of_a_key_get_noise_elsewhere_only_if_copies_do_not_show_them(vault, as_it_is):
    """The same values with noise elsewhere are refused where these copies show them without."""
    random = np.random.default_rng(4)
    numbers = random.integers(10**6, size=3000) * 3000 + np.arange(3000)
    source = pa.table({"id": random.permutation(numbers), "x": random.normal(size=3000)})
    vault.register("first", source, key="id", key_as_is=as_it_is)
    other = mixed(pa.table({"number": source["id"], "y": random.normal(size=3000)}))
    if as_it_is:
        with pytest.raises(AlreadyRegistered):
            vault.register("second", other)
    else:
        vault.register("second", other)


# --- the audit -------------------------------------------------------------------------------


@pytest.fixture
def released(tmp_path, monkeypatch):
    """A folder with a vault, a table, and copies of it whose rows lie in the table's order."""
    monkeypatch.chdir(tmp_path)
    papq.write_table(make_people(5000), "people.parquet")
    dataset = Vault.create().register("people", tmp_path / "people.parquet", key="id")
    for name, privacy in (("low", 0.3), ("high", 0.7)):
        dataset.release(to=name, privacy=privacy).write(f"{name}.parquet")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli.app, list(arguments))


def test_copies_align_with_each_other_by_their_pseudonyms(released):
    papq.write_table(mixed(papq.read_table("high.parquet")), "mixed.parquet")
    found = run("attack", "low.parquet", "mixed.parquet", "--key", "id")
    assert found.exit_code == 0, found.output


@pytest.mark.slow
def test_the_owner_audits_by_the_key_through_the_vault_and_nobody_else_does(released):
    papq.write_table(mixed(papq.read_table("people.parquet"), seed=9), "moved.parquet")
    by_key = ("audit", "moved.parquet", "low.parquet", "high.parquet", "--key", "id")
    found = run(*by_key)
    assert found.exit_code == 0, found.output
    assert "given the pseudonyms of the copies of people" in found.output
    assert run("audit", "people.parquet", "low.parquet", "high.parquet").exit_code == 0
    (released / ".cornerwave").rename(released / "kept apart")
    assert isinstance(run(*by_key).exception, SourceError)
    assert run(*by_key, "--vault", "kept apart").exit_code == 0
    with pytest.raises(SourceError, match="has pseudonyms in place of 'id'"):
        audit("moved.parquet", ["low.parquet"], key="id")
