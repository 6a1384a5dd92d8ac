"""`release` and `again`: recipients, levels and output files."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cornerwave.cli._options import (
    AgainstOption,
    BitsOption,
    ClipOption,
    ContractOption,
    DescribeOption,
    EngineOption,
    LinkedOption,
    MasterOption,
    PurposeOption,
    RoundOption,
    SourceOption,
    UntilOption,
    VaultOption,
    bounds_of,
    cluster,
    descriptions_of,
    named,
    named_sources,
    noise_at_most,
    open_vault,
    read_by,
)
from cornerwave.cli._screen import progress, say
from cornerwave.errors import LevelError, OutputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cornerwave.columns import Finish
    from cornerwave.ledger import Terms
    from cornerwave.levels import Level, Privacy
    from cornerwave.sources import Place
    from cornerwave.vault import Dataset, LinkedDataset, LinkedRelease, Release


def release(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    to: Annotated[
        list[str] | None,
        typer.Option(metavar="RECIPIENT", help="Recipient of a copy (repeatable)."),
    ] = None,
    privacy: Annotated[
        list[float] | None,
        typer.Option(metavar="P", help="Share of variance to hide, 0.001 to 0.999; one per --to."),
    ] = None,
    noise: Annotated[
        list[float] | None,
        typer.Option(
            metavar="V", help="Noise instead of privacy, as a multiple of the table's covariance."
        ),
    ] = None,
    linked: LinkedOption = None,
    bits: BitsOption = None,
    out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Output file (.csv, .csv.gz, .parquet, .arrow, .xlsx, .dta, .sav), a path or an "
            "address, or "
            "postgresql://...#TABLE, one per --to; or a directory. Linked tables: a .zip of CSV "
            "files, .duckdb, a new directory of .parquet files, or postgresql://...#SCHEMA.",
        ),
    ] = None,
    levels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml", help="Read recipients, levels and output files from a file."
        ),
    ] = None,
    round_: RoundOption = None,
    clip: ClipOption = None,
    describe: DescribeOption = None,
    dictionary: Annotated[
        bool,
        typer.Option("--dictionary", help="Write a data dictionary beside each copy: HTML, CSV."),
    ] = False,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="Numbers as the noise left them: not drawn together to vary as the table does, "
            "and neither rounded nor clipped, whatever was chosen at registration.",
        ),
    ] = False,
    edition: Annotated[
        int | None, typer.Option(metavar="E", help="The table as of an earlier edition.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="B", help="The rows of one batch alone, by its edition.")
    ] = None,
    source: SourceOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    another: Annotated[
        bool,
        typer.Option("--another", help="Allow a second level without confirmation."),
    ] = False,
    against: AgainstOption = "linear",
    purpose: PurposeOption = "",
    contract: ContractOption = "",
    until: UntilOption = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Number of threads; default: all cores.")
    ] = None,
    engine: EngineOption = "local",
    master: MasterOption = None,
    vault: VaultOption = None,
) -> None:
    """Release copies of a registered table to recipients."""
    from cornerwave.columns import Finish
    from cornerwave.ledger import Terms
    from cornerwave.vault import write_all, write_all_spark

    finish = Finish(
        frozenset(round_ or ()), bounds_of(clip), descriptions=descriptions_of(describe)
    )
    terms = Terms.of(purpose=purpose, contract=contract, until=until)
    opened = open_vault(vault, to_change=True)
    ending = "zip" if (is_linked := opened.has_linked(name)) else "parquet"
    on_cluster = engine == "spark"
    if linked or bits:
        if privacy or noise or levels:
            raise LevelError("give one of --privacy, --noise, --linked, --bits and --levels")
        noise = noise_at_most(named(opened, name), linked, bits)
    asked_for = _requests(name, to, privacy, noise, out, levels, ending, on_cluster=on_cluster)
    requests = [(recipient, _from(against, asked), place) for recipient, asked, place in asked_for]
    if dictionary:
        _check_dictionary([place for _, _, place in requests])
    if is_linked:
        _check_linked(finish, edition, batch, engine)
        tables = opened.linked(name, sources=named_sources(source))
        _release_linked(
            tables,
            requests,
            raw=raw,
            force=force,
            another=another,
            dictionary=dictionary,
            terms=terms,
        )
        return
    with cluster(engine, master) as session:
        dataset = opened.dataset(name, source=read_by(session, source))
        releases = dataset.release_many(
            [(recipient, level) for recipient, level, _ in requests],
            finish=finish,
            raw=raw,
            dictionary=dictionary,
            edition=edition,
            batch=batch,
            terms=terms,
        )
        if not another:
            _confirm_second_levels(dataset, releases)
        copies = [(made, path) for made, (_, _, path) in zip(releases, requests, strict=True)]
        with progress("Releasing", releases[0].rows.rows) as advance:
            if session is None:
                paths = write_all(copies, force=force, threads=threads, progress=advance)
            else:
                paths = write_all_spark(copies, spark=session, force=force, progress=advance)
    for made, path, (_, asked, _) in zip(releases, paths, requests, strict=True):
        say(f"{path}: for {made.recipient}, {_described(made, asked)}")
        _write_dictionary(made, path, force=force)


def _check_linked(finish: "Finish", edition: int | None, batch: int | None, engine: str) -> None:
    """Raise OutputError for what a copy of linked tables cannot have."""
    from cornerwave.columns import Finish

    if finish != Finish() or edition or batch or engine != "local":
        raise OutputError(
            "linked tables are released whole: --round, --clip, --describe, --edition, --batch and "
            "--engine are for one table; release it by its own name, as in clinic.visits"
        )


def _release_linked(
    tables: "LinkedDataset",
    requests: "Sequence[tuple[str, Level | Privacy, Place]]",
    *,
    raw: bool,
    force: bool,
    another: bool,
    dictionary: bool,
    terms: "Terms",
) -> None:
    """Release copies of linked tables, one after the other."""
    for recipient, asked, place in requests:
        made = tables.release_at(recipient, asked, raw=raw, dictionary=dictionary, terms=terms)
        for table, release in made.tables.items() if not another else ():
            _confirm_second_levels(tables[table], [release])
        with progress("Releasing", sum(each.rows.rows for each in made.tables.values())) as advance:
            path = made.write(place, force=force, progress=advance)
        first = next(iter(made.tables.values()))
        say(
            f"{path}: {', '.join(made.tables)} for {recipient}, privacy {made.privacy:g}, noise "
            f"{first.level.noise:.4g}"
        )
        if dictionary and isinstance(path, Path):
            _write_dictionaries(path, force=force)


def _write_dictionaries(path: Path, *, force: bool) -> None:
    """Write the dictionary of each table beside a copy of linked tables, and report where."""
    from cornerwave.dictionary import write_dictionary
    from cornerwave.outputs import linked_files

    for table, file in linked_files(path).items():
        beside = path.with_name(f"{path.name}.{table}")
        for place in write_dictionary(file.path, force=force, beside=beside):
            say(f"{place}: what the columns of {table} are and how to compute with them")


def _from(against: str, asked: "Level | Privacy") -> "Level | Privacy":
    """Return what is asked for, hidden from an adversary. Raises LevelError."""
    from cornerwave.levels import LINEAR, Level, Privacy

    if isinstance(asked, Privacy):
        return Privacy(asked.share, against)
    if against != LINEAR:
        raise LevelError("--against chooses the noise of a privacy; give --privacy, not --noise")
    return Level(asked.noise)


def _check_dictionary(places: "Sequence[Place]") -> None:
    """Raise OutputError if a dictionary would have to lie beside a table of a database."""
    from cornerwave.sources import DatabaseAddress

    if tables := [place for place in places if isinstance(place, DatabaseAddress)]:
        raise OutputError(
            f"a dictionary is a file beside a copy, and {tables[0]} is a table; leave out "
            "--dictionary"
        )


def _write_dictionary(made: "Release", path: "Place", *, force: bool) -> None:
    """Write the dictionary of a copy that was released with one, and report where."""
    if not made.spec.dictionary:
        return
    from cornerwave.dictionary import write_dictionary

    for place in write_dictionary(path, force=force):
        say(f"{place}: what its columns are and how to compute with them")


def _confirm_second_levels(dataset: "Dataset", releases: "Sequence[Release]") -> None:
    """Ask before a recipient gets a level beside the one that he holds. Raises LevelError."""
    held = {(each.recipient, each.spec.level) for each in dataset.holdings}
    for made in releases:
        others = sorted(level for who, level in held if who == made.recipient)
        if others and made.level not in others:
            known = ", ".join(f"{dataset.privacy_of(level):g}" for level in others)
            text = f"{made.recipient!r} holds {dataset.name!r} at privacy {known} already"
            asked = sys.stdin.isatty() and sys.stderr.isatty()
            if not asked or not typer.confirm(
                f"{text}. Release it at {made.privacy:g} as well?", err=True
            ):
                raise LevelError(
                    f"{text}; a second copy at {made.privacy:g} was not confirmed", use=("another",)
                )
        held.add((made.recipient, made.level))


def _described(made: "Release", asked: "Level | Privacy") -> str:
    """Say what a copy hides and costs, and how that differs from what was asked."""
    from cornerwave.levels import Privacy, worth

    text = f"privacy {made.privacy:g}, noise {made.level.noise:.4g}"
    if isinstance(asked, Privacy):
        alone = asked.thousandths / 1000
        if asked.share != alone:
            text += f" (privacy rounded up from {asked.share:g})"
    elif asked != made.level:
        text += f" (noise rounded up from {asked.noise:g})"
    return f"{text}; a mean as precise as from {worth(made.level.noise):.0%} of the rows"


def again(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    recipient: Annotated[str, typer.Argument(help="The recipient who holds the copy.")],
    out: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Output file; default: NAME-RECIPIENT.FORMAT."),
    ] = None,
    number: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Which of several copies: 1, 2, ...")
    ] = None,
    source: SourceOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    engine: EngineOption = "local",
    master: MasterOption = None,
    vault: VaultOption = None,
) -> None:
    """Make a recipient's copy again from the ledger, byte for byte."""
    opened = open_vault(vault, to_change=True)
    if opened.has_linked(name):
        _linked_again(
            opened.linked(name, sources=named_sources(source)), recipient, out, number, force
        )
        return
    with cluster(engine, master) as session:
        dataset = opened.dataset(name, source=read_by(session, source))
        held = dataset.again(recipient)
        if (number is None and len(held) > 1) or (number or 1) > len(held):
            raise LevelError(_which(name, recipient, held))
        copy, format_ = held[(number or 1) - 1]
        place = _place_again(name, recipient, out, format_, on_cluster=session is not None)
        with progress("Releasing", copy.rows.rows) as advance:
            if session is None:
                path: Place = copy.write(place, force=force, progress=advance)
            else:
                path = copy.write_spark(place, spark=session, force=force)
    say(f"{path}: for {recipient}, privacy {copy.privacy:g}, made again")
    _write_dictionary(copy, path, force=force)


def _linked_again(
    tables: "LinkedDataset", recipient: str, out: str | None, number: int | None, force: bool
) -> None:
    """Make a recipient's copy of linked tables again."""
    from cornerwave.sources import place_of
    from cornerwave.vault import kind_of

    held = tables.again(recipient)
    if (number is None and len(held) > 1) or (number or 1) > len(held):
        raise LevelError(_which_linked(tables, recipient, held))
    copy = held[(number or 1) - 1]
    if out is None:
        raise OutputError(f"name a place for the tables with --out: {_kind_of_linked(copy)}")
    place = place_of(out)
    if kind_of(place) != copy.kind:
        raise OutputError(
            f"this copy is {_kind_of_linked(copy)}; give --out a place for such a one"
        )
    path = copy.write(place, force=force)
    say(f"{path}: {', '.join(copy.tables)} for {recipient}, privacy {copy.privacy:g}, made again")
    first = next(iter(copy.tables.values()))
    if first.spec.dictionary and isinstance(path, Path):
        _write_dictionaries(path, force=force)


def _kind_of_linked(copy: "LinkedRelease") -> str:
    kinds = {"folder": f"a directory of .{copy.format} files", "schema": "a schema of PostgreSQL"}
    return kinds.get(copy.kind or "", f"a .{copy.kind} file")


def _which_linked(tables: "LinkedDataset", recipient: str, held: "Sequence[LinkedRelease]") -> str:
    copies = []
    for number, copy in enumerate(held, start=1):
        text = [f"{number}: privacy {copy.privacy:g} as {_kind_of_linked(copy)}"]
        text += [
            f"{table} of {_rows_of(release)}"
            for table, release in copy.tables.items()
            if len(release.dataset.editions) > 1
        ]
        copies.append(", ".join(text))
    return (
        f"{recipient!r} holds {tables.name!r} as {'; '.join(copies) or 'single tables'}. Choose "
        "one with --number, or a table by its own name"
    )


def _place_again(
    name: str, recipient: str, out: str | None, format_: str, *, on_cluster: bool
) -> "Place":
    """Return where a copy is made again. Raises OutputError if it would be another file."""
    from cornerwave.outputs import FOLDER
    from cornerwave.sources import format_of, place_of
    from cornerwave.vault import FRAME

    kinds = {"postgresql": "a table of PostgreSQL", FOLDER: "a directory that Spark wrote"}
    kind = kinds.get(format_, f"a .{format_} file")
    if on_cluster != (format_ == FOLDER):
        raise OutputError(f"this copy is {kind}; make it again in the same way", use=("engine",))
    if format_ in (FRAME, "postgresql") and out is None:
        was = "a frame in memory" if format_ == FRAME else kind
        raise OutputError(f"this copy was released as {was}; name its place with --out")
    if out is None:
        return _default(name, recipient, "parquet" if format_ == FOLDER else format_)
    place = place_of(out)
    if format_ not in (FRAME, FOLDER) and format_ != format_of(place):
        raise OutputError(f"this copy is {kind}; give --out a place for such a one")
    return place


def _which(name: str, recipient: str, held: "Sequence[tuple[Release, str]]") -> str:
    copies = []
    for number, (copy, format_) in enumerate(held, start=1):
        finish = [f"rounded {column}" for column in sorted(copy.spec.finish.round)]
        finish += [f"clipped {column}" for column in copy.spec.finish.clip]
        finish += ["with a dictionary"] * copy.spec.dictionary
        finish += ["of a copy of all tables"] * (copy.spec.part_of is not None)
        finish += [_rows_of(copy)] * (len(copy.dataset.editions) > 1)
        text = ", ".join([f"{number}: privacy {copy.privacy:g} as {format_}", *finish])
        copies.append(text)
    return f"{recipient!r} holds {name!r} as {'; '.join(copies)}. Choose one with --number"


def _rows_of(copy: "Release") -> str:
    rows = copy.rows
    return f"edition {rows.edition}" if rows.batch is None else f"batch {rows.batch} alone"


def _requests(
    name: str,
    to: list[str] | None,
    privacy: list[float] | None,
    noise: list[float] | None,
    out: list[str] | None,
    levels: Path | None,
    ending: str,
    *,
    on_cluster: bool,
) -> list[tuple[str, "Level | Privacy", "Place"]]:
    """Return (recipient, level, file or, on a cluster, directory) for each requested copy."""
    from cornerwave.levels import Level, Privacy

    if levels is not None:
        if to or privacy or noise or out:
            raise LevelError("--levels replaces --to, --privacy, --noise and --out; leave them out")
        return _requests_in(levels, name, ending, on_cluster=on_cluster)
    units, unit = (privacy, "privacy") if privacy else (noise, "noise")
    if not to or not units or (privacy and noise) or len(units) != len(to):
        raise LevelError(
            "give each --to RECIPIENT one --privacy P, or each of them one --noise V, --linked "
            "SHARE or --bits BITS; to mix privacy and noise, use --levels FILE.toml"
        )
    asked = [Privacy(value) if unit == "privacy" else Level(value) for value in units]
    places = _outputs(name, to, out, ending, on_cluster=on_cluster)
    return list(zip(to, asked, places, strict=True))


def _requests_in(
    path: Path, name: str, ending: str, *, on_cluster: bool
) -> list[tuple[str, "Level | Privacy", "Place"]]:
    from cornerwave.schema_file import read_batch

    requests = []
    for recipient, level, out in read_batch(path):
        given = [str(out)] if out else None
        [place] = _outputs(name, [recipient], given, ending, on_cluster=on_cluster)
        requests.append((recipient, level, place))
    return requests


def _outputs(
    name: str, to: list[str], out: list[str] | None, ending: str, *, on_cluster: bool
) -> "list[Place]":
    """Return one place per recipient: as given, or NAME-RECIPIENT with an ending in a directory.

    A copy of a cluster is a directory itself: one that is there may be a copy, and is no place
    for another one, which readers would take for more rows of the first.
    """
    from cornerwave.sources import place_of

    folders = [each for each in out or () if Path(each).is_dir() and not on_cluster]
    if out and len(out) == len(to) and not folders:
        return [place_of(each) for each in out]
    if out and on_cluster:
        raise OutputError("with Spark, give one --out DIRECTORY for each --to: it becomes the copy")
    if out and (len(out) > 1 or not folders):
        raise OutputError("give one --out FILE for each --to, or one --out that is a directory")
    return [_default(name, recipient, ending, *folders) for recipient in to]


def _default(name: str, recipient: str, ending: str, folder: str = "") -> Path:
    if Path(recipient).name != recipient or recipient.startswith("."):
        raise OutputError(f"{recipient!r} cannot be part of a file name; name a file with --out")
    return Path(folder) / f"{name}-{recipient}.{ending}"
