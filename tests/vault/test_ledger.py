import random
import secrets
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.errors import (
    AlreadyRegistered,
    LedgerDamaged,
    NoSuchDataset,
    VaultError,
    WrongKey,
)
from cornerwave.levels import Level
from cornerwave.vault import Key
from cornerwave.vault.ledger import Entry, Ledger, middle_first
from tests.conftest import edit_ledger, ledger_lines

NAMES = iter(range(10**9))


@pytest.fixture
def key():
    return Key.generate()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path, key):
    return Ledger.create(path, key)


@pytest.fixture
def dataset(ledger):
    return add(ledger).id


def add(ledger, name=None, marks=()):
    entry = Entry(secrets.token_hex(16), name or f"d{next(NAMES)}", None, "2030-01-01", "{}")
    ledger.add_dataset(entry, marks)
    return entry


def levels(*noise):
    return [Level(v) for v in noise]


def release(ledger, dataset, recipient, *noise):
    order = ledger.reserve(dataset, levels(*noise))
    ledger.confirm(dataset, order, [(recipient, Level(v)) for v in noise])
    return order


def test_levels_keep_the_order_of_their_first_release(ledger, dataset):
    assert release(ledger, dataset, "a", 4.0) == (4.0,)
    assert release(ledger, dataset, "b", 1.0) == (4.0, 1.0)
    assert release(ledger, dataset, "c", 4.0) == (4.0, 1.0)
    assert release(ledger, dataset, "a", 2.0) == (4.0, 1.0, 2.0)
    assert ledger.noise(dataset) == (4.0, 1.0, 2.0)


def test_a_batch_is_entered_from_the_middle_outwards(ledger, dataset):
    assert ledger.reserve(dataset, levels(5.0, 1.0, 3.0, 2.0, 4.0)) == (3.0, 2.0, 5.0, 1.0, 4.0)


@given(st.lists(st.floats(1e-9, 1e9), unique=True))
def test_middle_first_leaves_nothing_out(noise):
    assert sorted(middle_first(sorted(noise))) == sorted(noise)


def test_levels_come_back_bit_for_bit(ledger, dataset):
    odd = [0.1, 0.1 + 2**-56, 5e-324, 1.7e308, 1 / 3]
    for noise in odd:
        release(ledger, dataset, "a", noise)
    assert ledger.noise(dataset) == tuple(dict.fromkeys(odd))


def test_datasets_have_orders_of_their_own(ledger):
    one, two = add(ledger).id, add(ledger).id
    release(ledger, one, "a", 1.0)
    release(ledger, two, "a", 2.0)
    assert (ledger.noise(one), ledger.noise(two)) == ((1.0,), (2.0,))


def test_holdings_say_who_holds_what_least_noise_first(ledger, dataset):
    release(ledger, dataset, "b", 4.0)
    release(ledger, dataset, "a", 1.0)
    release(ledger, dataset, "a", 4.0)
    release(ledger, dataset, "a", 4.0)
    held = [(h.recipient, h.level.noise) for h in ledger.holdings(dataset)]
    assert held == [("a", 1.0), ("a", 4.0), ("b", 4.0)]


def test_a_reservation_alone_is_nobodys_copy(ledger, dataset):
    ledger.reserve(dataset, levels(1.0))
    assert ledger.holdings(dataset) == []


class TestTakingBack:
    def test_the_last_levels_that_nobody_holds_go(self, ledger, dataset, path):
        release(ledger, dataset, "a", 1.0)
        before = ledger_lines(path)
        ledger.reserve(dataset, levels(2.0, 3.0))
        ledger.take_back(dataset, levels(2.0, 3.0))
        assert ledger_lines(path) == before

    def test_a_held_level_stays(self, ledger, dataset):
        release(ledger, dataset, "a", 1.0)
        ledger.take_back(dataset, levels(1.0))
        assert ledger.noise(dataset) == (1.0,)

    def test_a_level_that_another_came_after_stays(self, ledger, dataset):
        ledger.reserve(dataset, levels(1.0))
        ledger.reserve(dataset, levels(2.0))
        ledger.take_back(dataset, levels(1.0))
        assert ledger.noise(dataset) == (1.0, 2.0)

    def test_a_copy_made_meanwhile_puts_its_level_back(self, ledger, dataset):
        order = ledger.reserve(dataset, levels(1.0))
        ledger.take_back(dataset, levels(1.0))
        ledger.confirm(dataset, order, [("a", Level(1.0))])
        assert ledger.noise(dataset) == (1.0,)

    def test_a_copy_of_an_order_that_is_no_more_is_refused(self, ledger, dataset, path):
        order = ledger.reserve(dataset, levels(1.0))
        ledger.take_back(dataset, levels(1.0))
        release(ledger, dataset, "b", 2.0)
        before = ledger_lines(path)
        with pytest.raises(VaultError, match="release once more"):
            ledger.confirm(dataset, order, [("a", Level(1.0))])
        assert ledger_lines(path) == before


@pytest.mark.parametrize("seed", range(10))
def test_no_interleaving_shows_a_copy_off_the_path(ledger, dataset, seed):
    """Whatever several clients do in whatever order, every confirmed copy descends from
    a beginning of the final order: the one from which it can be made again."""
    choose = random.Random(seed)
    under_way, seen = [], []
    for _ in range(60):
        action = choose.choice(["reserve", "reserve", "confirm", "take back"])
        if action == "reserve":
            asked = levels(*choose.sample([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], choose.randint(1, 2)))
            under_way.append((ledger.reserve(dataset, asked), asked))
        elif under_way:
            order, asked = under_way.pop(choose.randrange(len(under_way)))
            if action == "take back":
                ledger.take_back(dataset, asked)
                continue
            try:
                ledger.confirm(dataset, order, [("r", level) for level in asked])
            except VaultError:
                continue
            seen += [(order[: 1 + order.index(level.noise)], level) for level in asked]
    final = ledger.noise(dataset)
    assert seen
    for made_with, level in seen:
        assert final[: len(made_with)] == made_with
        assert level in [h.level for h in ledger.holdings(dataset)]
    assert len(set(final)) == len(final)


class TestRegistrations:
    def test_a_name_is_taken_once(self, ledger, path):
        add(ledger, "people")
        before = ledger_lines(path)
        with pytest.raises(AlreadyRegistered, match="'people' is registered already"):
            add(ledger, "people")
        with pytest.raises(AlreadyRegistered):
            ledger.refuse_taken("people")
        assert ledger_lines(path) == before

    def test_values_are_registered_once(self, ledger, path):
        add(ledger, "people", [("aa" * 16, "age"), ("bb" * 16, "wage")])
        before = ledger_lines(path)
        with pytest.raises(AlreadyRegistered, match="'years' holds the same values as 'age'"):
            add(ledger, "others", [("cc" * 16, "height"), ("aa" * 16, "years")])
        assert ledger_lines(path) == before
        add(ledger, "others", [("cc" * 16, "height")])

    def test_an_unknown_name_is_told_what_there_is(self, ledger):
        with pytest.raises(NoSuchDataset, match="it is empty; register first"):
            ledger.dataset("people")
        add(ledger, "people")
        with pytest.raises(NoSuchDataset, match="'poeple'; it has people"):
            ledger.dataset("poeple")

    def test_datasets_come_by_name(self, ledger):
        for name in "cab":
            add(ledger, name)
        assert [entry.name for entry in ledger.datasets()] == ["a", "b", "c"]


def test_another_key_is_refused_before_anything_is_read(ledger, path):
    with pytest.raises(WrongKey, match="does not belong to this ledger"):
        Ledger.open(path, Key.generate())


def use_everything(path, key, dataset):
    """Read and write all that a release does."""
    ledger = Ledger.open(path, key)
    for entry in ledger.datasets():
        ledger.noise(entry.id)
        ledger.holdings(entry.id)
    assert ledger.dataset("people").id == dataset
    order = ledger.reserve(dataset, levels(1.0))
    ledger.confirm(dataset, order, [("zoe", Level(1.0))])
    ledger.refuse_taken("others")


EDITS = {
    "a level edited": "UPDATE level SET noise = 1.5 WHERE position = 0",
    "a level turned into text": "UPDATE level SET noise = 'much' WHERE position = 0",
    "two levels swapped": "UPDATE level SET position = 9 - position",
    "the first level deleted": "DELETE FROM level WHERE position = 0",
    "the last level deleted": "DELETE FROM level WHERE position = 2",
    "all levels deleted": "DELETE FROM level",
    "a level's seal emptied": "UPDATE level SET seal = '' WHERE position = 1",
    "a level's seal turned into bytes": "UPDATE level SET seal = x'00ff' WHERE position = 1",
    "a level's seal not ASCII": "UPDATE level SET seal = 'é' WHERE position = 1",
    "a level given to nobody": "UPDATE level SET dataset = 'ab' WHERE position = 2",
    "a holding's recipient edited": "UPDATE holding SET recipient = 'eve' WHERE noise = 4.0",
    "a holding's level edited": "UPDATE holding SET noise = 9.0 WHERE noise = 4.0",
    "a holding's time edited": "UPDATE holding SET since = '1999' WHERE noise = 4.0",
    "a holding deleted": "DELETE FROM holding WHERE noise = 4.0",
    "all holdings deleted": "DELETE FROM holding",
    "the last copy deleted, level and holding": (
        "DELETE FROM level WHERE position = 2; DELETE FROM holding WHERE noise = 2.0"
    ),
    "a dataset edited": "UPDATE dataset SET frozen = '{ }'",
    "a dataset renamed": "UPDATE dataset SET name = 'persons'",
    "a dataset given another source": "UPDATE dataset SET source = '/tmp/other.csv'",
    "a dataset's id edited": "UPDATE dataset SET id = 'no hex'",
    "a dataset deleted": "DELETE FROM dataset",
    "a dataset deleted with all about it": (
        "DELETE FROM dataset; DELETE FROM level; DELETE FROM holding; DELETE FROM mark"
    ),
    "marks deleted": "DELETE FROM mark",
    "a mark edited": "UPDATE mark SET mark = 'ee'",
    "a table dropped": "DROP TABLE holding",
    "the vault's line deleted": "DELETE FROM vault",
    "the vault's line doubled": "INSERT INTO vault SELECT * FROM vault",
    "another format": "UPDATE vault SET format = 99",
    "text that is not UTF-8": "UPDATE dataset SET frozen = CAST(x'fffe' AS TEXT)",
}


@pytest.fixture
def used(path, key, ledger):
    dataset = add(ledger, "people", [("aa" * 16, "age")]).id
    for recipient, noise in [("ann", 4.0), ("bob", 1.0), ("cyd", 2.0)]:
        release(ledger, dataset, recipient, noise)
    return dataset


@pytest.mark.parametrize("edit", EDITS)
def test_a_ledger_edited_from_outside_is_refused(path, key, used, edit):
    edit_ledger(path, *EDITS[edit].split("; "))
    with pytest.raises(LedgerDamaged, match=r"ledger"):
        use_everything(path, key, used)


def test_an_untouched_ledger_is_not_refused(path, key, used):
    edit_ledger(path, "VACUUM")
    use_everything(path, key, used)


def damage(path, how):
    content = path.read_bytes()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 3])
    elif how == "cut to nothing":
        path.write_bytes(b"")
    elif how == "garbage":
        path.write_bytes(b"\xa5" * len(content))
    elif how == "garbage inside":
        page = 4096
        path.write_bytes(content[:page] + b"\xa5" * (len(content) - page))
    elif how == "missing":
        path.unlink()
    elif how == "another database":
        path.unlink()
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t (x)")
        connection.close()
    elif how == "a directory":
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize(
    "how",
    [
        "truncated",
        "cut to nothing",
        "garbage",
        "garbage inside",
        "missing",
        "another database",
        "a directory",
    ],
)
def test_a_damaged_file_is_refused(path, key, used, how):
    damage(path, how)
    with pytest.raises(LedgerDamaged, match=r"restore|empty or damaged"):
        use_everything(path, key, used)


def test_no_file_appears_where_a_ledger_is_missing(path, key, ledger):
    path.unlink()
    with pytest.raises(LedgerDamaged):
        Ledger.open(path, key)
    assert not path.exists()
