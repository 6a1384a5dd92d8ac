"""Why somebody has a copy, by which contract and until when: of recipients, grants and lines."""

from datetime import UTC, datetime, timedelta

import pyarrow.parquet as papq
import pytest

from cornerwave.access import ANYBODY, ANYBODY_KNOWN, EXPIRED, Sharing
from cornerwave.errors import AccessDenied, LevelError, VaultError
from cornerwave.ledger import Key, Ledger, Terms
from cornerwave.vault import Vault
from tests.conftest import make_people
from tests.copies import at
from tests.vault.outside import entry

END = datetime(2030, 1, 1, tzinfo=UTC)
STUDY = Terms.of(purpose="a study of wages", contract="DSA 7", until=END)


class Clock:
    """A clock that a test can set."""

    def __init__(self) -> None:
        self.at = datetime(2029, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sharing(tmp_path, clock):
    vault = Vault.create(tmp_path / "vault")
    papq.write_table(make_people(500), tmp_path / "people.parquet")
    vault.register("people", tmp_path / "people.parquet", drop=["id"])
    return Sharing(vault, clock=clock)


def test_a_line_states_terms_and_other_terms_are_another_line(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db", Key.generate())
    dataset = ledger.register(entry()).id
    for terms, lines in ((STUDY, 2), (STUDY, 2), (Terms(), 2), (Terms("another"), 3)):
        ledger.hold(dataset, [("ann", at(1), terms)])
        assert ledger.states([dataset])[dataset].length == lines
    [first] = ledger.holdings(dataset)
    assert first.terms == Terms("another")
    assert ledger.held(dataset, "ann") == [first]
    ledger.hold(dataset, [("ann", at(2)), ("bob", at(1), STUDY), ("bob", at(1), STUDY)])
    held = [(each.recipient, each.terms) for each in ledger.holdings(dataset)]
    assert held == [("ann", Terms("another")), ("ann", Terms()), ("bob", STUDY)]


def test_terms_of_a_copy_go_with_it(sharing):
    dataset = sharing.vault.dataset("people")
    dataset.release(
        to="ann", privacy=0.5, purpose="a  study\nof wages", contract="DSA 7", until="2999-01-01"
    ).to_arrow()
    [line] = dataset.holdings
    assert line.terms.in_words == "for a  study of wages, by DSA 7, until 2999-01-01"
    [(again, _)] = dataset.again("ann")
    again.to_arrow()
    assert dataset.holdings == [line]
    for over in ("2001-01-01", datetime(2001, 1, 1, tzinfo=UTC)):
        with pytest.raises(LevelError, match="must end in the future"):
            dataset.release(to="ann", privacy=0.5, until=over)
    with pytest.raises(VaultError, match="at most 500 characters"):
        dataset.release(to="ann", privacy=0.5, purpose="x" * 501)


def test_the_end_of_a_recipient_ends_all_that_they_may_fetch(sharing, clock):
    sharing.add("ann", note="ann@example.org", purpose="a study of wages", until=END)
    sharing.add("bob")
    for name in ("ann", "bob", ANYBODY_KNOWN):
        sharing.grant("people", name, privacy=0.5)
    sharing.grant("people", ANYBODY, privacy=0.9)
    tokens = {name: sharing.new_token(name, days=366) for name in ("ann", "bob")}
    id = sharing.vault.dataset("people").id
    mine = sharing.permitted("ann")[id]
    ticket = sharing.bearer(tokens["ann"]).id
    assert sharing.permitted_by(mine.id, "ann", ticket) is not None
    clock.at = END  # of the two grants and tokens alone nothing has ended
    assert sharing.recipient("ann").state(END) == EXPIRED
    assert sharing.permitted_by(mine.id, "ann", ticket) is None
    assert sharing.permitted_by(mine.id, "ann", "") is None
    with pytest.raises(AccessDenied):
        sharing.bearer(tokens["ann"])
    assert sharing.permitted("ann")[id].spec.level > mine.spec.level  # what is public
    assert sharing.permitted("bob")[id].spec.level == mine.spec.level
    assert sharing.bearer(tokens["bob"]).recipient == "bob"
    sharing.change("ann", Terms.of(purpose="a study of wages", until=END + timedelta(days=1)))
    assert sharing.permitted("ann")[id].spec.level == mine.spec.level
    assert sharing.recipient("ann").note == "ann@example.org"
    sharing.change("ann", Terms())
    assert sharing.recipient("ann").terms == Terms()


def test_a_grant_states_why_and_the_copy_that_is_fetched_by_it_too(sharing):
    sharing.add("ann")
    made = sharing.grant("people", "ann", privacy=0.5, purpose="a study", contract="DSA 7")
    dataset = sharing.vault.dataset("people")
    assert made.release_of(dataset).terms == Terms("a study", "DSA 7")
    assert sharing.grants(recipient="ann") == [made]
    asked = sharing.ask("ann", "people", privacy=0.4, reason="rare cases")
    sharing.answer(asked.id, until=END)
    [renewed] = [each for each in sharing.grants(recipient="ann") if each.revoked is None]
    assert renewed.terms == Terms.of(purpose="rare cases", contract="DSA 7", until=END)


def test_what_an_owner_did_states_the_terms(sharing):
    named = Sharing(sharing.vault.under("owner"), clock=sharing.clock)
    named.add("ann", contract="DSA 7")
    named.change("ann", Terms("a study"))
    assert [act.what for act in named.vault.acts()] == [
        "added the recipient ann, by DSA 7",
        "changed the recipient ann, for a study",
    ]
