"""What the ledger records, in both databases."""

import base64
import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cornerwave.columns import Finish
from cornerwave.errors import AlreadyRegistered, LedgerDamaged, NoSuchDataset, VaultError, WrongKey
from cornerwave.ledger import Access, Entry, Holding, Key, Ledger
from cornerwave.ledger._database import Connection
from tests.copies import at
from tests.vault.outside import TABLES, content, edit, entry, marks_of, rows

LOOK = Finish(frozenset({"wage"}), {"age": (None, 1e300)}, {"wage": "int8"}, {"age": "years"})
WHOLE = at(500, finish=LOOK, edition=2, batch=2, format="parquet", dictionary=True)


@pytest.fixture
def key():
    return Key.generate()


@pytest.fixture
def ledger(ledger_place, key):
    return Ledger.create(ledger_place, key)


@pytest.fixture
def dataset(ledger):
    return ledger.register(entry()).id


class TestHoldings:
    def test_they_come_back_whole_in_the_order_of_the_chain(self, ledger, dataset):
        ledger.hold(dataset, [("zoe", WHOLE)])
        ledger.hold(dataset, [("ann", at(1)), ("bob", at(2))])
        found = [(h.recipient, h.spec) for h in ledger.holdings(dataset)]
        assert found == [("zoe", WHOLE), ("ann", at(1)), ("bob", at(2))]
        assert all(re.fullmatch(r"\d{4}-.*\+00:00", h.since) for h in ledger.holdings(dataset))

    def test_what_stands_already_is_not_written_again(self, ledger, ledger_place, dataset):
        one, same = (
            at(1, finish=Finish(frozenset({"a", "b"}), clip))
            for clip in ({"a": (0, 1), "b": (0, 2)}, {"b": (0, 2), "a": (0, 1)})
        )
        ledger.hold(dataset, [("ann", one), ("ann", same)])
        before = content(ledger_place)
        ledger.hold(dataset, [("ann", same)])
        ledger.hold(dataset, [])
        assert content(ledger_place) == before
        ledger.hold(dataset, [("bob", one), ("ann", at(1))])
        assert [h.recipient for h in ledger.holdings(dataset)] == ["ann", "bob", "ann"]

    def test_a_recipient_has_those_of_his_own(self, ledger, dataset):
        ledger.hold(dataset, [(f"r{n % 5}", at(n)) for n in range(1, 30)])
        for recipient in ("r0", "r3", "nobody"):
            expected = [h for h in ledger.holdings(dataset) if h.recipient == recipient]
            assert ledger.held(dataset, recipient) == expected
        assert ledger.held(dataset, "nobody") == []

    def test_datasets_have_chains_of_their_own(self, ledger):
        one, two = ledger.register(entry()).id, ledger.register(entry()).id
        ledger.hold(one, [("ann", at(1))])
        ledger.hold(two, [("ann", at(2))])
        assert [h.spec for h in ledger.held(one, "ann")] == [at(1)]
        assert [h.spec for h in ledger.holdings(two)] == [at(2)]

    def test_more_recipients_than_one_query_takes(self, ledger, dataset, at_a_time):
        at_a_time(STATEMENT_NAMES=3)
        copies = [(f"r{n}", at(n)) for n in range(1, 11)]
        ledger.hold(dataset, copies)
        ledger.hold(dataset, [*copies, ("last", at(1))])
        assert len(ledger.holdings(dataset)) == 11

    @pytest.mark.parametrize("id", ["ab" * 16, "vault", ""])
    def test_there_are_none_of_an_unknown_dataset(self, ledger, dataset, id):
        for work in (
            ledger.holdings,
            lambda i: ledger.held(i, "ann"),
            lambda i: ledger.hold(i, []),
        ):
            with pytest.raises(NoSuchDataset, match="no dataset with the id"):
                work(id)

    def test_a_number_that_json_cannot_hold_is_an_error(self, ledger, ledger_place, dataset):
        before = content(ledger_place)
        with pytest.raises(ValueError, match="JSON"):
            ledger.hold(dataset, [("ann", at(1, finish=Finish(clip={"a": (float("nan"), None)})))])
        assert content(ledger_place) == before

    def test_text_that_no_database_holds_is_refused_without_it(self, ledger, dataset):
        with pytest.raises(VaultError) as refusal:
            ledger.hold(dataset, [("Secret\ud800", at(1))])
        assert "Secret" not in str(refusal.value)
        assert ledger.holdings(dataset) == []


class TestRegistration:
    def test_an_entry_comes_back_whole(self, ledger):
        given = Entry("ab" * 16, "people é", "/data/p.csv", "2030", '{"x": 1}', marks_of("m\ta\tb"))
        assert ledger.register(given) == given
        assert ledger.dataset("people é") == given
        assert ledger.datasets() == [given]

    def test_the_same_id_and_name_is_registered_once(self, ledger, ledger_place):
        first = ledger.register(entry("people", ["aa\tage"], id="ab" * 16))
        before = content(ledger_place)
        again = Entry("ab" * 16, "people", "elsewhere", "2031", "{}", marks_of("aa\tage"))
        assert ledger.register(again) == first
        assert content(ledger_place) == before

    @pytest.mark.parametrize(
        ("name", "id", "marks", "says"),
        [
            ("people", "cd" * 16, [], "'people' is registered already, with another.*other name"),
            ("others", "ab" * 16, [], "registered already.* as 'people'; release from it"),
            (
                "others",
                "cd" * 16,
                ["cc\theight", "aa\tyears"],
                "'years' holds the same values as 'age' of dataset 'people'.*Release from 'people'",
            ),
        ],
    )
    def test_what_is_taken_is_refused(self, ledger, ledger_place, name, id, marks, says):
        ledger.register(entry("people", ["aa\tage", "bb\twage"], id="ab" * 16))
        before = content(ledger_place)
        with pytest.raises(AlreadyRegistered, match=says):
            ledger.register(entry(name, marks, id=id))
        assert content(ledger_place) == before
        ledger.register(entry("others", ["cc\tage"], id="cd" * 16))

    @pytest.mark.parametrize(("name", "id"), [("", "ab"), ("x", ""), ("x", "vault")])
    def test_the_vaults_own_chain_is_no_dataset(self, ledger, name, id):
        with pytest.raises(VaultError, match="name and an id"):
            ledger.register(Entry(id, name, None, "2030", "{}", marks_of()))

    def test_an_unknown_name_is_told_what_there_is(self, ledger):
        with pytest.raises(NoSuchDataset, match="it is empty; register first"):
            ledger.dataset("people")
        ledger.register(entry("people"))
        with pytest.raises(NoSuchDataset, match="'poeple'; it has people"):
            ledger.dataset("poeple")

    def test_datasets_come_by_name(self, ledger):
        for name in "cab":
            ledger.register(entry(name))
        assert [found.name for found in ledger.datasets()] == ["a", "b", "c"]


class TestHeads:
    def test_each_is_the_last_line_of_a_chain(self, ledger, ledger_place, dataset):
        ledger.hold(dataset, [("ann", at(1))])
        heads = ledger.heads()
        lines = rows(ledger_place, "SELECT chain, number, mac FROM cornerwave_line")
        assert {f"{chain}:{number}:{mac}" for chain, number, mac in lines} >= set(heads.values())
        assert heads.keys() == {"", ledger.datasets()[0].name}
        assert heads[""].startswith("vault:1:")

    def test_an_empty_vault_has_one(self, ledger):
        assert ledger.heads() == {"": "vault:0:"}
        ledger.check_since(ledger.heads())

    def test_a_head_of_any_time_stays_part_of_the_chain(self, ledger, dataset):
        kept = [ledger.heads()]
        for level in (1, 2, 3):
            ledger.hold(dataset, [("ann", at(level))])
            kept.append(ledger.heads())
        ledger.register(entry())
        for heads in kept:
            ledger.check_since(heads)

    def test_another_head_does_not(self, ledger, dataset):
        ledger.hold(dataset, [("ann", at(1))])
        [name] = [name for name in ledger.heads() if name]
        id, number, mac = ledger.heads()[name].split(":")
        for wrong in (f"{id}:{number}:{mac[::-1]}", f"{id}:3:{mac}", f"{id}:1:{mac}", f"x:2:{mac}"):
            with pytest.raises(LedgerDamaged, match=repr(name)):
                ledger.check_since({name: wrong})
        ledger.check_since({"its old name": f"{id}:{number}:{mac}"})  # the id counts

    @pytest.mark.parametrize("head", ["", "abc", "a:b:c", "a:1", "a:-1:b"])
    def test_what_is_no_head_is_refused(self, ledger, head):
        with pytest.raises(VaultError, match="ID:NUMBER:MAC"):
            ledger.check_since({"": head})


def test_another_key_is_refused(ledger, ledger_place, key):
    Ledger.open(ledger_place, key)
    with pytest.raises(WrongKey, match="does not belong to this ledger"):
        Ledger.open(ledger_place, Key.generate())


SECRET = at(500, finish=Finish(clip={"salary_in_euro": (None, 271828182845)}))


class TestSecrecy:
    """The database tells nothing about the table; the same search finds it in plain JSON."""

    VALUES = ("Zanzibar-East", "salary_in_euro", "271828182845", "/home/owner/people.csv")
    ENTRY = Entry(
        "ab" * 16,
        "people",
        "/home/owner/people.csv",
        "2030-01-01",
        json.dumps({"salary_in_euro": {"Zanzibar-East": 271828182845}}),
        marks_of("0123abcd\tsalary_in_euro"),
    )

    @staticmethod
    def readings(text):
        """A text, and everything that it may be an encoding of, to any depth."""
        yield text
        for part in re.findall(rb"[0-9a-fA-F]{8,}", text):
            yield from TestSecrecy.readings(bytes.fromhex(part[: len(part) // 2 * 2].decode()))
        for part in re.findall(rb"[A-Za-z0-9+/_-]{8,}", text):
            whole = part[: len(part) // 4 * 4].replace(b"-", b"+").replace(b"_", b"/")
            decoded = base64.b64decode(whole)
            if decoded != text:
                yield from TestSecrecy.readings(decoded)

    def found(self, *texts):
        everything = b"\n".join(reading for text in texts for reading in self.readings(text))
        return {value for value in self.VALUES if value.encode() in everything}

    def test_no_value_column_or_count_is_in_the_database(self, ledger, ledger_place):
        ledger.register(self.ENTRY)
        ledger.hold(self.ENTRY.id, [("ann", SECRET)])
        cells = [
            str(cell).encode()
            for table in TABLES
            for row in rows(ledger_place, f"SELECT * FROM {table}")
            for cell in row
        ]
        assert len(cells) > 20
        assert self.found(*cells) == set()
        if isinstance(ledger_place, Path):
            assert self.found(ledger_place.read_bytes()) == set()
        assert ledger.dataset("people") == self.ENTRY
        assert ledger.holdings(self.ENTRY.id)[0].spec == SECRET

    @pytest.mark.parametrize(
        "encode", [bytes, base64.b64encode, lambda t: base64.b64encode(t.hex().encode())]
    )
    def test_the_search_finds_them_where_they_are(self, encode):
        plain = json.dumps([self.ENTRY.__dict__, SECRET.to_json()]).encode()
        assert self.found(encode(plain)) == set(self.VALUES)


def test_held_reads_the_lines_of_one_recipient_alone(ledger, ledger_place, dataset):
    """Damage elsewhere in the chain goes unnoticed by `held`, and is seen by `holdings`."""
    ledger.hold(dataset, [(f"r{n}", at(n)) for n in range(1, 9)])
    before = ledger.held(dataset, "r7")
    edit(ledger_place, "UPDATE cornerwave_line SET at = '1999' WHERE recipient = 'r3'")
    assert ledger.held(dataset, "r7") == before
    with pytest.raises(LedgerDamaged):
        ledger.held(dataset, "r3")
    with pytest.raises(LedgerDamaged):
        ledger.holdings(dataset)


def test_everybody_is_read_in_one_walk(ledger, ledger_place, dataset, monkeypatch):
    """The chain is read once and checked whole; each copy is parsed once, whoever holds it."""
    everybody = [f"r{n}" for n in range(40)]
    ledger.hold(dataset, [(name, at(1 + n % 3)) for n, name in enumerate(everybody)])
    asked, run = [], Connection.run
    monkeypatch.setattr(Connection, "run", lambda c, s, *v: asked.append(s) or run(c, s, *v))
    held = ledger.held(dataset, *everybody)
    assert sum("FROM cornerwave_line" in text for text in asked) == 1
    assert held == ledger.holdings(dataset)
    assert len({id(each.spec) for each in held}) == 3
    assert ledger.held(dataset, *everybody[:20]) == held[:20]
    edit(ledger_place, "UPDATE cornerwave_line SET at = '1999' WHERE recipient = 'r39'")
    with pytest.raises(LedgerDamaged):
        ledger.held(dataset, *everybody[:20])


@pytest.fixture
def cost(tmp_path, key, monkeypatch):
    """A ledger in a file, and the steps of SQLite's machine that some work of it takes."""
    ledger, steps = Ledger.create(tmp_path / "ledger.db", key), [0]
    connect = ledger._database.connect

    def counted():
        connection = connect()
        connection.driver.set_progress_handler(lambda: steps.append(steps.pop() + 1), 10)
        return connection

    monkeypatch.setattr(ledger._database, "connect", counted)

    def cost(work):
        steps[:] = [0]
        work()
        return steps[0]

    return ledger, cost


def test_one_more_holding_costs_the_same_in_a_long_chain(cost):
    """Counted in steps of SQLite's machine; listing the holdings is the control."""
    ledger, cost = cost
    dataset = ledger.register(entry()).id

    def one_more(recipient):
        assert ledger.spelled(dataset, [recipient.upper()]) == set()
        ledger.held(dataset, recipient)
        ledger.hold(dataset, [(recipient, at(500))])
        assert ledger.spelled(dataset, [recipient.upper()]) == {recipient}

    ledger.hold(dataset, [("ann", at(1))])
    short, listed_short = cost(lambda: one_more("x")), cost(lambda: ledger.holdings(dataset))
    ledger.hold(dataset, [(f"r{n}", at(n % 999 + 1)) for n in range(2000)])
    long, listed_long = cost(lambda: one_more("y")), cost(lambda: ledger.holdings(dataset))
    assert long < 1.5 * short
    assert listed_long > 5 * listed_short


def test_what_is_kept_beside_a_chain_is_read_in_one_transaction(ledger, monkeypatch):
    kept = ledger.register(entry(), {name: name.encode() for name in "abc"})
    opened, connect = [], ledger._database.connect
    monkeypatch.setattr(ledger._database, "connect", lambda: opened.append(1) or connect())
    assert ledger.attachments(kept, ["a", "c", "d"]) == {"a": b"a", "c": b"c"}
    assert ledger.attachments(kept, ["d"]) == {}
    assert len(opened) == 1


def act(ledger, times):
    with ledger.under("anna").records.together() as records:
        for _ in range(times):
            records.note("did something")


def test_a_dataset_is_found_at_the_same_cost_however_much_owners_did(cost):
    """Counted in the same way; listing what they did is the control."""
    ledger, cost = cost
    ledger.register(entry("people"))
    act(ledger, 1)
    short, listed_short = cost(lambda: ledger.dataset("people")), cost(ledger.acts)
    act(ledger, 1000)
    ledger.register(entry("others"))
    act(ledger, 1000)
    long, listed_long = cost(lambda: ledger.dataset("people")), cost(ledger.acts)
    assert long < 1.5 * short
    assert listed_long > 5 * listed_short


def test_what_a_chain_states_cannot_be_hidden_among_what_owners_did(ledger, ledger_place):
    """A dataset that goes with its place in the list; the rows' counts and seals are left."""
    for name in ("people", "others", "third"):
        ledger.register(entry(name))
        act(ledger, 2)
    gone = ledger.dataset("others").id
    edit(
        ledger_place,
        f"DELETE FROM cornerwave_chain WHERE id = '{gone}'",
        "UPDATE cornerwave_line SET recipient = '', alike = '', kind = 'act' "
        "WHERE chain = 'vault' AND number = 4",
    )
    with pytest.raises(LedgerDamaged, match="lines that state what it is are missing"):
        ledger.dataset("people")


class Recording(RuleBasedStateMachine):
    """Whatever is done in whatever order, the ledger says what a list would."""

    @initialize()
    def make(self):
        self.folder = tempfile.TemporaryDirectory()
        self.key, self.path = Key.generate(), Path(self.folder.name) / "ledger.db"
        self.ledger = Ledger.create(self.path, self.key)
        self.held, self.heads = {}, [self.ledger.heads()]

    @rule(name=st.sampled_from("abc"))
    def register(self, name):
        self.ledger.register(entry(name, id=name * 32))
        self.held.setdefault(name * 32, [])

    @rule(
        name=st.sampled_from("abc"),
        copies=st.lists(st.tuples(st.sampled_from(["ann", "bob"]), st.integers(1, 4)), max_size=4),
    )
    def hold(self, name, copies):
        if name * 32 in self.held:
            self.ledger.hold(name * 32, [(who, at(level)) for who, level in copies])
            there = self.held[name * 32]
            there += [copy for copy in dict.fromkeys(copies) if copy not in there]

    @rule()
    def keep_heads(self):
        self.heads.append(self.ledger.heads())

    @rule()
    def reopen(self):
        self.ledger = Ledger.open(self.path, self.key)

    @invariant()
    def the_ledger_says_the_same(self):
        assert [found.id for found in self.ledger.datasets()] == sorted(self.held)
        for id, copies in self.held.items():
            recorded = [(h.recipient, h.spec.level.thousandths) for h in self.ledger.holdings(id)]
            assert recorded == copies
            of_ann = [Holding("ann", at(v), "") for who, v in copies if who == "ann"]
            assert [h.spec for h in self.ledger.held(id, "ann")] == [h.spec for h in of_ann]
        self.ledger.check_since(self.heads[-1])

    def teardown(self):
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestRecording = Recording.TestCase
TestRecording.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)


class TestAccessLog:
    def test_it_names_everybody_once_and_each_by_their_newest_lines(self, ledger):
        names = ["zoë (1)", "ann", "ann (2)", "", "Ann"]
        at = [f"2030-01-01T00:00:0{second}" for second in range(5)]
        assert ledger.records.visitors() == []
        lines = [Access(time, name, "GET /", "200", 0) for time in at for name in names]
        ledger.records.log(lines)
        assert sorted(ledger.records.visitors()) == sorted(names)
        for name in names:
            newest = [line for line in reversed(lines) if line.who == name]
            assert ledger.records.accesses(who=name) == newest
            assert ledger.records.accesses(who=name, most=2) == newest[:2]
            assert ledger.records.last_accesses([name]) == {name: at[-1]}
        assert ledger.records.accesses(who="an") == []
