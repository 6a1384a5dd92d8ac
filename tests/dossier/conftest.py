"""A vault with a small table, of which three recipients hold copies on terms, and its dossier."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.access import Sharing
from cornerwave.dossier import Dossier, SignedDossier
from cornerwave.vault import Dataset, Vault

ROWS = 600
AT = datetime(2031, 5, 1, 12, tzinfo=UTC)
ARCHIVE = "R&D <archive>"


def table() -> pa.Table:
    rng = np.random.default_rng(11)
    age = rng.integers(18, 90, ROWS)
    return pa.table(
        {
            "id": [f"person-{row:04d}" for row in rng.permutation(ROWS)],
            "age": age,
            "wage": np.round(20_000 + 400.25 * age + rng.normal(0, 9_000, ROWS), 2),
            "city": rng.choice(["Ulmstadt", "Bonnhausen", "Jenaburg"], ROWS, p=[0.6, 0.3, 0.1]),
            "zone": rng.choice(["Nordkap", "Suedsee"], ROWS),
        }
    )


@dataclass(frozen=True)
class World:
    """All that a test of dossiers needs."""

    vault: Vault
    source: Path

    @property
    def people(self) -> Dataset:
        return self.vault.dataset("people")

    def signed(self, at: datetime = AT, **choices: object) -> SignedDossier:
        return Dossier.of(self.vault, self.people, at=at, **choices).signed(self.vault)


def make(folder: Path) -> World:
    source = folder / "people.parquet"
    papq.write_table(table(), source)
    vault = Vault.create(folder / "vault")
    people = vault.register("people", source, key="id", keep=["zone"])
    why = {"purpose": "a study of wages", "contract": "DSA 7", "until": "2031-04-01"}
    people.release(to="institute", privacy=0.3, **why).to_arrow()
    people.release(to="partner", privacy=0.5).to_arrow()
    people.release(to=ARCHIVE, privacy=0.8, until="2040-01-01").to_arrow()
    sharing = Sharing(vault)
    sharing.add("partner", purpose="a pilot", until="2035-01-01")
    sharing.grant("people", "partner", privacy=0.5, contract="DSA 8")
    return World(vault, source)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A vault that no test changes."""
    return make(tmp_path_factory.mktemp("dossier"))


@pytest.fixture(scope="module")
def signed(world: World) -> SignedDossier:
    return world.signed(coalitions=[("partner", ARCHIVE)])


@pytest.fixture
def fresh(tmp_path: Path) -> World:
    """A vault that the test may change."""
    return make(tmp_path)
