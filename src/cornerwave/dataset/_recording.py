"""An edition enters the chain: drift is measured, then all is recorded at once.

Until the line stands in the chain, nothing has happened; after it, all has: the file of keys
that is put in its place last can be made again from the rows.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from cornerwave.dataset._keys import KeptKeys
from cornerwave.editions import APPENDED, Edition, Ranges, measure_drift
from cornerwave.marks import TableMarks, grown
from cornerwave.survey import Survey, Surveyor
from cornerwave.table import Source
from cornerwave.vault import Ledger

if TYPE_CHECKING:
    from cornerwave.dataset._dataset import Dataset

SPREAD = "spread"
"""The name beside the chain of what is known about all rows that came since registration."""


@dataclass(frozen=True)
class Brought:
    """What is known about the rows of an edition that were not there before, or not like this.

    `newcomers` are those that are not there for another value: by default all.
    """

    surveyor: Surveyor
    survey: Survey
    ranges: Ranges
    newcomers: Survey | None = None


def record_edition(
    dataset: "Dataset",
    edition: Edition,
    source: Source,
    brought: Brought,
    keys: KeptKeys,
    ledger: Ledger,
    attachments: Mapping[str, bytes] | None = None,
) -> Edition:
    """Record the next edition, and return it as the dataset has it. Raises Drifted."""
    survey = brought.survey
    earlier = ledger.attachment(dataset.entry, SPREAD)
    drift, since = measure_drift(
        dataset.frozen,
        survey,
        brought.ranges,
        earlier,
        surveyor=brought.surveyor,
        came=brought.newcomers,
    )
    now, *before = ledger.marks(dataset.entry)
    entry = ledger.add_edition(
        dataset.id,
        replace(edition, keys=keys.said(), drift=asdict(drift)).said(),
        of_batch=brought.surveyor.marks(survey).to_json(),
        marks=[grown(TableMarks.from_json(now), survey.marks).to_json(), *before],
        attachments={SPREAD: since.to_bytes(), **(attachments or {})},
        is_new=edition.kind == APPENDED,
    )
    keys.publish()
    return dataset.took(entry, source)
