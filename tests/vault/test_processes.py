"""Many processes on one ledger, and processes that are killed.

A driver loads everything once and forks, so that a child costs milliseconds.
"""

import subprocess
import sys

import pytest

from cornerwave.ledger import Key, Ledger
from tests.vault.outside import entry, rows

DATASET = "a1" * 16
LINES = f"SELECT count(*) FROM cornerwave_line WHERE chain = '{DATASET}'"

DRIVER = r"""
import os, signal, sys
from itertools import count
from pathlib import Path

from cornerwave.errors import AlreadyRegistered
from cornerwave.reuse import ColumnMarks, TableMarks
from cornerwave.levels import LATTICE, Level
from cornerwave.spec import CopySpec
from cornerwave.ledger import Entry, Key, Ledger
from cornerwave.ledger._database import Connection


def age(total):
    column = ColumnMarks("age", False, 9, 0.0, total, None, None, None)
    return TableMarks((column,), None, None, None).to_json()


def at(level):
    return CopySpec(Level(LATTICE[level - 1]))


place, key, dataset, work = sys.argv[1:]
place = Path(place) if place.startswith("/") else place
key = Key.read(Path(key))


def fork(work, *args):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(*args)
            code = 0
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        os._exit(code)
    return child


def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def write(number):
    # Append, some of it what all others append too; register what only one may.
    ledger = Ledger.open(place, key)
    for level in (1, 2):
        ledger.hold(dataset, [(f"r{number}", at(level)), ("all", at(level))])
    if number % 4 == 0:
        ledger.register(Entry("c3" * 16, "same", None, "2030", "{}", age("cc")))
        try:
            ledger.register(Entry(f"{number:032x}", f"d{number}", None, "2030", "{}", age("dd")))
        except AlreadyRegistered:
            pass


def follow(end):
    # Read until told to end; nothing may look like damage or vanish.
    ledger, before, last = Ledger.open(place, key), [], False
    while not last:
        try:
            last = bool(os.read(end, 1))
        except BlockingIOError:
            pass
        found = ledger.holdings(dataset)
        assert found[: len(before)] == before
        assert len(ledger.held(dataset, "all")) <= 2
        ledger.check_since(ledger.heads())
        before = found


def race(writers=16):
    listen, tell = os.pipe()
    os.set_blocking(listen, False)
    reader = fork(follow, listen)
    assert [ended(child) for child in [fork(write, n) for n in range(writers)]] == [0] * writers
    os.write(tell, b".")
    assert ended(reader) == 0


def kill_at(event):
    # Append two lines, killed before or after the n-th call that reaches the database.
    events = count(1)

    def step():
        if next(events) == event:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(original):
        def wrapped(*args, **kwargs):
            step()
            result = original(*args, **kwargs)
            step()
            return result
        return wrapped

    for name in ("run", "insert"):  # a commit is run too
        setattr(Connection, name, wrap(getattr(Connection, name)))
    ledger.hold(dataset, [(f"r{event}", at(1)), (f"r{event}", at(2))])


def kill():
    written = 0
    for event in count(1):
        code = ended(fork(kill_at, event))
        done = len(ledger.held(dataset, f"r{event}"))
        written += done
        assert done in (0, 2), done
        assert len(ledger.holdings(dataset)) == written
        if code == 0:
            return print(event, written)
        assert code == -signal.SIGKILL, code


ledger = Ledger.open(place, key)
{"race": race, "kill": kill}[work]()
"""


@pytest.fixture
def drive(ledger_place, tmp_path):
    key = Key.generate()
    key.write(tmp_path / "key")
    ledger = Ledger.create(ledger_place, key)
    ledger.register(entry("people", id=DATASET))

    def run(work):
        command = [sys.executable, "-c", DRIVER, str(ledger_place), str(tmp_path / "key"), DATASET]
        done = subprocess.run([*command, work], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return ledger, done.stdout

    return run


def test_sixteen_processes_write_while_one_reads(drive, ledger_place, counted):
    ledger, _ = drive("race")
    wanted = {(name, level) for name in ["all", *(f"r{n}" for n in range(16))] for level in (1, 2)}
    found = [(h.recipient, h.spec.level.thousandths) for h in ledger.holdings(DATASET)]
    assert len(found) == len(wanted)
    assert set(found) == wanted
    assert rows(ledger_place, LINES) == [(1 + len(wanted),)]
    # The same dataset was registered four times, the same values under four names.
    names = {dataset.name for dataset in ledger.datasets()}
    assert names > {"people", "same"}
    assert len(names) == 3
    counted("races")


def test_kill_at_every_step_leaves_all_of_an_append_or_nothing(drive, counted):
    """Killed after the commit it is all there, and so it is where nothing was killed."""
    _, output = drive("kill")
    events, written = map(int, output.split())
    assert events > 10
    assert written == 4
    counted("kills", events - 1)  # the last one was not killed


def test_looking_at_a_ledger_drops_no_lock_of_its_writers(tmp_path):
    """Closing any descriptor of a file would drop SQLite's locks on it, for all of a process."""
    place, key = tmp_path / "ledger.db", Key.generate()
    ledger, other = Ledger.create(place, key), Ledger.open(place, key)
    code = (
        "import sqlite3, sys\n"
        "database = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)\n"
        "database.execute('BEGIN IMMEDIATE')"
    )

    def elsewhere():
        run = subprocess.run([sys.executable, "-c", code, place], capture_output=True, text=True)
        return run.stderr.splitlines()[-1] if run.returncode else "written"

    with ledger._database.writing():
        ledger._database.version()
        other.states(["x"])
        del other
        assert "locked" in elsewhere()
    assert elsewhere() == "written"
