"""The adversary's commands: `audit` and `attack`."""

from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cornerwave.cli._options import AlignOption, JsonOption, VaultOption, open_vault
from cornerwave.cli._screen import print_table, progress, say, show, tell
from cornerwave.errors import SourceError, spelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cornerwave.audit import Recovered
    from cornerwave.sources import ReadingSettings, Source
    from cornerwave.spec import CopyMetadata

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
    from cornerwave.audit import audit as run
    from cornerwave.audit import audit_document
    from cornerwave.sources import open_source, place_of

    with progress("Auditing") as advance, ExitStack() as closing:
        truth = open_source(source, reading=_as_read(reading, copies))
        as_copied, done = _as_copied(truth, copies, key, vault, closing)
        found = run(as_copied, copies, key=key, privacy=privacy, progress=advance)
        found = replace(found, source=place_of(source).name)  # not that of its rows in order
    for line in done:
        say(line)
    document = audit_document(found)
    if html is not None:
        from cornerwave.documents import page
        from cornerwave.outputs import write_text

        write_text(html, page(document))
    show(document, as_json=as_json)
    if not as_json:  # the first line has scrolled away
        typer.echo()
        tell(document.verdict)
    if not found.clean:
        raise typer.Exit(FOUND)


def _as_read(
    reading: "ReadingSettings | None", copies: "Sequence[Path]"
) -> "ReadingSettings | None":
    """Return how to read the original; what is missing there as its copies state, unless given."""
    from cornerwave.outputs import read_metadata
    from cornerwave.sources import ReadingSettings

    own = reading or ReadingSettings()
    if own.missing is not None or not copies:
        return reading
    try:
        stated = read_metadata(copies[0])
    except SourceError:  # raised again when the copy itself is opened
        return reading
    if stated is None:
        return reading
    columns = {about.source or name: about.marks for name, about in stated.columns.items()}
    marks = tuple((name, own) for name, own in columns.items() if own is not None)
    return replace(own, missing=stated.missing, column_missing=marks or None)


def _as_copied(
    source: "Source",
    copies: "Sequence[Path]",
    key: str | None,
    vault: Path | None,
    closing: ExitStack,
) -> "tuple[Source, list[str]]":
    """Return the original in the order of its shuffled copies, or with their pseudonyms.

    And a line about it. Only the vault that made them knows either: the original is returned
    as it is if rows can be matched without it, by position or by this key, or if no vault here
    knows their dataset.
    """
    from cornerwave.columns import SHUFFLE
    from cornerwave.outputs import read_metadata
    from cornerwave.sources import open_source
    from cornerwave.spec import CopyMetadata
    from cornerwave.vault import is_vault, vault_place

    try:
        stated = (read_metadata(copies[0]) if copies else None) or CopyMetadata()
    except SourceError:  # raised again when the copy itself is opened
        return source, []
    is_matched = stated.order != SHUFFLE if key is None else not _is_pseudonym(key, stated)
    if is_matched or not (vault or is_vault(vault_place())):
        return source, []
    opened = open_vault(vault)
    names = {each.id: each.name for each in opened.datasets()}
    if (name := names.get(stated.dataset or "")) is None:
        return source, []
    dataset = opened.dataset(name, source=source)
    place = closing.enter_context(dataset.work_folder()) / f"{source.name}.arrow"
    dataset.write_in_copies_order(place, edition=stated.edition, batch=stated.batch)
    done = "put into the order" if key is None else "given the pseudonyms"
    return open_source(place), [f"The rows of {source.name} were {done} of the copies of {name}"]


def _is_pseudonym(key: str, stated: "CopyMetadata") -> bool:
    """Whether a copy states that it has pseudonyms in place of a column of the original."""
    columns = stated.columns.items()
    return any(about.pseudonym and (about.source or name) == key for name, about in columns)


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
        original, done = None, list[str]()
        if truth is not None:
            original = open_source(truth, reading=_as_read(reading, copies))
            original, done = _as_copied(original, copies, key, vault, closing)
        found = run(
            copies, noise=noise, truth=original, key=key, method=method, out=out, progress=advance
        )
    for line in done:
        say(line)
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
