"""Renaming, closing, forgetting and moving a dataset, in each database."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.errors import (
    AlreadyRegistered,
    DatasetClosed,
    DatasetReleased,
    LedgerDamaged,
    NoSuchDataset,
    SourceChanged,
    VaultError,
)
from cornerwave.vault import Vault
from tests.conftest import ledger_lines, make_people


@pytest.fixture
def vault(ledger_place, tmp_path):
    ledger = ledger_place if isinstance(ledger_place, str) else None
    return Vault.create(tmp_path / "vault", ledger=ledger)


def registered(vault, name="people", **choices):
    return vault.register(name, make_people(60), drop=["id"], **choices, few_rows=True)


def held(dataset):
    return [(each.recipient, each.spec.level) for each in dataset.holdings]


def test_a_dataset_of_which_nothing_was_released_is_forgotten_and_registered_otherwise(vault):
    first = registered(vault)
    with pytest.raises(AlreadyRegistered, match="another table or other"):
        registered(vault, transform={"age": "log1p"})
    vault.unregister("people")
    assert vault.datasets() == []
    with pytest.raises(NoSuchDataset):
        first.release(to="ann", privacy=0.5).to_arrow()
    assert registered(vault, transform={"age": "log1p"}).id != first.id
    vault.unregister("people")
    again = registered(vault)
    again.release(to="ann", privacy=0.5).to_arrow()
    assert (again.id, len(held(again))) == (first.id, 1)


def test_a_released_dataset_is_kept(vault):
    dataset = registered(vault)
    dataset.release(to="ann", privacy=0.5).to_arrow()
    with pytest.raises(DatasetReleased, match="released to 1 recipient"):
        vault.unregister("people")
    assert held(vault.dataset("people")) == held(dataset)


def test_a_closed_dataset_is_kept_and_releases_nothing_new(vault):
    dataset = registered(vault)
    stale = vault.dataset("people", source=make_people(60))
    copy = dataset.release(to="ann", privacy=0.5).to_arrow()
    assert dataset.closed == ""
    dataset.close()
    for late in (dataset, vault.dataset("people", source=make_people(60))):
        assert late.closed
        with pytest.raises(DatasetClosed, match="'people' was closed at"):
            late.release(to="bob", privacy=0.5)
    with pytest.raises(DatasetClosed):  # opened before it was closed
        stale.release(to="bob", privacy=0.5).to_arrow()
    assert [recipient for recipient, _ in held(dataset)] == ["ann"]
    [(release, _)] = dataset.again("ann")
    assert release.to_arrow().equals(copy)
    since = dataset.closed
    dataset.close()
    assert dataset.closed == since
    with pytest.raises(AlreadyRegistered):  # its copies are out: its values stay taken
        registered(vault, "others", transform={"age": "log1p"})


def test_a_renamed_dataset_is_the_same(vault):
    dataset = registered(vault)
    dataset.release(to="ann", privacy=0.5).to_arrow()
    heads = vault.heads()
    vault.register(
        "towns", pa.table({"n": np.random.default_rng(1).normal(size=50)}), few_rows=True
    )
    for taken in ("towns", "people"):
        with pytest.raises(AlreadyRegistered, match=f"a dataset '{taken}' already"):
            vault.dataset("people").rename(taken)
    with pytest.raises(VaultError):
        dataset.rename(" ")
    dataset.rename("persons")
    assert dataset.name == "persons"
    assert [each.name for each in vault.datasets()] == ["persons", "towns"]
    assert held(vault.dataset("persons")) == held(dataset)
    with pytest.raises(NoSuchDataset):
        vault.dataset("people")
    with pytest.raises(AlreadyRegistered, match="as 'persons'"):
        registered(vault)
    vault.check_since(heads)  # noted under the old name


def test_heads_of_a_forgotten_dataset_are_still_known_and_no_others(vault):
    first = registered(vault)
    heads = vault.heads()
    vault.unregister("people")
    vault.check_since(heads)
    registered(vault)
    vault.check_since(heads)
    forged = {"people": f"{first.id}:1:{'0' * 64}"}
    with pytest.raises(LedgerDamaged):
        vault.check_since(forged)
    with pytest.raises(LedgerDamaged):
        vault.check_since({"people": f"{first.id}:2:{'0' * 64}"})


def test_the_new_place_of_a_table_is_remembered_once_it_passed(vault, tmp_path):
    old, new, other = (tmp_path / f"{name}.parquet" for name in ("old", "new", "other"))
    papq.write_table(make_people(60), old)
    papq.write_table(make_people(60, seed=8), other)
    vault.register("people", old, drop=["id"], few_rows=True).release(
        to="ann", privacy=0.5
    ).to_arrow()
    shutil.move(old, new)
    with pytest.raises(SourceChanged):
        vault.dataset("people", source=other).release(to="bob", privacy=0.5).to_arrow()
    assert vault.dataset("people")._entry.source == str(old)
    vault.dataset("people", source=new).release(to="bob", privacy=0.5).to_arrow()
    assert vault.dataset("people").source.path == new
    assert vault.dataset("people").again("bob")[0][0].to_arrow().num_rows == 60


def test_a_rehearsal_refuses_what_registration_would_and_records_nothing(vault):
    tried = registered(vault, dry_run=True)
    assert tried.frozen.rows == 60
    assert vault.datasets() == []
    dataset = registered(vault)
    assert dataset.id == tried.id
    with pytest.raises(AlreadyRegistered):
        registered(vault, "others", transform={"age": "log1p"}, dry_run=True)
    assert [each.name for each in vault.datasets()] == ["people"]


def test_a_closed_row_cannot_be_opened_from_outside(tmp_path):
    from tests.conftest import edit_ledger

    vault = Vault.create(tmp_path / "vault")
    registered(vault).close()
    ledger = tmp_path / "vault" / "ledger.db"
    assert any("closing" in line for line in ledger_lines(ledger))
    edit_ledger(ledger, "UPDATE cornerwave_chain SET closed = ''")
    with pytest.raises(LedgerDamaged, match="seal"):
        vault.dataset("people")
