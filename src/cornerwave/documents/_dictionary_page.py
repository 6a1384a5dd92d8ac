"""The data dictionary of a copy as a page and as CSV, beside the copy.

Both are made from the copy alone, and name neither its file nor its recipient: the same copy
has the same dictionary, byte for byte.
"""

from pathlib import Path
from typing import Any

from cornerwave.columns import PERTURBED
from cornerwave.dictionary import ColumnNote, DataDictionary, dictionary_of
from cornerwave.documents import _document as kit
from cornerwave.errors import OutputError
from cornerwave.outputs import check_place, write_text
from cornerwave.sources import Address, DatabaseAddress, Place, place_of

TITLE = "Data dictionary"
FOOTER = "Made from the copy alone. docs/miner.md explains the estimates."


def write_dictionary(copy: str | Place, *, force: bool = False) -> list[Any]:
    """Write the dictionary of a copy beside it, as COPY.dictionary.html and .csv.

    The copy is a file or a directory, or lies in a store. Raises SourceError if it says nothing
    about itself, and OutputExists, unless `force`, for files that say anything else.
    """
    path = place_of(copy)
    if isinstance(path, DatabaseAddress):
        raise OutputError(f"a dictionary is a file beside a copy, and {path} is a table")
    found = dictionary_of(path)
    texts = {"html": dictionary_page(found), "csv": found.csv()}
    places = dictionary_places(path)
    for place, text in zip(places, texts.values(), strict=True):
        check_place(place, force=True)
        write_text(place, text, force=force)
    return places


def dictionary_places(copy: Path | Address) -> list[Any]:
    """Return the files of a copy's dictionary."""
    return [copy.with_name(f"{copy.name}.dictionary.{ending}") for ending in ("html", "csv")]


def dictionary_page(found: DataDictionary) -> str:
    """Return a dictionary as a web page."""
    verdict = (
        "This table was released with noise. Single cells are not those of the original; "
        "statistics over many rows can be estimated, with errors that are known."
    )
    facts = (
        f"edition {found.edition}, {kit.count(found.rows, 'row')}, "
        f"{kit.count(len(found.entries), 'column')}; privacy "
        f"{found.privacy:.4g}: at least this share of the variance of every column with noise "
        f"stays hidden; noise {found.noise:.4g}"
    )
    parts = [
        kit.headline(TITLE, verdict, facts, "plain"),
        _columns(found.entries),
        _computing(found),
        _example(found),
    ]
    return kit.document(TITLE, parts, footer=FOOTER)


def _columns(entries: tuple[ColumnNote, ...]) -> str:
    rows = [
        (e.column, e.what, e.type, e.noise or "none", _range(e), e.missing or "as in the original")
        for e in entries
    ]
    header = ("column", "what it is", "type of the original", "noise", "range", "missing values")
    return kit.section("Columns", kit.table(header, rows))


def _range(entry: ColumnNote) -> str:
    ends = [f"from {entry.lowest}"] * bool(entry.lowest) + [f"to {entry.highest}"] * bool(
        entry.highest
    )
    steps = [f"rounded to steps of {entry.step}"] * bool(entry.step)
    return ", ".join([" ".join(ends), *steps] if ends else steps) or "open"


def _computing(found: DataDictionary) -> str:
    grown = f"{1 + found.noise:.4g}"
    numbers = any(entry.role == PERTURBED for entry in found.entries)
    said = [
        "Means of numbers with noise are unbiased, and their ordinary standard errors are right.",
        f"Variances and covariances are {grown} times those of the original; correlations and "
        "regression coefficients among numbers with noise are unbiased as they are.",
        "The ordinary standard errors of variances, correlations and regressions are too small, "
        "because the noise follows the table’s own covariance. The miner’s are right.",
    ]
    rows = [(e.column, e.use or "–", e.mind or "–") for e in found.entries if e.use or e.mind]
    table = kit.table(("column", "ask the miner", "mind"), rows) if rows else ""
    return kit.section("How to compute with it", kit.bullets(said) if numbers else "", table)


def _example(found: DataDictionary) -> str:
    if not found.printed:
        return ""
    explained = kit.hint(
        "The miner is part of Cornerwave (pip install cornerwave). It needs the copy alone: no "
        "key, no ledger, no original. Each line is an estimate of the population that the "
        "original’s rows are a sample of, its standard error and a 95 % interval."
    )
    printed = kit.hint("It prints:") + kit.code(found.printed)
    return kit.section("An example that runs", explained, kit.code(found.program), printed)
