"""Editions that are made at the same time, in SQLite and in PostgreSQL: one of them wins."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.errors import CornerwaveError, VaultError
from cornerwave.vault import Vault
from tests.test_editions import people
from tests.test_updates import changed

FIRST = people(300, 1)
RIVALS = 4


@pytest.fixture
def home(tmp_path, ledger_place):
    """A vault with a table, which every rival opens for itself."""
    papq.write_table(FIRST, tmp_path / "first.parquet")
    url = ledger_place if isinstance(ledger_place, str) else None
    vault = Vault.create(tmp_path / ".cornerwave", ledger=url)
    vault.register("people", tmp_path / "first.parquet", key="id", few_rows=True)
    return vault.path


def batch(number, tmp_path):
    path = tmp_path / f"batch {number}.parquet"
    papq.write_table(people(100, 10 + number, 1000 * (1 + number)), path)
    return path


def edition(number, tmp_path):
    path = tmp_path / f"edition {number}.parquet"
    new = changed(FIRST, range(0, 300, 3), seed=number)
    papq.write_table(pa.concat_tables([new, people(50, 20 + number, 1000 * (1 + number))]), path)
    return path


def race(home, works):
    """Do all at once, each in its own vault and connection; return what each was told."""
    start = Barrier(len(works))

    def run(work):
        dataset = Vault.open(home).dataset("people")
        start.wait()
        try:
            work(dataset)
        except CornerwaveError as error:
            return error
        return None

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


@pytest.mark.parametrize("kinds", [["append"] * RIVALS, ["update"] * RIVALS, ["append", "update"]])
@pytest.mark.first(3)
def test_one_of_several_at_once_is_the_next_edition(home, tmp_path, kinds, counted):
    sources = [{"append": batch, "update": edition}[k](n, tmp_path) for n, k in enumerate(kinds)]
    works = [
        lambda dataset, kind=kind, source=source: getattr(dataset, kind)(source)
        for kind, source in zip(kinds, sources, strict=True)
    ]
    outcomes = race(home, works)
    assert outcomes.count(None) >= 1
    assert all(isinstance(each, VaultError) for each in outcomes if each is not None)
    assert all("repeat the command" in str(each) for each in outcomes if each is not None)
    dataset = Vault.open(home).dataset("people")
    assert [each.number for each in dataset.editions] == list(range(1, 2 + outcomes.count(None)))
    # nothing of those that lost is left, and they can be repeated
    lost = [work for work, each in zip(works, outcomes, strict=True) if each is not None]
    for work in lost:
        work(Vault.open(home).dataset("people"))
    dataset = Vault.open(home).dataset("people")
    assert len(dataset.editions) == 1 + len(kinds)
    copy = dataset.release(to="ann", privacy=0.5).to_arrow()
    assert copy.num_rows == dataset.rows
    assert not list(home.glob("work/*"))
    assert len(list((home / "keys").iterdir())) == len(dataset.editions)
    counted("races")


def test_the_same_batch_many_times_at_once_comes_once(home, tmp_path, counted):
    source = batch(0, tmp_path)
    outcomes = race(home, [lambda dataset: dataset.append(source)] * RIVALS)
    assert outcomes.count(None) == 1
    dataset = Vault.open(home).dataset("people")
    assert (len(dataset.editions), dataset.rows) == (2, 400)
    counted("races")


def test_releases_beside_an_edition_are_of_one_or_the_other(home, tmp_path, counted):
    source = edition(0, tmp_path)
    copies = []

    def release(dataset):
        copies.append(dataset.release(to="ann", privacy=0.5).to_arrow())

    outcomes = race(home, [lambda dataset: dataset.update(source), release, release])
    assert outcomes == [None] * 3
    dataset = Vault.open(home).dataset("people")
    known = [dataset.release(to="bob", privacy=0.5, edition=e).to_arrow() for e in (1, 2)]
    assert all(any(copy.equals(each) for each in known) for copy in copies)
    counted("races")


@pytest.mark.parametrize("do", ["append", "update"])
@pytest.mark.first(2)
def test_who_opened_before_the_last_edition_is_told_to_repeat(home, tmp_path, do):
    Vault.open(home).dataset("people").append(batch(1, tmp_path))
    late = Vault.open(home).dataset("people")
    Vault.open(home).dataset("people").append(batch(2, tmp_path))
    old = pa.concat_tables([FIRST, people(100, 11, 2000)])
    works = {
        "append": lambda: late.append(batch(3, tmp_path)),
        "update": lambda: late.update(edition(3, tmp_path), old=old),
    }
    with pytest.raises(VaultError, match="repeat the command") as caught:
        works[do]()
    assert type(caught.value) is VaultError  # not a damaged ledger
    assert len(Vault.open(home).dataset("people").editions) == 3
