"""What the owner asks of a vault: levels, ledger, coalition, report."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cornerwave.cli._options import AgainstOption, JsonOption, SourceOption, VaultOption, open_vault
from cornerwave.cli._screen import one_line, print_json, print_table, progress, say, tell
from cornerwave.errors import SourceError, VaultError, spelled

if TYPE_CHECKING:
    from cornerwave.editions import Edition
    from cornerwave.outlook import Outlook
    from cornerwave.privacy import Coalition
    from cornerwave.sources import Source
    from cornerwave.vault import Dataset, Vault


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
        _check_heads(opened, _lines(since))
        return
    datasets = opened.datasets() if name is None else [opened.dataset(name)]
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
        rows = [
            (
                held.recipient,
                f"{dataset.privacy_of(held.spec.level):g}",
                f"{held.spec.level.noise:g}",
                str(held.spec.format),
                held.spec.rows,
                held.since,
            )
            for held in dataset.holdings
        ]
        if len(dataset.editions) > 1:
            _print_editions(dataset)
        print_table(title, ("recipient", "privacy", "noise", "format", "edition", "since"), rows)


def _print_editions(dataset: "Dataset") -> None:
    """Print what each edition brought."""
    from cornerwave.editions import HEADINGS

    print_table(f"{dataset.name}: editions", HEADINGS, [each.in_words for each in dataset.editions])


def _check_heads(vault: "Vault", lines: list[str]) -> None:
    """Check heads as `--head` prints them, with or without the names of their datasets."""
    names = {head.rsplit(":", 2)[0]: name for name, head in vault.heads().items()}
    for line in lines:
        head, tab, name = line.partition("\t")
        vault.check_since({name if tab else names.get(head.rsplit(":", 2)[0], head): head})
    say(f"{len(lines)} {'head is' if len(lines) == 1 else 'heads are'} still in the ledger")


def _lines(given: list[str]) -> list[str]:
    """Return the lines of the given heads and files of heads."""
    lines: list[str] = []
    for text in given:
        try:
            if ":" in text and not Path(text).exists():
                lines.append(text)
                continue
            found = Path(text).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            raise VaultError(
                f"{text}: neither a head (ID:NUMBER:MAC) nor a file of heads"
            ) from None
        if not any(line.strip() for line in found):
            raise VaultError(f"{text} holds no heads, so nothing was checked")
        lines += found
    return [line for line in lines if line.strip()]


def _check_copies(copies: list[Path], datasets: "list[Dataset]") -> None:
    """Report whether the ledger knows each copy's dataset and level. Exits 1 if not."""
    from cornerwave.levels import Level
    from cornerwave.outputs import read_metadata

    unknown = 0
    for path in copies:
        stated = read_metadata(path)
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


def _dataset_json(dataset: "Dataset") -> dict[str, Any]:
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
                "round": sorted(held.spec.finish.round),
                "clip": dict(held.spec.finish.clip),
                "types": dict(held.spec.finish.types),
                "names": dict(held.spec.finish.names),
                "format": held.spec.format,
                "dictionary": held.spec.dictionary,
                "edition": held.spec.edition,
                "batch": held.spec.batch,
                "since": held.since,
            }
            for held in dataset.holdings
        ],
    }


def _edition_json(edition: "Edition") -> dict[str, Any]:
    return {
        "number": edition.number,
        "kind": edition.kind,
        "at": edition.at,
        "source": edition.source,
        "rows": edition.rows,
        "rows_brought": edition.rows_brought,
        "drift": asdict(edition.drift) if edition.drift else {},
        "changes": edition.changes and asdict(edition.changes),
    }


def levels(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page with pictures too.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    against: AgainstOption = "linear",
    as_json: JsonOption = False,
    source: SourceOption = None,
    vault: VaultOption = None,
) -> None:
    """Show what each privacy hides and costs: which one to pick."""
    from cornerwave.outlook import explained, outlooks, recognised
    from cornerwave.outputs import check_place, write_text
    from cornerwave.privacy import OF_HISTORY

    if out is not None:
        from cornerwave.documents import is_page, levels_page, levels_title

        check_place(out, force=force or is_page(out, levels_title(name)))
    dataset = open_vault(vault).dataset(name, source=source or None)
    frozen = replace(dataset.frozen, rows=dataset.rows)
    found = outlooks(frozen, _source_if_there(dataset), against=against)
    sentences = [*explained(dataset.frozen), *recognised(found)]
    changing = [dataset.changing(each.level) for each in found]
    if out is not None:
        page = levels_page(name, found, sentences, dataset.editions, changing)
        write_text(out, page, force=force)
        say(f"Wrote {out}")
    if as_json:
        print_json(
            [
                asdict(each)
                | {
                    "mean_error": each.mean_error,
                    "regression_error": each.regression_error,
                    "edition": len(dataset.editions),
                    "changing_rows": left,
                }
                for each, left in zip(found, changing, strict=True)
            ]
        )
        return
    _print_levels(name, found)
    if len(dataset.editions) > 1:
        _print_editions(dataset)
    if any(changing):
        print_table(
            "What the numbers of all editions hide of rows that changed every time",
            ("privacy", *OF_HISTORY.values()),
            [
                (f"{each.privacy:g}", *(f"{left[name]:.3f}" for name in OF_HISTORY))
                for each, left in zip(found, changing, strict=True)
            ],
        )
    for line in sentences:
        tell(line)


def _source_if_there(dataset: "Dataset") -> "Source | None":
    try:
        return dataset.source
    except SourceError as error:
        say(f"records that stand out are not counted: {error}")
        return None


SHOWN_ON_SCREEN = (0.1, 0.3, 0.5, 0.7, 0.9)


def _print_levels(name: str, found: "Sequence[Outlook]") -> None:
    print_table(
        f"{name}: what a recipient pays, and which records stand out",
        ("privacy", "noise", "mean", "slope", "stand out"),
        [each.costs for each in found],
    )
    typer.echo("mean, slope: standard errors as multiples of the original's")
    shown = [each for each in found if each.privacy in SHOWN_ON_SCREEN]
    print_table(
        "What stays hidden of each column, by privacy",
        ("column", *(f"{each.privacy:g}" for each in shown)),
        [
            (
                spelled(column),
                *(f"{each.hidden[column]:.0%}, {each.said(column)}" for each in shown),
            )
            for column in (found[0].hidden if found else ())
        ],
    )
    typer.echo(
        "share hidden; numbers: half a 90 % interval; categories: how often a guess is right"
    )
    if any(each.bayes for each in shown):
        _print_joint(shown)


def _print_joint(shown: "Sequence[Outlook]") -> None:
    """Print what the joint adversary left."""
    print_table(
        "What a joint adversary who knows how rows are distributed left of each column",
        ("column", *(f"{each.privacy:g}" for each in shown)),
        [
            (spelled(column), *(f"{each.bayes[column]:.0%}" for each in shown))
            for column in shown[0].bayes
        ],
    )
    typer.echo("measured at registration, from the whole copy; no bound: others may recover more")


def coalition(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    recipients: Annotated[list[str], typer.Argument(help="The recipients who pool their copies.")],
    as_json: JsonOption = False,
    vault: VaultOption = None,
) -> None:
    """Show what recipients can recover together."""
    found = open_vault(vault).dataset(name).coalition(recipients)
    if as_json:
        print_json(
            {
                "recipients": sorted({recipient for recipient, _ in found.members}),
                "joint_privacy": found.joint_privacy,
                "best_member": found.best_member,
                "best_privacy": found.best_privacy,
                "gain": found.gain,
                "independent_privacy": found.independent_privacy,
                "independent_gain": found.independent_gain,
                "changing_rows": dict(found.changing),
                "unbounded": found.unbounded,
                "best_guess_right": {name: asdict(g) for name, g in found.guesses.items()},
            }
        )
        return
    best = "best copy alone" if found.unbounded else "best member alone"
    print_table(
        f"{name}: {', '.join(sorted({recipient for recipient, _ in found.members}))} together",
        ("", "share of variance still hidden"),
        [
            (f"{best} ({found.best_member})", f"{found.best_privacy:.6g}"),
            ("all together", _or_none(found.joint_privacy, ".6g")),
            ("all together, with independent noise", _or_none(found.independent_privacy, ".6g")),
            *_of_changing(found),
        ],
    )
    if found.guesses:
        print_table(
            "How often the best guess of a category is right, and what stays hidden",
            ("", "no copy", "best member", "all together", "independent", "hidden", "at least"),
            [
                (
                    name,
                    *(_or_none(share, ".1%") for share in (g.blind, g.best, g.joint)),
                    f"{g.independent:.1%}",
                    *(_or_none(share, ".4f") for share in (g.hidden, g.least_hidden)),
                )
                for name, g in found.guesses.items()
            ],
        )
    for line in _of_moving(found):
        tell(line)


def _or_none(share: float | None, how: str) -> str:
    return "not bounded" if share is None else format(share, how)


def _of_moving(found: "Coalition") -> "Iterator[str]":
    """Say what is not bounded of categories that changed between editions."""
    for name, each in found.guesses.items():
        if each.looks is not None:
            yield (
                f"{spelled(name)} changed between the editions held, and each new value of a row "
                f"is a fresh look: nothing bounds what is revealed of such rows. Where the old "
                f"value determines the new one, {each.looks.number} looks are guessed right "
                f"{each.looks.right:.1%} and hide {each.looks.hidden:.4f}; less where the change "
                "itself tells the value"
            )
    if found.unbounded:
        yield (
            "Nor is any other column of such rows bounded, as far as "
            f"{', '.join(map(spelled, found.unbounded))} reveals it. Of rows that did not change, "
            "all together leave what the best copy leaves"
        )


def _of_changing(found: "Coalition") -> list[tuple[str, str]]:
    """Return what stays hidden of rows that changed, if there are editions that changed rows."""
    from cornerwave.privacy import OF_HISTORY

    return [
        (f"of a row that changed: {OF_HISTORY[name]}, from numbers", f"{share:.4g}")
        for name, share in found.changing.items()
    ]


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
    from cornerwave.documents import write_report

    dataset = open_vault(vault).dataset(name, source=source or None)
    with progress("Reporting", dataset.rows) as advance:
        path = write_report(dataset, out, external=external, force=force, progress=advance)
    say(f"Wrote {path}: {'for others' if external else 'for the owner only'}")
