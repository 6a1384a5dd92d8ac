"""The owner's commands, except `release` and `again`."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cornerwave.cli._options import (
    Columns,
    JsonOption,
    SourceOption,
    VaultOption,
    by_column,
    columns,
    one,
    open_vault,
    pair,
)
from cornerwave.cli._screen import one_line, print_json, print_table, progress, say, tell
from cornerwave.errors import OutputError, SourceError, VaultError, spelled

if TYPE_CHECKING:
    from cornerwave.dataset import Dataset
    from cornerwave.outlook import Outlook
    from cornerwave.owner import Vault


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
    vault: VaultOption = None,
) -> None:
    """Create a vault: a secret key and an empty ledger."""
    from cornerwave.owner import KEY_FILE, Vault, key_place, vault_place

    made = Vault.create(
        vault_place(vault), key_file=key_place(), ledger=ledger, new_ledger=new_ledger
    )
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
        Path,
        typer.Argument(help="CSV (also .gz), Parquet, Arrow/Feather, or a directory of Parquet."),
    ],
    key: Annotated[
        Columns,
        typer.Option(metavar="COLUMN", help="Identifies the rows, so that their order is free."),
    ] = None,
    drop: Annotated[Columns, columns("Leave a column out")] = None,
    keep: Annotated[Columns, columns("Release a column unchanged")] = None,
    categorical: Annotated[
        Columns, columns("Treat a column of whole numbers or dates as a category")
    ] = None,
    together: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,...", help="Refresh categories as one (repeatable)."),
    ] = None,
    uniform: Annotated[
        Columns, columns("Draw all values of a category with equal probability")
    ] = None,
    hide_missing: Annotated[Columns, columns("Hide which values of a column are missing")] = None,
    transform: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=log1p|rank",
            help="Perturb a long-tailed column on another scale (repeatable).",
        ),
    ] = None,
    min_count: Annotated[
        int, typer.Option(metavar="K", help="Pool category values held by fewer than K rows.")
    ] = 0,
    shuffle: Annotated[
        bool, typer.Option("--shuffle", help="Shuffle the rows of copies, all in the same way.")
    ] = False,
    keep_order: Annotated[
        bool,
        typer.Option("--keep-order", help="Keep the order of the rows even if it tells a column."),
    ] = False,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml", help="Read all choices from a file; `inspect` drafts one."
        ),
    ] = None,
    vault: VaultOption = None,
) -> None:
    """Register a table before its first release."""
    from cornerwave.outlook import explained
    from cornerwave.table import Choices, order_of

    choices = Choices(
        key=one(key, "--key"),
        keep=tuple(keep or ()),
        drop=tuple(drop or ()),
        categorical=tuple(categorical or ()),
        uniform=tuple(uniform or ()),
        together=tuple(tuple(group.split(",")) for group in together or ()),
        hide_missing=tuple(hide_missing or ()),
        transform=by_column(
            (pair(text, "--transform COLUMN=log1p") for text in transform or ()), "--transform"
        ),
        min_count=min_count,
        order=order_of(shuffle=shuffle, keep_order=keep_order),
    )
    opened = open_vault(vault)
    with progress("Reading") as advance:
        dataset = opened.register_as(name, source, choices, schema=schema, progress=advance)
    for line in _registered(dataset):
        say(line)
    for line in explained(dataset.frozen):
        say(f"  {line}")


_ORDERS = {
    "shuffle": "order of the rows: shuffled, the same in every copy",
    "keep": "order of the rows: kept, whatever it tells",
}


def _registered(dataset: "Dataset") -> Iterator[str]:
    frozen = dataset.frozen
    yield f"Registered {dataset.name}: {frozen.rows:,} rows"
    for what, groups in (
        ("perturbed", [(name,) for name in frozen.schema.perturbed]),
        ("refreshed", frozen.schema.categories),
        ("released unchanged", [(name,) for name in frozen.schema.kept]),
        ("key, released unchanged", [(c.name,) for c in frozen.schema.shown if c.role == "key"]),
        ("missing values stay missing", [(name,) for name in frozen.missing]),
    ):
        if groups:
            yield f"  {what}: {', '.join('+'.join(map(spelled, group)) for group in groups)}"
    if frozen.schema.order is not None:
        yield f"  {_ORDERS[frozen.schema.order]}"
    for each in frozen.categories:
        if each.pooled:
            name = "+".join(map(spelled, each.columns))
            yield f"  pooled: rare values of {name}, {each.counts[-1]:,} rows in total"


def inspect(
    source: Annotated[Path, typer.Argument(help="A table, as for `register`.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Write the draft to a new file.")
    ] = None,
) -> None:
    """Look at a table and draft a schema file for `register`."""
    from cornerwave.inspection import draft
    from cornerwave.inspection import inspect as look
    from cornerwave.table import open_source

    text = draft(look(open_source(source)))
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise OutputError(f"{out} exists; choose another name") from None
    except OSError as error:
        raise OutputError(f"{out} cannot be written: {error.strerror}") from None
    say(f"Wrote {out}; edit it, then: cornerwave register NAME {source} --schema {out}")


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
        title = f"{dataset.name}: {dataset.frozen.rows:,} rows, registered {dataset.registered_at}"
        rows = [
            (
                held.recipient,
                f"{dataset.privacy_of(held.level):g}",
                f"{held.level.noise:g}",
                held.format,
                held.since,
            )
            for held in dataset.holdings
        ]
        print_table(title, ("recipient", "privacy", "noise", "format", "since"), rows)


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
    from cornerwave.table import read_metadata

    unknown = 0
    for path in copies:
        stated = read_metadata(path) or {}
        if not {"dataset", "noise"} <= stated.keys():
            raise SourceError(
                f"{path} has no metadata of Cornerwave, so its dataset and level are unknown"
            )
        id_, level = stated["dataset"], Level.of(noise=stated["noise"])
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
        "rows": dataset.frozen.rows,
        "columns": {column.name: column.role for column in dataset.frozen.schema.columns},
        "levels": [level.noise for level in dataset.levels],
        "holdings": [
            {
                "recipient": held.recipient,
                "noise": held.level.noise,
                "privacy": dataset.privacy_of(held.level),
                "round": sorted(held.finish.round),
                "clip": dict(held.finish.clip),
                "format": held.format,
                "since": held.since,
            }
            for held in dataset.holdings
        ],
    }


def levels(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    as_json: JsonOption = False,
    vault: VaultOption = None,
) -> None:
    """Show what each privacy hides and costs: which one to pick."""
    from cornerwave.outlook import explained, outlooks

    frozen = open_vault(vault).dataset(name).frozen
    found = list(outlooks(frozen))
    if as_json:
        print_json(
            [
                asdict(each)
                | {"mean_error": each.mean_error, "regression_error": each.regression_error}
                for each in found
            ]
        )
        return
    rows = [
        (
            f"{each.privacy:g}",
            f"{each.level.noise:.3g}",
            *(f"{share:.0%}{_unit(each, column)}" for column, share in each.hidden.items()),
            f"{each.mean_error:.2g}",
            f"{each.regression_error:.2g}",
        )
        for each in found
    ]
    columns_ = [spelled(column) for column in frozen.hidden.shares]
    header = ("privacy", "noise", *columns_, "mean", "slope")
    print_table(f"{name}: hidden of each column, and what it costs", header, rows)
    typer.echo(
        "numbers: share hidden, +- half a 90 % interval; categories: share, best guess right"
    )
    typer.echo("mean, slope: standard errors as multiples of the original's")
    for line in explained(frozen):
        typer.echo(line)


def _unit(each: "Outlook", column: str) -> str:
    """Return what a share means: how far a value is hidden, or how often a guess is right."""
    if column in each.within:
        return f" +-{each.within[column]:.3g}"
    return f" {each.right[column]:.0%} right" if column in each.right else ""


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
                "best_guess_right": {name: asdict(g) for name, g in found.guesses.items()},
            }
        )
        return
    print_table(
        f"{name}: {', '.join(sorted({recipient for recipient, _ in found.members}))} together",
        ("", "share of variance still hidden"),
        [
            (f"best member alone ({found.best_member})", f"{found.best_privacy:.6g}"),
            ("all together", f"{found.joint_privacy:.6g}"),
            ("all together, with independent noise", f"{found.independent_privacy:.6g}"),
        ],
    )
    if found.guesses:
        print_table(
            "How often the best guess of a category is right, and what stays hidden",
            ("", "no copy", "best member", "all together", "independent", "hidden", "at least"),
            [
                (
                    name,
                    *(f"{share:.1%}" for share in (g.blind, g.best, g.joint, g.independent)),
                    *(f"{share:.4f}" for share in (g.hidden, g.least_hidden)),
                )
                for name, g in found.guesses.items()
            ],
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
    from cornerwave.pages import write_report

    dataset = open_vault(vault).dataset(name, source=source)
    with progress("Reporting", dataset.frozen.rows) as advance:
        path = write_report(dataset, out, external=external, force=force, progress=advance)
    say(f"Wrote {path}: {'for others' if external else 'for the owner only'}")
