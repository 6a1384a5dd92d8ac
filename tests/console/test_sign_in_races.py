"""Many who come at once, as threads of one service and as processes: one link, eight tries."""

import multiprocessing
import threading
from datetime import timedelta
from functools import partial
from pathlib import Path

import httpx
import pytest

from cornerwave.access import Owners
from cornerwave.errors import AccessDenied, TooManyRequests
from cornerwave.server import ClientLimits, SignIn
from cornerwave.vault import Vault
from tests.console.conftest import FROM_HERE, PASSWORD, QUICK, World, sign_in
from tests.server.conftest import Clock, serving
from tests.waiting import SECONDS

MANY = 24
MOST_TRIES = ClientLimits().wrong_passwords


def signing_in(vault: Vault, **more: object) -> SignIn:
    """How the owner signs in, as a process of the service has it."""
    return SignIn(vault, hasher=QUICK, **more)


def new_link(vault: Vault) -> str:
    """A link for the first owner."""
    link = Owners(vault).first_link(again=True)
    assert link is not None
    return link


class Meeting:
    """Lets nobody pass before a number of them have come, or are known not to come."""

    def __init__(self, count: int) -> None:
        self._count, self._here = count, threading.Condition()

    def leave(self) -> None:
        with self._here:
            self._count -= 1
            self._here.notify_all()

    def wait(self) -> None:
        with self._here:
            self._count -= 1
            self._here.notify_all()
            assert self._here.wait_for(lambda: self._count <= 0, SECONDS)


def all_at_once(work, count):
    """Run some work in threads, given their numbers; return what came of each."""
    found = [None] * count

    def run(number):
        try:
            found[number] = work(number)
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.fixture
def vault(ledger_place, tmp_path):
    ledger = ledger_place if isinstance(ledger_place, str) else None
    return Vault.create(tmp_path / "vault", ledger=ledger)


def test_of_many_who_use_the_link_at_once_one_sets_the_password(vault, monkeypatch, counted):
    link, all_have_looked, true = new_link(vault), Meeting(6), SignIn.link_of

    def link_of(self, text):
        found = true(self, text)
        all_have_looked.wait()
        return found

    monkeypatch.setattr(SignIn, "link_of", link_of)
    passwords = [f"the password of thread {number}" for number in range(6)]
    found = all_at_once(lambda number: signing_in(vault).use_link(link, passwords[number]), 6)
    accepted = [number for number, each in enumerate(found) if not isinstance(each, Exception)]
    assert len(accepted) == 1
    assert all(isinstance(each, AccessDenied) for n, each in enumerate(found) if n not in accepted)
    signing_in(vault).check(passwords[accepted[0]])
    for number in set(range(6)) - set(accepted):
        with pytest.raises(AccessDenied):
            signing_in(vault).check(passwords[number])
    counted("races")


def test_of_many_who_change_the_password_at_once_one_does(vault, monkeypatch, counted):
    first = signing_in(vault)
    first.use_link(new_link(vault), PASSWORD)
    all_have_checked, true = Meeting(4), SignIn.check

    def check(self, password, **name):
        found = true(self, password, **name)
        all_have_checked.wait()
        return found

    monkeypatch.setattr(SignIn, "check", check)
    change = partial(SignIn.change, first, PASSWORD)
    found = all_at_once(lambda number: change(f"a newer password {number}"), 4)
    assert sorted(isinstance(each, AccessDenied) for each in found) == [False, True, True, True]
    counted("races")


def test_no_session_begins_by_a_password_that_was_changed_meanwhile(vault):
    signing = signing_in(vault)
    old = signing.use_link(new_link(vault), PASSWORD)
    new = signing.change(PASSWORD, "a newer password")
    with pytest.raises(AccessDenied, match="changed just now"):
        signing.begin(old)
    assert signing.person(signing.begin(new))


def test_no_more_wrong_passwords_are_tried_at_once_than_may_be(vault, monkeypatch, counted):
    """Each process has its own object: what it counts has to be in the database."""
    signing_in(vault).use_link(new_link(vault), PASSWORD)
    everybody = Meeting(MANY)

    def check(self, _password):
        everybody.wait()
        raise AccessDenied("this is not the password")

    monkeypatch.setattr(SignIn, "check", check)

    def one(_number):
        signing = signing_in(vault)
        try:
            with signing.counted("192.0.2.1"):
                signing.check("wrong")
        except TooManyRequests:
            everybody.leave()
            raise

    found = [type(each) for each in all_at_once(one, MANY)]
    assert found.count(AccessDenied) == MOST_TRIES
    assert found.count(TooManyRequests) == MANY - MOST_TRIES
    counted("races")


def test_no_more_wrong_passwords_reach_one_service_at_once(world: World, monkeypatch, counted):
    sign_in(world, world.browser())
    everybody, true = Meeting(MANY), SignIn.check

    def check(self, password, **name):
        everybody.wait()
        return true(self, password, **name)

    monkeypatch.setattr(SignIn, "check", check)

    def post(_number):
        fields = {"password": "wrong"}
        with httpx.Client(base_url=url, headers=FROM_HERE, timeout=SECONDS) as client:
            status = client.post("/console/sign-in", data=fields).status_code
        if status == 429:
            everybody.leave()
        return status

    with serving(world.app, lifespan="off") as url:
        found = all_at_once(post, MANY)
    assert (found.count(403), found.count(429)) == (MOST_TRIES, MANY - MOST_TRIES)
    counted("races")


def test_only_wrong_passwords_stay_counted(vault):
    clock = Clock()
    signing = signing_in(vault, clock=clock)
    signing.use_link(new_link(vault), PASSWORD)
    for _ in range(MOST_TRIES + 1):
        with signing.counted("192.0.2.1"):
            signing.check(PASSWORD)
    for _ in range(MOST_TRIES):
        with pytest.raises(AccessDenied), signing.counted("192.0.2.1"):
            signing.check("wrong")
    with pytest.raises(TooManyRequests), signing.counted("192.0.2.1"):
        pytest.fail("not even looked at")
    with signing.counted("192.0.2.2"):  # somebody else
        signing.check(PASSWORD)
    assert "192.0.2" not in str(vault.records.find("try"))
    clock.ahead = timedelta(minutes=5, seconds=1)
    with signing.counted("192.0.2.1"):
        signing.check(PASSWORD)
    assert vault.records.find("try") == []  # those of long ago are forgotten


def try_some(folder: Path, link: str, number: int, barrier, results) -> None:
    signing = signing_in(Vault.open(folder))
    barrier.wait()
    try:
        signing.use_link(link, f"the password of process {number}")
        results.put("link")
    except AccessDenied:
        pass
    barrier.wait()
    for _ in range(5):
        try:
            with signing.counted("192.0.2.1"):
                signing.check("wrong")
        except (AccessDenied, TooManyRequests) as error:
            results.put(type(error).__name__)


@pytest.mark.slow
def test_processes_share_the_link_and_the_count(vault, counted):
    context, processes = multiprocessing.get_context("forkserver"), 4
    context.set_forkserver_preload(["cornerwave.server"])
    barrier, results = context.Barrier(processes), context.Queue()
    link = new_link(vault)
    children = [
        context.Process(target=try_some, args=(vault.path, link, number, barrier, results))
        for number in range(processes)
    ]
    for child in children:
        child.start()
    found = [results.get(timeout=SECONDS) for _ in range(1 + 5 * processes)]
    for child in children:
        child.join()
    assert found.count("link") == 1
    assert found.count("AccessDenied") == MOST_TRIES
    assert found.count("TooManyRequests") == 5 * processes - MOST_TRIES
    counted("races")
