"""How the cells of a text file are spelled, as the last table of a schema file."""

from cornerwave.table import Source, toml_comment


def how_read(source: Source) -> str:
    """Return the [reading] of a draft, with what was found as comments; '' if there is none.

    What may stand for missing values is proposed: it is missing if the owner leaves it there.
    What does so in one column alone stands with that column.
    """
    if source.reading is None or not (source.reading.said or source.remarks):
        return ""
    lines = ["", "[reading]    # how the cells are spelled; register reads them in this way"]
    lines += [f"# {toml_comment(remark)}" for remark in source.remarks]
    shared = set(source.reading.missing or ())
    marks = [pair for found in source.markers.values() for pair in found.items()]
    if cells := sum(count for mark, count in marks if mark in shared):
        lines.append(
            f"# proposed: {cells:,} cells look like marks for missing values; take out of "
            "`missing` what is a value"
        )
    return "\n".join([*lines, *source.reading.lines()]) + "\n"
