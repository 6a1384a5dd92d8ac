"""Refusals of what a vault has already: names, tables, values."""

from collections.abc import Iterable, Sequence

from cornerwave.errors import AlreadyRegistered
from cornerwave.marks import Relation, Repeat, TableMarks, related, repeated
from cornerwave.table import listed
from cornerwave.vault._chains import Entry


def check_named(entry: Entry, there: Entry) -> None:
    """Raise AlreadyRegistered if a dataset has this name or this id."""
    if there.name == entry.name:
        raise AlreadyRegistered(
            f"a dataset {entry.name!r} is registered already, with another table or other "
            "choices; release from it, or register under another name"
        )
    if there.id == entry.id:
        raise AlreadyRegistered(
            f"this table is registered already, with the same choices, as {there.name!r}; "
            "release from it"
        )


def check_new(marks: str, known: Iterable[str], dataset: str) -> None:
    """Raise AlreadyRegistered if a dataset has or had these values, or functions of them."""
    new = TableMarks.from_json(marks)
    for old in map(TableMarks.from_json, known):
        if found := repeated(new, old):
            raise AlreadyRegistered(_what_repeats(found, dataset), use=("unrelated",))
        if relation := related(new, old):
            raise AlreadyRegistered(_what_follows(relation, dataset), use=("unrelated",))


def check_rows_new(marks: str, known: Sequence[str]) -> None:
    """Raise AlreadyRegistered if new rows of a dataset hold values that it has already."""
    if found := repeated(TableMarks.from_json(marks), TableMarks.from_json(known[0])):
        raise AlreadyRegistered(_what_comes_again(found))


def _what_comes_again(found: Repeat) -> str:
    """Say which of a dataset's own values come again in new rows, and what to do."""
    what = "rows" if found.column is None else f"values of {found.column!r}"
    return (
        f"the batch holds {what} that the dataset has already: new rows get noise of their own, "
        "which recipients could average with the old one. Leave out what is there already; for "
        "rows that changed, make a new edition of the whole table"
    )


def _what_repeats(found: Repeat, dataset: str) -> str:
    """Say what another dataset has already, why that matters and what to do."""
    if found.column is None:
        how = "are" if found.same else "are an edition or a part of"
        what = f"the rows of this table {how} those of dataset {dataset!r}, in any order"
        return f"{what}: {_WHY} Release from {dataset!r}. {_UNLESS}"
    how = "the same values as" if found.same else "an edition or a part of the values of"
    what = f"column {found.column!r} holds {how} {found.of!r} of dataset {dataset!r}"
    return f"{what}: {_WHY} {_remedy([found.column], dataset)}. {_UNLESS}"


def _what_follows(found: Relation, dataset: str) -> str:
    """Say which columns are computed from those of another dataset, and what to do."""
    mine, theirs = listed(found.columns), listed(found.of)
    if len(found.columns) == len(found.of) == 1:
        what = f"column {mine} is a function of {theirs} of dataset {dataset!r}, or the reverse"
    else:
        what = f"a combination of {mine} is one of {theirs} of dataset {dataset!r}"
    return f"{what}: {_WHY} {_remedy(found.columns, dataset)}. {_UNLESS}"


def _remedy(columns: Sequence[str], dataset: str) -> str:
    what = f"the column {columns[0]!r}" if len(columns) == 1 else "one of these columns"
    return f"Release from {dataset!r}, or drop {what} here"


_WHY = "two datasets have independent noise, which colluding recipients could average."
_UNLESS = (
    "If the tables agree by chance alone, declare this one unrelated to it; if they do not, copies "
    "of both reveal more than either states"
)
