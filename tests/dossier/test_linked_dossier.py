"""A dossier of linked tables, and of a table that changes."""

import json

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.dossier import Dossier, check_dossier, write_dossier
from cornerwave.vault import Vault
from tests.dossier.conftest import AT, table
from tests.test_linked_copies import clinic


@pytest.mark.slow
def test_linked_tables_are_one_document_in_which_each_is_audited_with_the_others(tmp_path):
    tables = {}
    for name, frame in zip(("patients", "visits"), clinic(300), strict=True):
        tables[name] = tmp_path / f"{name}.parquet"
        papq.write_table(pa.Table.from_pandas(frame, preserve_index=False), tables[name])
    vault = Vault.create(tmp_path / "vault")
    linked = vault.register_linked(
        "clinic", tables, unit="patient", key="visit", drop=["day"], few_rows=True
    )
    linked["visits"].release(to="payer", privacy=0.7).to_arrow()
    [alone] = Dossier.of(vault, vault.linked("clinic"), at=AT).facts.tables
    assert alone.name == "clinic.visits"
    linked.release(to="partner", privacy=0.5, purpose="a registry").write(tmp_path / "copy.zip")
    made = Dossier.of(vault, vault.linked("clinic"), at=AT).signed(vault)
    stated = json.loads(made.text)["dossier"]
    assert [each["name"] for each in stated["tables"]] == ["clinic.patients", "clinic.visits"]
    assert [len(each["levels"]) for each in stated["tables"]] == [1, 2]
    assert all(each["measured"]["checks"] > 0 for each in stated["tables"])
    assert all(each["measured"]["failed"] == [] for each in stated["tables"])
    assert set(stated["heads"]) == {"", "clinic.patients", "clinic.visits"}
    assert "partner: a registry" in (made.page or "")
    assert "clinic.visits: Columns" in (made.page or "")
    path = write_dossier(vault, vault.linked("clinic"), tmp_path / "clinic.html")
    assert check_dossier(vault, path).differs == ()


def test_a_table_that_changes(tmp_path):
    papq.write_table(table().slice(0, 500), tmp_path / "people.parquet")
    vault = Vault.create(tmp_path / "vault")
    people = vault.register("people", tmp_path / "people.parquet", key="id", drop=["city", "zone"])
    people.release(to="ann", privacy=0.5).to_arrow()
    papq.write_table(table().slice(500), tmp_path / "more.parquet")
    people.append(tmp_path / "more.parquet")
    people.release(to="ann", privacy=0.5).to_arrow()
    stated = json.loads(Dossier.of(vault, people, at=AT).signed(vault).text)["dossier"]
    assert [each["edition"] for each in stated["copies"]] == ["1", "2"]
    [facts] = stated["tables"]
    assert (facts["rows"], facts["editions"], len(facts["levels"])) == (600, 2, 1)
    assert facts["measured"]["clean"]


def test_few_rows_are_stated_as_not_audited(tmp_path):
    papq.write_table(table().slice(0, 80), tmp_path / "people.parquet")
    vault = Vault.create(tmp_path / "vault")
    people = vault.register(
        "people", tmp_path / "people.parquet", drop=["id", "city", "zone"], few_rows=True
    )
    people.release(to="ann", privacy=0.5).to_arrow()
    made = Dossier.of(vault, people, at=AT)
    assert made.document.kind == "plain"
    assert "too short for its copies to be attacked" in (made.signed(vault).page or "")
