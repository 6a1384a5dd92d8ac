"""A first look at tables, and a draft of the schema file to register them with.

    inspect          one pass over a source; the draft is registered for trial on sampled rows
    inspect_linked   the same for several tables, and what they share
    draft            the schema file, with what was found as comments

Names and counts are shown, never a value.

    _inspected  one pass over a table, and what is proposed for it, and why
    _columns    what each column is, and what to watch for
    _recognise  what must not leave by default, and numbers that are codes (_seen, _texts, _words)
    _scales     a number on its own scale, or on that of its ranks
    _explained_gaps  numbers whose gaps a category explains
    _followed   columns that another one decides: bands, labels, groups
    _totals     numbers that are sums of others
    _distances  numbers and dates that come after another one
    _disclosure    which columns reveal which, and what copies will look like
    _trial      the draft registered on sampled rows: what to hide or leave out for half
    _unit_draft columns that name people, firms, places
    _common_units  what names the same persons in several tables
    _family     linked tables: their unit, keys, repeated columns, what joins them
    _draft      the text; risks, each with a number; _linked_draft: of several tables
"""

from collections.abc import Mapping

from cornerwave.inspection._columns import ColumnReport
from cornerwave.inspection._draft import how_read, written
from cornerwave.inspection._family import LinkedInspection, inspected_together
from cornerwave.inspection._inspected import Inspection, Look, inspected
from cornerwave.inspection._linked_draft import linked_draft
from cornerwave.sources import Progress, Source, silent

__all__ = [
    "ColumnReport",
    "Inspection",
    "LinkedInspection",
    "draft",
    "how_read",
    "inspect",
    "inspect_linked",
]


def inspect(source: Source, *, progress: Progress = silent) -> Inspection:
    """Look at every column of a source. Raises SourceError if it cannot be read."""
    return inspected(Look.at(source, progress))


def inspect_linked(
    sources: Mapping[str, Source], *, progress: Progress = silent
) -> LinkedInspection:
    """Look at several tables, and at what they share. Raises SourceError if one cannot be read."""
    looks = {table: Look.at(source, progress) for table, source in sources.items()}
    readings = {table: how_read(source, table) for table, source in sources.items()}
    return inspected_together(looks, readings)


def draft(inspection: Inspection | LinkedInspection) -> str:
    """Return a schema file that states what would happen, for the owner to edit."""
    if isinstance(inspection, LinkedInspection):
        return linked_draft(inspection)
    return written(
        inspection.columns,
        inspection.disclosure,
        inspection.warnings,
        inspection.asks,
        inspection.time,
    )
