"""The adversary's commands: `audit` and `attack`."""

from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cornerwave.cli._options import AlignOption, JsonOption, VaultOption, open_vault
from cornerwave.cli._screen import print_json, print_table, progress, say, tell
from cornerwave.errors import SourceError, spelled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cornerwave.audit import Recovered
    from cornerwave.sources import ReadingSettings, Source

FOUND = 1


class Method(StrEnum):
    """The estimate that `attack` uses."""

    llse = "llse"
    bayes = "bayes"
    learned = "learned"
    spectral = "spectral"
    pca = "pca"


def audit(
    source: Annotated[str, typer.Argument(help="The original table.")],
    copies: Annotated[list[Path], typer.Argument(help="Copies of it, made by any tool.")],
    key: AlignOption = None,
    privacy: Annotated[
        list[float] | None,
        typer.Option(
            metavar="P", help="Privacy that each copy should have, in order; default: its metadata."
        ),
    ] = None,
    as_json: JsonOption = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the report as a web page.")
    ] = None,
    vault: VaultOption = None,
    *,
    reading: "ReadingSettings | None" = None,
) -> None:
    """Attack copies of a table, check their noise and report what a coalition gains."""
    from cornerwave.audit import as_json as to_json
    from cornerwave.audit import audit as run
    from cornerwave.audit import findings, sections, verdict
    from cornerwave.sources import open_source, place_of

    with progress("Auditing") as advance, ExitStack() as closing:
        truth = _as_copied(source, copies, key, vault, closing)
        truth = truth or open_source(source, reading=_as_read(reading, copies))
        found = run(truth, copies, key=key, privacy=privacy, progress=advance)
        found = replace(found, source=place_of(source).name)  # not that of its rows in order
    if html is not None:
        from cornerwave.documents import audit_page
        from cornerwave.outputs import write_text

        write_text(html, audit_page(found))
    if as_json:
        print_json(to_json(found))
    else:
        tell(verdict(found))
        for section in sections(found):
            print_table(*section)
        for line in [*findings(found), verdict(found)]:
            tell(line)
    if not found.clean:
        raise typer.Exit(FOUND)


def _as_read(
    reading: "ReadingSettings | None", copies: "Sequence[Path]"
) -> "ReadingSettings | None":
    """Return how to read the original: what is missing there is what its copies say, if unsaid."""
    from cornerwave.outputs import read_metadata
    from cornerwave.sources import ReadingSettings

    own = reading or ReadingSettings()
    if own.missing is not None or not copies:
        return reading
    try:
        told = read_metadata(copies[0]) or {}
    except SourceError:  # said when the copy itself is opened
        return reading
    columns = {about.get("source", name): about for name, about in told.get("columns", {}).items()}
    marks = tuple((n, tuple(about["marks"])) for n, about in columns.items() if "marks" in about)
    missing = tuple(told["missing"]) if "missing" in told else None
    return replace(own, missing=missing, column_missing=marks or None)


def _as_copied(
    source: str, copies: "Sequence[Path]", key: str | None, vault: Path | None, closing: ExitStack
) -> "Source | None":
    """Return the original in the order of its shuffled copies, or with their pseudonyms.

    Only the vault that made them knows either. None if rows can be matched without it, by
    position or by this key, or if no vault here knows their dataset.
    """
    from cornerwave.columns import SHUFFLE
    from cornerwave.outputs import read_metadata
    from cornerwave.sources import open_source, place_of
    from cornerwave.vault import is_vault, vault_place

    try:
        told = (read_metadata(copies[0]) if copies else None) or {}
    except SourceError:  # said when the copy itself is opened
        return None
    is_matched = told.get("order") != SHUFFLE if key is None else not _is_pseudonym(key, told)
    if is_matched or not (vault or is_vault(vault_place())):
        return None
    opened = open_vault(vault)
    names = {each.id: each.name for each in opened.datasets()}
    if (name := names.get(told.get("dataset", ""))) is None:
        return None
    dataset = opened.dataset(name, source=source)
    place = closing.enter_context(dataset.work_folder()) / f"{place_of(source).name}.arrow"
    dataset.write_in_copies_order(place, edition=told.get("edition"), batch=told.get("batch"))
    done = "put into the order" if key is None else "given the pseudonyms"
    say(f"The rows of {source} were {done} of the copies of {name}")
    return open_source(place)


def _is_pseudonym(key: str, told: "Mapping[str, Any]") -> bool:
    """Whether a copy states that it has pseudonyms in place of a column of the original."""
    columns = told.get("columns", {})
    return any(c.get("pseudonym") and c.get("source", name) == key for name, c in columns.items())


def attack(
    copies: Annotated[list[Path], typer.Argument(help="The copies that the coalition holds.")],
    noise: Annotated[
        list[float] | None,
        typer.Option(metavar="V", help="Noise of each copy, in order; default: its metadata."),
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="The original table, to measure the error."),
    ] = None,
    key: AlignOption = None,
    method: Annotated[
        Method, typer.Option(help="bayes and learned need --truth for known rows.")
    ] = Method.llse,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the estimate: .csv, .csv.gz, .parquet, .arrow."),
    ] = None,
    vault: VaultOption = None,
    *,
    reading: "ReadingSettings | None" = None,
) -> None:
    """Play the adversary: estimate the original from copies."""
    from cornerwave.audit import attack_copies as run
    from cornerwave.sources import open_source

    with progress("Attacking") as advance, ExitStack() as closing:
        original = None
        if truth is not None:
            original = _as_copied(truth, copies, key, vault, closing)
            original = original or open_source(truth, reading=_as_read(reading, copies))
        found = run(
            copies, noise=noise, truth=original, key=key, method=method, out=out, progress=advance
        )
    _print_recovered(found, method)
    if out is not None:
        say(f"Wrote {out}: estimates of {', '.join(map(spelled, found.columns))}")


def _print_recovered(found: "Recovered", method: Method) -> None:
    """Print how well each column was estimated or guessed."""
    weights = [
        (name, f"{v:.6g}", "–" if weight is None else f"{weight:.4f}")
        for name, v, weight in zip(found.copies, found.noise, found.weights, strict=True)
    ]
    title = f"{method.value}, {found.rows:,} rows"
    if 0 < found.attacked < found.rows:
        title += f", {found.attacked:,} of them attacked"
    print_table(title, ("copy", "noise", "weight"), weights)
    if found.together is not None and found.alone is not None:
        errors = [
            (spelled(name), f"{alone:.4f}", f"{together:.4f}")
            for name, alone, together in zip(
                found.columns, found.alone, found.together, strict=True
            )
        ]
        title = "Error, share of variance"
        print_table(title, ("column", f"{found.best} alone", "all together"), errors)
    if found.categories:
        guesses = [
            (spelled("+".join(own.columns)), *map(_share, (own.blind, own.expected)))
            + (() if own.alone is None else (_share(own.alone), _share(own.together or 0.0)))
            for own in found.categories
        ]
        header: tuple[str, ...] = ("category", "without a copy", "expected")
        if found.categories[0].alone is not None:
            header += (f"{found.best} alone", "all together")
        print_table("Guesses of categories that are right", header, guesses)


def _share(value: float) -> str:
    return f"{value:.1%}"
