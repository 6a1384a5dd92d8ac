"""Refusals of what a vault has already: names, tables, values."""

from collections.abc import Iterable, Sequence

from cornerwave.errors import AlreadyRegistered
from cornerwave.marks import Repeat, TableMarks, repeated
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
    """Raise AlreadyRegistered if a dataset has some of these values, or had them."""
    new = TableMarks.from_json(marks)
    for old in known:
        if found := repeated(new, TableMarks.from_json(old)):
            raise AlreadyRegistered(_what_repeats(found, dataset))


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
    why = (
        "two datasets have independent noise, which colluding recipients could average. "
        f"Release from {dataset!r}"
    )
    if found.column is None:
        how = "are" if found.same else "are an edition or a part of"
        return f"the rows of this table {how} those of dataset {dataset!r}, in any order: {why}"
    how = "the same values as" if found.same else "an edition or a part of the values of"
    return (
        f"column {found.column!r} holds {how} {found.of!r} of dataset {dataset!r}: {why}, "
        f"or drop the column {found.column!r} here"
    )
