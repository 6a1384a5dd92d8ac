"""Two owners at once: a name that both add, a recipient whom one removes and the other grants."""

import threading
import time

import pytest

from cornerwave.access import LIVE, Sharing
from cornerwave.errors import NoSuchRecipient, VaultError
from cornerwave.ledger import Records
from cornerwave.vault import Vault


def test_of_two_names_that_are_easily_confused_one_is_added(vault, monkeypatch, counted):
    put, errors = Records.put, []

    def slow(*args):
        time.sleep(0.2)
        put(*args)

    def add(name):
        try:
            Sharing(vault).add(name)
        except VaultError as error:
            errors.append(str(error))

    monkeypatch.setattr(Records, "put", slow)
    threads = [threading.Thread(target=add, args=(name,)) for name in ("ann", "Ann")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Sharing(vault).recipients()) == 1
    assert ["easily confused" in error for error in errors] == [True]
    counted("races")


WORKS = {
    "grant": lambda sharing: sharing.grant("people", "ann", privacy=0.5),
    "token": lambda sharing: sharing.new_token("ann", days=1),
    "request": lambda sharing: sharing.ask("ann", "people", privacy=0.5),
}


@pytest.mark.parametrize("work", WORKS)
def test_nothing_is_given_to_a_recipient_who_is_removed_meanwhile(
    vault, people, monkeypatch, work, counted
):
    vault.register("people", people.select(["age", "wage"]), few_rows=True)
    sharing, other = Sharing(vault), Sharing(Vault.open(vault.path))
    sharing.add("ann")
    together, removed = Records.together, []

    def late(records):
        if not removed:
            removed.append("ann")
            other.remove("ann")
        return together(records)

    monkeypatch.setattr(Records, "together", late)
    with pytest.raises(NoSuchRecipient, match="no recipient 'ann'"):
        WORKS[work](sharing)
    assert removed
    now = sharing.clock()
    permissions = [*sharing.grants(recipient="ann"), *sharing.tokens("ann")]
    assert not [each for each in permissions if each.state(now) == LIVE]
    assert not sharing.requests(recipient="ann")
    counted("races")
