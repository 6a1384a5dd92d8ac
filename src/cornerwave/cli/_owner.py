"""A table from its registration to its end: init, inspect, register, append ... unregister."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cornerwave.choices import Choices, ReadingSettings
from cornerwave.cli._options import (
    DetailsOption,
    EngineOption,
    MasterOption,
    SourceOption,
    VaultOption,
    advice_for,
    cluster,
    named,
    open_vault,
    read_by,
    table_and_place,
    tables_of,
)
from cornerwave.cli._screen import progress, say
from cornerwave.errors import CornerwaveError, OutputExists, SourceError, VaultError, spelled

if TYPE_CHECKING:
    from cornerwave.editions import Edition
    from cornerwave.sources import Progress
    from cornerwave.vault import Dataset, Vault


def init(
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Keep the ledger in PostgreSQL: postgresql://HOST/DATABASE."
        ),
    ] = None,
    new_ledger: Annotated[
        bool,
        typer.Option(
            "--new-ledger",
            help="Create an empty ledger for the existing key, if the ledger was lost.",
        ),
    ] = False,
    second_person: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Grants and releases below privacy P wait until a second person approves.",
        ),
    ] = None,
    vault: VaultOption = None,
) -> None:
    """Create a vault: a secret key and an empty ledger."""
    from cornerwave.vault import KEY_FILE, Vault, checked_below, is_vault, key_place, vault_place

    place = vault_place(vault)
    existed = is_vault(place)
    checked_below(second_person)
    if existed and second_person is not None:
        raise VaultError(
            f"there is a vault in {place} already; change what a second person approves with "
            "`cornerwave approval`"
        )
    made = Vault.create(
        place, key_file=key_place(), ledger=ledger, new_ledger=new_ledger, exist_ok=True
    )
    if second_person is not None:
        from cornerwave.access import Approvals

        Approvals(made).change(below=second_person)
    if existed:
        held = [spelled(dataset.name) for dataset in made.datasets()]
        contents = f"It holds {', '.join(held)}" if held else "It is empty"
        say(f"There is a vault in {made.path} already. {contents}. Nothing was changed.")
        return
    if new_ledger:
        say(
            f"Created an empty ledger for the vault {made.path}. Register the same tables with "
            "the same choices to get the same copies. The record of who holds them is lost."
        )
        return
    say(f"Created a vault in {made.path}")
    say(
        f"Its key is {key_place() or made.path / KEY_FILE}. Back it up in a safe place: without "
        "it no copy can be made again, and anyone who has it can remove the noise."
    )


def register(
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    source: Annotated[
        list[str],
        typer.Argument(
            help="CSV, Parquet, Arrow, Excel, Stata, SPSS, SAS, a directory, a database; a path, "
            "or an address: s3://, gs://, abfs://, https://, postgresql://. Several tables of the "
            "same persons: TABLE=SOURCE for each."
        ),
    ],
    choices: Choices,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml", help="Read all choices from a file; `inspect` drafts one."
        ),
    ] = None,
    unrelated: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATASET",
            help="Do not compare with a dataset whose values agree by chance (repeatable).",
        ),
    ] = None,
    orphans: Annotated[
        bool,
        typer.Option("--orphans", help="Linked tables: allow persons without a row in one."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do everything but record the dataset.")
    ] = False,
    details: DetailsOption = False,
    engine: EngineOption = "local",
    master: MasterOption = None,
    vault: VaultOption = None,
    *,
    reading: ReadingSettings,
) -> None:
    """Register a table, or several of the same persons, before the first release."""
    from cornerwave.outlook import advice
    from cornerwave.vault import Registration

    opened, tables = open_vault(vault, to_change=not dry_run), _tables_in(source)
    with (
        advice_for(schema),
        cluster(engine, master) as session,
        progress("Reading") as advance,
    ):
        how = Registration(
            choices,
            schema=schema,
            reading=reading,
            unrelated=tuple(unrelated or ()),
            dry_run=dry_run,
            spark=session,
            progress=advance,
        )
        if tables is None:
            registered = [opened.register_as(name, read_by(session, source[0]), how)]
        else:
            places = {table: read_by(session, place) for table, place in tables.items()}
            linked = opened.register_linked_as(name, places, how, orphans=orphans)
            registered = list(linked.tables.values())
    for dataset in registered:
        for line in _registered(dataset, "Would register" if dry_run else "Registered"):
            say(line)
        for line in advice(dataset.frozen).lines(details=details):
            say(f"  {line}")
        for line in _since_last_wave(opened, dataset) if schema is not None else ():
            say(f"  {line}")
    if not dry_run:
        say(f"Next: cornerwave levels {shlex.quote(name)}, which recommends a privacy for each use")


def _since_last_wave(vault: "Vault", dataset: "Dataset") -> Iterator[str]:
    """Say what differs from the last table that was registered with the same columns, if any."""
    from cornerwave.outlook import changed_since, is_same_survey

    others = [each for each in vault.datasets() if each.id != dataset.id and not each.closed]
    for former in sorted(others, key=lambda each: each.registered_at, reverse=True):
        if is_same_survey(former.frozen, dataset.frozen):
            lines = list(changed_since(former.frozen, dataset.frozen))
            same = "nothing much differs from it" if not lines else "; ".join(lines)
            yield f"beside {former.name}, which has the same columns and choices: {same}"
            return


def _tables_in(sources: list[str]) -> dict[str, str] | None:
    """Return linked tables, each named with its source; None for a single source."""
    named = [table_and_place(source) for source in sources]
    if len(sources) == 1 and (not named[0][0] or Path(sources[0]).exists()):
        return None
    if not all(table and place for table, place in named):
        raise SourceError("name each of several tables with its source, as in visits=visits.csv")
    tables = dict(named)
    if len(tables) < len(named):
        raise SourceError("two tables have one name; give each its own")
    return tables


_ORDERS = {
    "shuffle": "order of the rows: shuffled, the same in every copy",
    "keep": "order of the rows: kept, whatever it reveals",
}


def _registered(dataset: "Dataset", done: str) -> Iterator[str]:
    from cornerwave.columns import chosen_in, listed

    frozen = dataset.frozen
    key, pseudonym, presence = frozen.schema.key, frozen.schema.pseudonym, frozen.schema.present_if
    yield f"{done} {dataset.name}: {frozen.rows:,} rows"
    for what, groups in (
        ("perturbed", [(name,) for name in frozen.schema.perturbed]),
        ("as distances", [(f"{n} from {base}",) for n, base in frozen.schema.relative.items()]),
        ("refreshed", frozen.schema.categories),
        ("derived", [(f"{c.name} from {c.follows}",) for c in frozen.schema.derived]),
        ("sums", [(f"{n} = {' + '.join(of)}",) for n, of in frozen.schema.totals.items()]),
        ("released unchanged", [(name,) for name in frozen.schema.kept]),
        ("key, a pseudonym in copies", [(pseudonym,)] if pseudonym else []),
        ("key, released unchanged", [(n,) for n in frozen.schema.unchanged if n == key]),
        ("missing values stay missing", [(n,) for n in frozen.missing if n not in presence]),
        (
            "present just where a category lets it be",
            [(f"{n} by {of}",) for n, of in presence.items()],
        ),
    ):
        if groups:
            yield f"  {what}: {listed(['+'.join(map(spelled, group)) for group in groups], str)}"
    looks = chosen_in(frozen.schema)
    for what, columns_ in (("always rounded", looks.round), ("clipped", looks.clip)):
        if columns_:
            yield f"  {what} in copies: {', '.join(map(spelled, sorted(columns_)))}"
    for column, called in looks.names.items():
        yield f"  called {spelled(called)} in copies: {spelled(column)}"
    if looks.descriptions:
        described = ", ".join(map(spelled, looks.descriptions))
        yield f"  described in copies, in your words: {described}"
    if len(dataset.entry.unrelated) > _siblings(dataset):
        yield "  not compared with datasets that you declared unrelated: if they share values,"
        yield "  recipients of both can average the noise"
    if frozen.schema.order is not None:
        yield f"  {_ORDERS[frozen.schema.order]}"
    if frozen.schema.independent_rows:
        what = "rows of different units" if frozen.schema.unit else "rows"
        yield f"  {what}: independent, as stated; if they belong together, they are not hidden so"
    for each in frozen.categories:
        if each.pooled:
            name = "+".join(map(spelled, each.columns))
            yield f"  pooled: rare values of {name}, {each.counts[-1]:,} rows in total"


def _siblings(dataset: "Dataset") -> int:
    """Return how many tables a table is linked with: the ledger does not compare them."""
    family = dataset.frozen.family
    return 0 if family is None else len(family.tables) - 1


def inspect(
    source: Annotated[
        list[str],
        typer.Argument(
            help="A table, as for `register`. Several tables of the same persons: TABLE=SOURCE for "
            "each."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Write the draft to a new file.")
    ] = None,
    *,
    reading: ReadingSettings,
) -> None:
    """Look at a table, or several of the same persons, and draft a schema file for `register`."""
    tables = _tables_in(source)
    with progress("Inspecting") as advance:
        if tables is None:
            text, places = _inspected(source[0], reading, advance)
        else:
            text, places = _inspected_together(tables, reading, advance)
    if out is None:
        typer.echo(text, nl=False)
        return
    from cornerwave.outputs import write_text

    try:
        write_text(out, text, force=False)
    except OutputExists:
        raise OutputExists(f"{out} exists with other content; choose another name") from None
    if tables is not None or (name := _registered_as(source[0])) is None:
        say(f"Wrote {out}; edit it, then: cornerwave register NAME {places} --schema {out}")
        return
    say(
        f"Wrote {out}. The vault has this table already, as {name}; next: cornerwave release "
        f"{name} --to RECIPIENT --privacy P --out FILE"
    )


def _inspected(source: str, reading: ReadingSettings, advance: "Progress") -> tuple[str, str]:
    """Return the draft for a table, and the table as a command names it."""
    from cornerwave.inspection import draft, how_read
    from cornerwave.inspection import inspect as look
    from cornerwave.sources import open_to_inspect

    opened = open_to_inspect(source, reading)
    return draft(look(opened, progress=advance)) + how_read(opened), shlex.quote(str(opened.path))


def _inspected_together(
    tables: dict[str, str], reading: ReadingSettings, advance: "Progress"
) -> tuple[str, str]:
    """Return the draft for linked tables, and the tables as a command names them."""
    from cornerwave.inspection import draft, inspect_linked
    from cornerwave.sources import open_to_inspect

    opened = {table: open_to_inspect(place, reading) for table, place in tables.items()}
    text = draft(inspect_linked(opened, progress=advance))
    return text, " ".join(shlex.quote(f"{t}={each.path}") for t, each in opened.items())


def _registered_as(source: str) -> str | None:
    """Return the name under which the vault at hand, if there is one, has registered a file."""
    from cornerwave.vault import is_vault, vault_place

    if not is_vault(vault_place()):
        return None
    try:
        datasets = open_vault(None).datasets()
    except CornerwaveError:  # a vault that cannot be opened is no matter of this table
        return None
    return next((d.name for d in datasets if d.is_from(source)), None)


# --------------------------------------------------------------------------------------------------
# Tables that change: append, update.


Name = Annotated[str, typer.Argument(help="The dataset.")]


def append(
    name: Name,
    batch: Annotated[str, typer.Argument(help="New rows, with the registered columns.")],
    source: SourceOption = None,
    engine: EngineOption = "local",
    master: MasterOption = None,
    vault: VaultOption = None,
) -> None:
    """Append new rows to a registered table: the next edition."""
    with cluster(engine, master) as session, progress("Reading") as advance:
        opened = open_vault(vault, to_change=True)
        dataset = opened.dataset(name, source=read_by(session, source))
        made = dataset.append(read_by(session, batch), spark=session, progress=advance)
    say(
        f"Edition {made.number} of {name}: {made.rows_brought:,} rows came, "
        f"{made.rows:,} rows in all"
    )
    for line in made.drift.sentences() if made.drift else ():
        say(f"  {line}")


def update(
    name: Name,
    new: Annotated[Path, typer.Argument(help="The whole table as it is now.")],
    old: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The last edition; default: where it was registered."),
    ] = None,
    advancing: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Accept a category in which many rows move by rules that few of them share: "
            "copies of several editions show which were replaced (repeatable).",
        ),
    ] = None,
    vault: VaultOption = None,
) -> None:
    """Make a changed table the next edition: rows that came, went and changed."""
    dataset = open_vault(vault, to_change=True).dataset(name)
    with progress("Comparing", 4 * dataset.rows) as advance:
        made = dataset.update(new, old=old, advancing=advancing or (), progress=advance)
    for line in _changes(name, made):
        say(line)
    for line in made.drift.sentences() if made.drift else ():
        say(f"  {line}")


def _changes(name: str, made: "Edition") -> Iterator[str]:
    """Say what an edition changed, and what copies of it and of the one before hide."""
    changes = made.changes
    assert changes is not None, "an updated table states its changes"
    yield (
        f"Edition {made.number} of {name}: {changes.came:,} rows came, {changes.went:,} went "
        f"and {changes.changed:,} changed; {made.rows:,} rows in all"
    )
    if back := changes.returned:
        yield f"  {back:,} of the rows that came were in an earlier edition"
    for column, count in changes.columns.items():
        yield f"  {spelled(column)}: {count:,} values changed"
    if hides := changes.hides:
        yield (
            "  the numbers of both editions at privacy 0.5 hide, of rows that changed, at "
            f"least {hides['value']:.3f} of each value, {hides['mean']:.3f} of their mean and "
            f"{hides['change']:.3f} of each change"
        )
    for name, moved in changes.moves.items():
        yield (
            f"  {name}: of its {moved.rows:,} new values the old one and the change reveal "
            f"{moved.predicted:.0%}; values that replace others in copies move as these did"
            + (f", but for {moved.few:,} rows too few of which moved alike" if moved.few else "")
        )
    yield "  which rows came, went and changed is visible to holders of copies of both editions"


# --------------------------------------------------------------------------------------------------
# What happens to a dataset after it was registered: schema, rename, close, unregister.


def schema(
    name: Name,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Write it to a new file.")
    ] = None,
    vault: VaultOption = None,
) -> None:
    """Print the schema file of what was registered."""
    text = open_vault(vault).dataset(name).schema_file()
    if out is None:
        typer.echo(text, nl=False)
        return
    from cornerwave.outputs import write_text

    write_text(out, text, force=False)
    say(f"Wrote {out}")


def rename(
    old: Annotated[str, typer.Argument(help="The dataset.")],
    new: Annotated[str, typer.Argument(help="Its new name.")],
    vault: VaultOption = None,
) -> None:
    """Give a dataset another name."""
    named(open_vault(vault, to_change=True), old).rename(new)
    say(f"{old} is called {new} from now on")


def close(name: Name, vault: VaultOption = None) -> None:
    """End the releases of a dataset; the ledger keeps who holds what."""
    for dataset in tables_of(open_vault(vault, to_change=True), name):
        dataset.close()
        say(
            f"Closed {dataset.name} at {dataset.closed}: its copies can be made again, and no "
            "others released"
        )


def unregister(name: Name, vault: VaultOption = None) -> None:
    """Forget a dataset of which nothing was released yet."""
    opened = open_vault(vault, to_change=True)
    tables = tables_of(opened, name)
    if released := next((each for each in tables if each.holdings), None):
        tables = [released]  # is refused: none of linked tables goes then
    for each in tables:
        opened.unregister(each.name)
    say(f"Unregistered {name}; its table can be registered again, also with other choices")
