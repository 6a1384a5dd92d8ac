"""The dossier of a table: gathered, measured, signed and written."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from cornerwave import document as doc
from cornerwave.documents import is_page, page
from cornerwave.dossier._chapters import chapters, verdict
from cornerwave.dossier._facts import DossierFacts, check_recipients, facts_of, released_of
from cornerwave.dossier._measured import measured_of
from cornerwave.dossier._promises import promises_of
from cornerwave.dossier._signed import ENDINGS, SignedDossier
from cornerwave.errors import OutputError
from cornerwave.keyed import fingerprint_of
from cornerwave.kinds import JsonObject
from cornerwave.ledger import now
from cornerwave.noise import NOISE_FORMAT
from cornerwave.outputs import check_place, write_text
from cornerwave.sources import Progress, silent
from cornerwave.vault import Dataset, LinkedDataset, Vault
from cornerwave.version import __version__

FOOTER = "This page shows no cell of the table and no key."


@dataclass(frozen=True)
class Dossier:
    """A dossier: what it states, as a document and as values, ready to be signed."""

    facts: DossierFacts

    @classmethod
    def of(
        cls,
        vault: Vault,
        known: Dataset | LinkedDataset,
        *,
        recipients: Sequence[str] = (),
        coalitions: Sequence[Sequence[str]] = (),
        at: datetime | None = None,
        progress: Progress = silent,
    ) -> "Dossier":
        """Gather what is known about the copies of a table, and measure the rest.

        Of `recipients` alone, if they are given; `coalitions` are those who might pool copies,
        beside each alone and all together. `at` is the time that grants are looked at, by default
        now. Nothing is recorded. Raises NoSuchRecipient, LedgerDamaged, SourceChanged.
        """
        tables = released_of(known)
        check_recipients(tables, [*recipients, *(name for each in coalitions for name in each)])
        # from before the first line of each, so that every line is checked
        vault.check_heads(f"{head.rsplit(':', 2)[0]}:0:" for head in vault.heads().values())
        return cls(
            facts_of(
                vault,
                known.name,
                tables,
                measured_of({each.name: each for each in tables}, progress=progress),
                only=recipients,
                coalitions=coalitions,
                at=at or now(),
                key=fingerprint_of(vault.public_key),
                versions=versions(),
            )
        )

    @property
    def document(self) -> doc.Document:
        """The dossier as a document."""
        facts = self.facts
        words, kind = verdict(facts)
        rows = sum(table.rows for table in facts.tables)
        of = f" for {', '.join(facts.only)}" if facts.only else ""
        return doc.Document(
            title=title_of(facts.name) + of,
            verdict=words,
            facts=f"{rows:,} rows; made {facts.made_at[:16].replace('T', ' ')} UTC; signed, see "
            "section 8",
            kind=kind,
            sections=chapters(facts),
            footer=FOOTER,
            data=self.to_json(),
            contents=True,
        )

    def to_json(self) -> JsonObject:
        """Return all that it states, as it is signed."""
        return {**self.facts.to_json(), "promises": promises_of(self.facts)}

    def signed(self, vault: Vault) -> SignedDossier:
        """Return it signed by the vault."""
        shown = page(self.document)
        return SignedDossier.of(self.to_json(), shown, sign=vault.sign, key=vault.public_key)


def title_of(name: str) -> str:
    """Return the title of the dossier of a table."""
    return f"Dossier of {name}"


def versions() -> Mapping[str, str]:
    """Return with what figures are made: the same versions give the same ones."""
    return {
        "Cornerwave": __version__,
        "format of the noise": str(NOISE_FORMAT),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "pyarrow": pa.__version__,
    }


def write_dossier(
    vault: Vault,
    known: Dataset | LinkedDataset,
    path: str | Path,
    *,
    recipients: Sequence[str] = (),
    coalitions: Sequence[Sequence[str]] = (),
    at: datetime | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Path:
    """Write the signed dossier of a table, a page (.html) or JSON (.json), and return where.

    A page prints well, and carries the JSON. Raises OutputExists, unless `force`, if another file
    is there, and as `Dossier.of` does.
    """
    place = Path(path).absolute()
    if place.suffix.lower() not in ENDINGS:
        raise OutputError(f"{place}: the file name of a dossier must end in .html or .json")
    check_place(place, force=force or is_page(place, title_of(known.name)))
    made = Dossier.of(
        vault, known, recipients=recipients, coalitions=coalitions, at=at, progress=progress
    ).signed(vault)
    is_json = place.suffix.lower() == ".json"
    write_text(place, made.text if is_json else made.as_page)
    return place
