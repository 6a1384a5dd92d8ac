"""How the cells of a text file are spelled, as the last table of a schema file."""

import json

from cornerwave.table import Source


def how_read(source: Source) -> str:
    """Return the [reading] of a draft, with what was found as comments; '' if there is none.

    What may stand for missing values is proposed: it is missing if the owner leaves it there.
    """
    if source.reading is None or not (source.reading.said or source.remarks):
        return ""
    lines = ["", "[reading]    # how the cells are spelled; register reads them in this way"]
    lines += [f"# {_comment(remark)}" for remark in source.remarks]
    if source.markers:
        cells = sum(source.markers.values())
        lines.append(
            f"# proposed: {cells:,} cells look like marks for missing values; take out of "
            "`missing` what is a value"
        )
    return "\n".join([*lines, *source.reading.lines()]) + "\n"


def _comment(text: str) -> str:
    """Return text that cannot end a comment's line."""
    return json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("\x7f", "")
