"""An edition enters the chain: drift is measured, then all is recorded at once.

Until the line stands in the chain, nothing has happened; after it, all has: the file of keys
that is put in its place last can be made again from the rows.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from cornerwave.dataset._keys import KeptKeys
from cornerwave.editions import APPENDED, Edition, Ranges, check_moves, measure_drift
from cornerwave.errors import ColumnError
from cornerwave.marks import TableMarks, grown
from cornerwave.survey import Survey, Surveyor
from cornerwave.table import Source
from cornerwave.units import Unit, UnitRows
from cornerwave.vault import Ledger

if TYPE_CHECKING:
    from cornerwave.dataset._dataset import Dataset

SPREAD = "spread"
"""The name beside the chain of what is known about all rows that came since registration."""


UNITS = "units"
"""The name of some rows of all editions, by which rows that belong to the same units are known."""


@dataclass(frozen=True)
class Brought:
    """What is known about the rows of an edition that were not there before, or not like this.

    `newcomers` are those that are not there for another value: by default all. Categories that
    are `advancing` may move by a rule.
    """

    surveyor: Surveyor
    survey: Survey
    ranges: Ranges
    newcomers: Survey | None = None
    advancing: Collection[str] = ()


def record_edition(
    dataset: "Dataset",
    edition: Edition,
    source: Source,
    brought: Brought,
    keys: KeptKeys,
    ledger: Ledger,
    attachments: Mapping[str, bytes] | None = None,
) -> Edition:
    """Record the next edition, and return it as the dataset has it.

    Raises Drifted, and ColumnError if rows that come belong to units that are there.
    """
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
    check_moves(edition, dataset.editions, brought.advancing)
    of_batch, kept = brought.surveyor.marks(survey).to_json(), dict(attachments or {})
    if (content := ledger.attachment(dataset.entry, UNITS)) is not None:
        there = UnitRows.read(content)
        new = _sampled(brought.newcomers or survey, there)
        if edition.kind == APPENDED:
            found = there.meetings(new, brought.surveyor.unit_columns)
            if found and found[0].is_repeat:
                ledger.check_rows(dataset.entry, of_batch)  # the same rows again: says so
            _check_meetings(found)
        kept[UNITS] = (there + new).fewest.to_bytes()
    now, *before = ledger.marks(dataset.entry)
    entry = ledger.add_edition(
        dataset.id,
        replace(edition, keys=keys.said(), drift=asdict(drift)).said(),
        of_batch=of_batch,
        marks=[grown(TableMarks.from_json(now), survey.marks).to_json(), *before],
        attachments={SPREAD: since.to_bytes(), **kept},
        is_new=edition.kind == APPENDED,
    )
    keys.publish()
    return dataset.took(entry, source)


def kept_beside(surveyor: Surveyor, survey: Survey) -> dict[str, bytes]:
    """Return what is kept beside the chain at registration."""
    if not surveyor.unit_columns.count:
        return {}
    return {UNITS: _sampled(survey).fewest.to_bytes()}


def _sampled(survey: Survey, like: UnitRows | None = None) -> UnitRows:
    some, rows = survey.units.ordered, survey.moments.rows
    return UnitRows.of(some.hashes, some.numbers, some.cells, rows=rows, like=like)


def _check_meetings(units: Sequence[Unit]) -> None:
    """Raise ColumnError if rows that come belong to units that are there."""
    if units:
        raise ColumnError(
            f"new rows belong to rows that are there: {units[0]}. Update these rows instead of "
            "appending more, or register the table anew and say that its rows are independent"
        )
