"""What the owner asks of a vault: levels, ledger, coalition, report."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cornerwave.cli._options import (
    AgainstOption,
    DetailsOption,
    JsonOption,
    SourceOption,
    VaultOption,
    named,
    open_vault,
    tables_of,
)
from cornerwave.cli._screen import print_json, print_table, progress, say, show, tell
from cornerwave.document import DataTable, Document, Paragraph, Section, of_tables, one_line
from cornerwave.errors import LevelError, SourceError, VaultError
from cornerwave.kinds import JsonObject

if TYPE_CHECKING:
    from cornerwave.editions import Edition
    from cornerwave.outlook import Outlook, Recommendation
    from cornerwave.sources import Source
    from cornerwave.spec import CopyMetadata
    from cornerwave.vault import Dataset, LinkedDataset


def ledger(
    name: Annotated[str | None, typer.Argument(help="One dataset; default: all.")] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(metavar="COPY", help="Check that the ledger knows a copy (repeatable)."),
    ] = None,
    head: Annotated[
        bool, typer.Option("--head", help="Print the head of each chain, to keep elsewhere.")
    ] = False,
    since: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HEAD|FILE", help="Check that the ledger still has these heads (repeatable)."
        ),
    ] = None,
    as_json: JsonOption = False,
    vault: VaultOption = None,
) -> None:
    """Show who holds which copy since when; check the ledger against copies and heads."""
    opened = open_vault(vault)
    if head:
        for name_, text in opened.heads().items():
            typer.echo(f"{text}\t{one_line(name_)}")
        return
    if since:
        lines = _lines(since)
        opened.check_heads(lines)
        say(f"{len(lines)} {'head is' if len(lines) == 1 else 'heads are'} still in the ledger")
        return
    datasets = opened.datasets() if name is None else tables_of(opened, name)
    if against:
        _check_copies(against, datasets)
        return
    if as_json:
        print_json([_dataset_json(dataset) for dataset in datasets])
        return
    if not datasets:
        say("The vault is empty. Register a table: cornerwave register NAME SOURCE")
    for dataset in datasets:
        title = f"{dataset.name}: {dataset.rows:,} rows, registered {dataset.registered_at}"
        title += f", edition {len(dataset.editions)}" if len(dataset.editions) > 1 else ""
        title += f", closed {dataset.closed}" if dataset.closed else ""
        stated = any(held.terms for held in dataset.holdings)
        rows = [
            (
                held.recipient,
                f"{dataset.privacy_of(held.spec.level):g}",
                f"{held.spec.level.noise:g}",
                str(held.spec.format),
                held.spec.rows,
                held.since,
                *[held.terms.in_words] * stated,
            )
            for held in dataset.holdings
        ]
        if len(dataset.editions) > 1:
            from cornerwave.editions import editions_table

            table = editions_table(dataset.editions)
            print_table(f"{dataset.name}: editions", table.header, table.rows)
        header = ("recipient", "privacy", "noise", "format", "edition", "since")
        print_table(title, (*header, *["terms"] * stated), rows)


def _lines(given: list[str]) -> list[str]:
    """Return the lines of the given heads and files of heads."""
    lines: list[str] = []
    for text in given:
        try:
            if ":" in text and not Path(text).exists():
                lines.append(text)
                continue
            heads = Path(text).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            raise VaultError(
                f"{text}: neither a head (ID:NUMBER:MAC) nor a file of heads"
            ) from None
        if not any(line.strip() for line in heads):
            raise VaultError(f"{text} holds no heads, so nothing was checked")
        lines += heads
    return [line for line in lines if line.strip()]


def _check_copies(copies: list[Path], datasets: "list[Dataset]") -> None:
    """Report whether the ledger knows each copy's dataset and level. Exits 1 if not."""
    from cornerwave.levels import Level

    unknown = 0
    for path, stated in _stated_by(copies):
        if stated is None or stated.dataset is None or stated.noise is None:
            raise SourceError(
                f"{path} has no metadata of Cornerwave, so its dataset and level are unknown"
            )
        id_, level = stated.dataset, Level.of(noise=stated.noise)
        if known := [d.name for d in datasets if d.knows(id_, level.noise)]:
            tell(f"{path}: known, {known[0]} at privacy {level.privacy:g}")
        else:
            unknown += 1
            tell(
                f"{path}: NOT known, dataset {id_} at privacy {level.privacy:g}; if this "
                "vault made it, the ledger has lost lines"
            )
    if unknown:
        raise typer.Exit(1)


def _stated_by(copies: list[Path]) -> "Iterator[tuple[Path, CopyMetadata | None]]":
    """Yield what copies state about themselves; those of linked tables table by table."""
    from cornerwave.outputs import is_linked_copy, linked_files, read_metadata

    for path in copies:
        if is_linked_copy(path):
            yield from ((path, each.stated) for each in linked_files(path).values())
        else:
            yield path, read_metadata(path)


def _dataset_json(dataset: "Dataset") -> JsonObject:
    return {
        "name": dataset.name,
        "id": dataset.id,
        "registered_at": dataset.registered_at,
        "closed_at": dataset.closed or None,
        "rows": dataset.rows,
        "editions": [_edition_json(edition) for edition in dataset.editions],
        "columns": {column.name: column.role for column in dataset.frozen.schema.columns},
        "levels": [level.noise for level in dataset.levels],
        "holdings": [
            {
                "recipient": held.recipient,
                "noise": held.spec.level.noise,
                "privacy": dataset.privacy_of(held.spec.level),
                **{k: v for k, v in held.spec.to_json().items() if k not in ("level", "mark")},
                "since": held.since,
                "terms": held.terms.to_json(),
            }
            for held in dataset.holdings
        ],
    }


def _edition_json(edition: "Edition") -> JsonObject:
    return {
        "number": edition.number,
        "kind": edition.kind,
        "at": edition.at,
        "source": edition.source,
        "rows": edition.rows,
        "rows_brought": edition.rows_brought,
        "drift": asdict(edition.drift) if edition.drift else {},
        "changes": asdict(edition.changes) if edition.changes else None,
    }


def levels(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page with pictures too.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    uses: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="internal|partner|public",
            help="Recommend a privacy for this use alone (repeatable); default: for each.",
        ),
    ] = None,
    against: AgainstOption = "linear",
    details: DetailsOption = False,
    as_json: JsonOption = False,
    source: SourceOption = None,
    vault: VaultOption = None,
) -> None:
    """Recommend a privacy for a use, and show what each hides and costs."""
    from cornerwave.outlook import checked_uses, levels_title

    asked = checked_uses(uses or ())
    if out is not None:
        from cornerwave.documents import is_page, page
        from cornerwave.outputs import check_place, write_text

        check_place(out, force=force or is_page(out, levels_title(name)))
    opened = open_vault(vault)
    looks = {each.name: _look(each, asked, against) for each in tables_of(opened, name, source)}
    if name in looks:
        document = looks[name].document()
    else:
        document = _levels_of_all(opened.linked(name), looks, against)
    if out is not None:
        write_text(out, page(document), force=force)
        say(f"Wrote {out}")
    show(document, as_json=as_json, details=details)


@dataclass(frozen=True)
class _Look:
    """What a table's privacies hide and cost, and which one is recommended for each use."""

    dataset: "Dataset"
    known: "Sequence[Outlook]"
    recommended: "Sequence[Recommendation]"

    def document(self) -> "Document":
        """Return it as a document."""
        from cornerwave.outlook import advice, levels_document, recognised

        what = advice(self.dataset.frozen)
        return levels_document(
            self.dataset.name,
            self.known,
            advice=replace(what, sentences=(*what.sentences, *recognised(self.known))),
            recommended=self.recommended,
            editions=self.dataset.editions,
            changing=[self.dataset.changing(each.level) for each in self.known],
        )


def _look(dataset: "Dataset", uses: Sequence[str], against: str) -> _Look:
    """Look at all privacies of a dataset, and compare them with the limits of uses."""
    from cornerwave.outlook import SHOWN, Fitness

    frozen, source = replace(dataset.frozen, rows=dataset.rows), _source_if_there(dataset)
    fitness = Fitness.of(frozen, source, against=against)
    known = [each for each in fitness.known if each.privacy in SHOWN]
    return _Look(dataset, known, fitness.recommended(uses))


def _levels_of_all(linked: "LinkedDataset", tables: dict[str, _Look], against: str) -> "Document":
    """Return what each privacy of linked tables hides: all of them are released at one level."""
    from cornerwave.levels import Privacy
    from cornerwave.outlook import (
        PROMISE,
        SHOWN,
        levels_title,
        recommend_for_all,
        recommendations_section,
    )

    rows = []
    for privacy in SHOWN:
        try:
            level = linked.level_of(Privacy(privacy, against))
        except LevelError:  # some table cannot hide so much
            continue
        shares = [each.privacy_of(level) for each in linked.tables.values()]
        rows.append([f"{each:g}" for each in (privacy, level.noise, min(shares), *shares)])
    header = ("privacy", "noise", "least privacy", *linked.tables)
    everything = Section(
        "All tables",
        [
            Paragraph("All tables are released at one level: that of the table that needs most."),
            DataTable(header, rows),
        ],
    )
    by_use = zip(*(each.recommended for each in tables.values()), strict=True)
    names = list(tables)
    recommended = [recommend_for_all(dict(zip(names, each, strict=True))) for each in by_use]
    first = [recommendations_section(recommended), everything]
    documents = {table: each.document() for table, each in tables.items()}
    return of_tables(levels_title(linked.name), PROMISE, documents, first)


def _source_if_there(dataset: "Dataset") -> "Source | None":
    try:
        return dataset.source
    except SourceError as error:
        say(f"records that stand out are not counted: {error}")
        return None


def coalition(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    recipients: Annotated[list[str], typer.Argument(help="The recipients who pool their copies.")],
    as_json: JsonOption = False,
    vault: VaultOption = None,
) -> None:
    """Show what recipients can recover together."""
    documents = {
        each.name: _coalition_of(each, recipients) for each in tables_of(open_vault(vault), name)
    }
    joint = " + ".join(recipients)
    verdict = f"What {joint} recover of each table, all tables of a person together."
    show(documents.get(name) or of_tables(f"{name}: {joint}", verdict, documents), as_json=as_json)


def _coalition_of(dataset: "Dataset", recipients: list[str]) -> Document:
    """Return what recipients can recover of a table, and what its rows tell them."""
    from cornerwave.privacy import coalition_document
    from cornerwave.risks import risks_data, risks_section

    together = dataset.coalition(recipients)
    document = coalition_document(dataset.name, together)
    # all figures are those of the best member: from the least noisy copy the others follow
    best, level = min(together.members, key=lambda member: member[1])
    risks = dataset.risks_at(level)
    section = risks_section("best copy", {best: (dataset.privacy_of(level), risks)})
    return replace(
        document,
        sections=(*document.sections, section),
        data={**document.data, "risks": risks_data(risks)},
    )


def report(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="Where to write the page.")],
    external: Annotated[
        bool,
        typer.Option("--external", help="Write a page for others, from the copies alone."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    source: SourceOption = None,
    vault: VaultOption = None,
) -> None:
    """Write a web page about a dataset: who holds what, what it reveals, what it costs."""
    from cornerwave.report import write_report

    opened = open_vault(vault)
    rows = sum(each.rows for each in tables_of(opened, name, source))
    with progress("Reporting", rows) as advance:
        path = write_report(
            named(opened, name, source), out, external=external, force=force, progress=advance
        )
    say(f"Wrote {path}: {'for others' if external else 'for the owner only'}")
