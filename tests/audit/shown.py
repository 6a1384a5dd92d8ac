"""What an audit shows: the lines of its lists, and the cells of its tables."""

from cornerwave.audit import Audit, audit_document
from cornerwave.document import Bullets, DataTable, text_of


def findings(found: Audit) -> list[str]:
    """The lines on faults, on what is untested, and the notes, as a terminal shows them."""
    parts = [part for section in audit_document(found).sections for part in section.parts]
    lists = [part for part in parts if isinstance(part, Bullets)]
    return [f"{part.lead} {line}".strip() for part in lists for line in part.lines]


def tables(found: Audit) -> dict[str, list[list[str]]]:
    """The texts of the tables by the titles of their sections."""
    return {
        section.title: [list(map(text_of, row)) for row in part.rows]
        for section in audit_document(found).sections
        for part in section.parts
        if isinstance(part, DataTable)
    }
