"""A ledger that somebody turned to WAL mode: what ends, ends at once, whoever ended it.

The header of an SQLite file counts its commits only while it has a rollback journal.
"""

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta

import pytest

from cornerwave.access import Sharing
from cornerwave.ledger import _sqlite
from cornerwave.vault import Vault

COPY = "/v1/datasets/wages/copy"

ENDS = {
    "revoke": "sharing.revoke('wages', 'ann')",
    "remove": "sharing.remove('ann')",
    "end the token": "sharing.end_token('ann', sharing.tokens('ann')[0].id)",
    "close": "sharing.vault.dataset('wages').close()",
}
HERE, ELSEWHERE = "in this process", "in another process"


@pytest.fixture
def ledger(served):
    place = served.folder / "vault" / "ledger.db"
    if not place.exists():
        pytest.skip("a mode of SQLite")
    return place


def turn(ledger, mode):
    with closing(sqlite3.connect(ledger, timeout=60)) as connection:
        [(found,)] = connection.execute(f"PRAGMA journal_mode = {mode}").fetchall()
    assert found == mode


def end(served, how, where):
    """End what ann may fetch, through another connection to the ledger."""
    vault = served.folder / "vault"
    if where == HERE:
        eval(ENDS[how], {"sharing": Sharing(Vault.open(vault))})
        return
    opened = f"sharing = Sharing(Vault.open({str(vault)!r}))"
    imports = "from cornerwave.access import Sharing; from cornerwave.vault import Vault"
    subprocess.run([sys.executable, "-c", f"{imports}; {opened}; {ENDS[how]}"], check=True)


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("how", ENDS)
def test_what_ends_ends_at_once(served, ledger, how, mode):
    turn(ledger, mode)
    with served.client("ann") as ann, served.client("bob") as bob:
        assert [ann.get(COPY).status_code for _ in range(3)] == [200] * 3  # all of it is known
        end(served, how, HERE)
        assert ann.get(COPY).status_code in (401, 404)
        if how != "close":  # the control: another grant has not ended
            assert bob.get(COPY).status_code == 200


@pytest.mark.parametrize("how", ["revoke", "remove"])
def test_what_another_process_ends_ends_at_once(served, ledger, how):
    with served.client("ann") as ann:
        assert ann.get(COPY).status_code == 200
        turn(ledger, "wal")  # while the service runs
        assert [ann.get(COPY).status_code for _ in range(3)] == [200] * 3
        end(served, how, ELSEWHERE)
        assert ann.get(COPY).status_code in (401, 404)


def test_time_ends_a_token(served, ledger):
    turn(ledger, "wal")
    with served.client("ann") as ann:
        assert [ann.get(COPY).status_code for _ in range(2)] == [200] * 2
        served.clock.ahead = timedelta(days=2)
        assert ann.get(COPY).status_code == 401


def test_there_and_back(served, ledger):
    """A copy is fetched in each mode, and what was granted in one is known in the next."""
    with served.client("eve") as eve:
        for mode in ("wal", "delete", "wal"):
            turn(ledger, mode)
            assert eve.get(COPY).status_code == 404
            served.sharing.grant("wages", "eve", privacy=0.5)
            assert eve.get(COPY).status_code == 200
            served.sharing.revoke("wages", "eve")
            assert eve.get(COPY).status_code == 404
            served.sharing.vault.close()
            served.app.state.service.vault.close()


def test_by_the_header_alone_a_revoked_copy_would_be_served(served, ledger, monkeypatch):
    """The negative control: this is what the count in the header would say."""
    monkeypatch.setattr(_sqlite, "_MODES", slice(0, 2))
    monkeypatch.setattr(_sqlite, "_WITH_JOURNAL", b"SQ")
    turn(ledger, "wal")
    with served.client("ann") as ann:
        assert [ann.get(COPY).status_code for _ in range(3)] == [200] * 3
        end(served, "revoke", HERE)
        assert ann.get(COPY).status_code == 200
