"""The command line. It imports what a command needs when the command runs.

Exit codes: 0 done; 1 an audit found something; 2 refused, with one line that says why;
3 a fault of Cornerwave itself, with the place but never the values.
"""

import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cornerwave.errors import (
    ColumnError,
    CornerwaveError,
    CornerwaveWarning,
    ExtraMissing,
    Fault,
    LevelError,
    OutputError,
)
from cornerwave.version import __version__

if TYPE_CHECKING:
    from cornerwave.levels import Level
    from cornerwave.owner import Dataset, Vault

app = typer.Typer(
    name="cornerwave",
    help="Release one table to recipients you trust differently.",
    epilog="Colluding recipients learn no more than the best single copy among them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich help takes longer to import than to read
)

FOUND, REFUSED, FAULT = 1, 2, 3


class Method(StrEnum):
    """How `attack` estimates the original."""

    llse = "llse"
    bayes = "bayes"
    learned = "learned"
    spectral = "spectral"
    pca = "pca"


Columns = list[str] | None


def _columns(what: str) -> Any:
    """Return an option that names columns, repeatable."""
    return typer.Option(metavar="COLUMN", help=f"{what} (repeatable).")


VaultOption = Annotated[
    Path | None,
    typer.Option(
        "--vault",
        metavar="DIR",
        help="The vault's directory; else CORNERWAVE_VAULT, else .cornerwave here.",
    ),
]


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def main() -> None:
    """Run a command; turn refusals into one line and faults into their place."""
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", CornerwaveWarning)
    try:
        app()
    except Fault as fault:
        _tell_places(str(fault), fault)
        sys.exit(FAULT)
    except CornerwaveError as error:
        _say(f"cornerwave: {error}")
        sys.exit(REFUSED)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        # A message or a local variable may hold a cell: name the kind and the place only.
        _tell_places(f"internal fault ({type(error).__name__})", error)
        sys.exit(FAULT)


def _tell_places(what: str, error: Exception) -> None:
    _say(f"cornerwave: {what}; please report these places:")
    for frame in traceback.extract_tb(error.__traceback__):
        _say(f"  {Path(frame.filename).name}:{frame.lineno} {frame.name}")


@app.command()
def init(vault: VaultOption = None) -> None:
    """Make a vault here: a secret key and an empty ledger."""
    from cornerwave.owner import KEY_FILE, Vault, key_place, vault_place

    made = Vault.create(vault_place(vault), key_file=key_place())
    _say(f"Made a vault in {made.path}")
    _say(
        f"Its key is {key_place() or made.path / KEY_FILE}. Keep a copy in a safe place: without "
        "it no copy can ever be made again, and whoever has it can strip the noise."
    )


@app.command()
def register(
    name: Annotated[str, typer.Argument(help="What the dataset will be called.")],
    source: Annotated[
        Path,
        typer.Argument(help="CSV (also .gz), Parquet, Arrow/Feather, or a directory of Parquet."),
    ],
    key: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Tells the rows apart, so that their order is free."),
    ] = None,
    drop: Annotated[Columns, _columns("Leave a column out")] = None,
    keep: Annotated[Columns, _columns("Release a column as it is")] = None,
    categorical: Annotated[
        Columns, _columns("Treat a column of whole numbers or dates as a category")
    ] = None,
    together: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,...", help="Refresh categories as one draw (repeatable)."),
    ] = None,
    uniform: Annotated[
        Columns, _columns("Refresh a category evenly, not from its own frequencies")
    ] = None,
    hide_missing: Annotated[Columns, _columns("Hide which values of a column are missing")] = None,
    transform: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=log1p|rank",
            help="Perturb on a scale that draws the tail in (repeatable).",
        ),
    ] = None,
    min_count: Annotated[
        int, typer.Option(metavar="K", help="Pool category values held by fewer than K rows.")
    ] = 0,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="All choices in a file; `inspect` drafts one."),
    ] = None,
    vault: VaultOption = None,
) -> None:
    """Register a table, once, before its first release."""
    from cornerwave.table.schema import Choices

    choices = Choices(
        key=key,
        keep=tuple(keep or ()),
        drop=tuple(drop or ()),
        categorical=tuple(categorical or ()),
        uniform=tuple(uniform or ()),
        together=tuple(tuple(group.split(",")) for group in together or ()),
        hide_missing=tuple(hide_missing or ()),
        transform=dict(_pair(text, "--transform COLUMN=log1p") for text in transform or ()),
        min_count=min_count,
    )
    opened = _open(vault)
    with _progress("Reading") as progress:
        dataset = opened.register_as(name, source, choices, schema=schema, progress=progress)
    for line in _registered(dataset):
        _say(line)


def _registered(dataset: "Dataset") -> Iterator[str]:
    frozen = dataset.frozen
    yield f"Registered {dataset.name}: {frozen.rows:,} rows"
    for what, names in (
        ("perturbed", frozen.schema.perturbed),
        ("refreshed", ["+".join(group) for group in frozen.schema.categories]),
        ("kept as it is", frozen.schema.kept),
        ("key, released as it is", [c.name for c in frozen.schema.shown if c.role == "key"]),
        ("missing values stay missing", frozen.missing),
    ):
        if names:
            shown = [name if name.isprintable() else repr(name) for name in names]
            yield f"  {what}: {', '.join(shown)}"


@app.command()
def inspect(
    source: Annotated[Path, typer.Argument(help="A table, as for `register`.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Write the draft here.")
    ] = None,
) -> None:
    """Look at a table, and draft a schema file for `register`."""
    from cornerwave.inspection import draft
    from cornerwave.inspection import inspect as look
    from cornerwave.table.read import open_source

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
    _say(f"Wrote {out}; edit it, then: cornerwave register NAME {source} --schema {out}")


@app.command()
def release(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    to: Annotated[
        list[str] | None, typer.Option(metavar="RECIPIENT", help="Who gets the copy (repeatable).")
    ] = None,
    privacy: Annotated[
        list[float] | None,
        typer.Option(metavar="P", help="Share of variance to hide, between 0 and 1; one per --to."),
    ] = None,
    noise: Annotated[
        list[float] | None,
        typer.Option(metavar="V", help="Noise as a multiple of the table's own covariance."),
    ] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Where to; ends in .csv, .csv.gz, .parquet or .arrow; one per --to.",
        ),
    ] = None,
    levels: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="A batch: [[copy]] tables with to, privacy, out."),
    ] = None,
    round_: Annotated[
        list[str] | None,
        typer.Option("--round", metavar="COLUMN", help="Give a column its type back (repeatable)."),
    ] = None,
    clip: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=LO:HI", help="Keep a column within bounds (repeatable)."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Where the registered table lies now, if it was moved."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads to use; all by default.")
    ] = None,
    vault: VaultOption = None,
) -> None:
    """Release copies of a registered table to recipients."""
    from cornerwave.owner import write_all
    from cornerwave.table.finish import Finish

    finish = Finish(frozenset(round_ or ()), dict(_bounds(text) for text in clip or ()))
    requests = _requests(name, to, privacy, noise, out, levels)
    dataset = _open(vault).dataset(name, source=source)
    releases = dataset.release_many(
        [(recipient, level) for recipient, level, _ in requests], finish=finish
    )
    copies = [(made, path) for made, (_, _, path) in zip(releases, requests, strict=True)]
    with _progress("Releasing", dataset.frozen.rows) as progress:
        paths = write_all(copies, force=force, threads=threads, progress=progress)
    for made, path in zip(releases, paths, strict=True):
        _say(f"{path}: for {made.recipient}, privacy {made.level.privacy:g}")


@app.command()
def ledger(
    name: Annotated[str | None, typer.Argument(help="One dataset; all by default.")] = None,
    as_json: JsonOption = False,
    vault: VaultOption = None,
) -> None:
    """Show who holds which level since when."""
    opened = _open(vault)
    datasets = opened.datasets() if name is None else [opened.dataset(name)]
    if as_json:
        _print_json([_dataset_json(dataset) for dataset in datasets])
        return
    if not datasets:
        _say("The vault is empty. Register a table: cornerwave register NAME SOURCE")
    for dataset in datasets:
        frozen = dataset.frozen
        title = f"{dataset.name}: {frozen.rows:,} rows, registered {dataset.registered_at}"
        rows = [
            (
                holding.recipient,
                f"{holding.level.privacy:g}",
                f"{holding.level.noise:g}",
                holding.since,
            )
            for holding in dataset.holdings
        ]
        _print_table(title, ("recipient", "privacy", "noise", "since"), rows)


@app.command()
def coalition(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    recipients: Annotated[list[str], typer.Argument(help="Who pool their copies.")],
    as_json: JsonOption = False,
    vault: VaultOption = None,
) -> None:
    """Say what recipients can recover together."""
    found = _open(vault).dataset(name).coalition(recipients)
    if as_json:
        _print_json(
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
    _print_table(
        f"{name}: {', '.join(sorted({recipient for recipient, _ in found.members}))} together",
        ("", "share of variance still hidden"),
        [
            (f"best member alone ({found.best_member})", f"{found.best_privacy:.6g}"),
            ("all together", f"{found.joint_privacy:.6g}"),
            ("all together, had the noise been independent", f"{found.independent_privacy:.6g}"),
        ],
    )
    if found.guesses:
        _print_table(
            "how often the best guess of a category is right",
            ("", "without a copy", "best member", "all together", "had they been independent"),
            [
                (name, f"{g.blind:.1%}", f"{g.best:.1%}", f"{g.joint:.1%}", f"{g.independent:.1%}")
                for name, g in found.guesses.items()
            ],
        )


@app.command()
def report(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="Where to write the page.")],
    external: Annotated[
        bool,
        typer.Option("--external", help="A page for others, drawn from the copies alone."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    source: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Where the registered table lies now, if it was moved."),
    ] = None,
    vault: VaultOption = None,
) -> None:
    """Write a web page about a dataset: who holds what, and what it tells and costs."""
    from cornerwave.report import write_report

    dataset = _open(vault).dataset(name, source=source)
    with _progress("Reporting", dataset.frozen.rows) as progress:
        path = write_report(dataset, out, external=external, force=force, progress=progress)
    _say(f"{path}: {'for others' if external else 'for the owner alone'}")


@app.command()
def audit(
    source: Annotated[Path, typer.Argument(help="The original table.")],
    copies: Annotated[list[Path], typer.Argument(help="Copies of it, made by any tool.")],
    key: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Aligns the rows; by default their position does."),
    ] = None,
    as_json: JsonOption = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as one web page too.")
    ] = None,
) -> None:
    """Attack copies of a table, check their noise, and say what a coalition gains."""
    from cornerwave.audit.fields import as_json as to_json
    from cornerwave.audit.measured import audit as run
    from cornerwave.audit.report import findings, sections, verdict

    with _progress("Auditing") as progress:
        found = run(source, copies, key=key, progress=progress)
    if html is not None:
        from cornerwave.audit.page import render

        _write_text(html, render(found))
    if as_json:
        _print_json(to_json(found))
    else:
        for section in sections(found):
            _print_table(*section)
        for line in [*findings(found), verdict(found)]:
            typer.echo(line)
    if not found.clean:
        raise typer.Exit(FOUND)


@app.command()
def attack(
    copies: Annotated[list[Path], typer.Argument(help="The copies that the coalition holds.")],
    noise: Annotated[
        list[float] | None,
        typer.Option(metavar="V", help="Noise of each copy, in order; else from their metadata."),
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(metavar="SOURCE", help="The original, to print the errors.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Aligns the rows; by default their position does."),
    ] = None,
    method: Annotated[
        Method, typer.Option(help="bayes and learned take known rows from --truth.")
    ] = Method.llse,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the estimate: .csv, .csv.gz, .parquet, .arrow."),
    ] = None,
) -> None:
    """Play the adversary: estimate the original from copies."""
    from cornerwave.adversary import attack as run

    with _progress("Attacking") as progress:
        found = run(
            copies, noise=noise, truth=truth, key=key, method=method, out=out, progress=progress
        )
    weights = [
        (name, f"{v:.6g}", "–" if weight is None else f"{weight:.4f}")
        for name, v, weight in zip(found.copies, found.noise, found.weights, strict=True)
    ]
    _print_table(f"{method.value}, {found.rows:,} rows", ("copy", "noise", "weight"), weights)
    if found.together is not None and found.alone is not None:
        errors = [
            (name, f"{alone:.4f}", f"{together:.4f}")
            for name, alone, together in zip(
                found.columns, found.alone, found.together, strict=True
            )
        ]
        title = "Error, share of variance"
        _print_table(title, ("column", f"{found.best} alone", "all together"), errors)
    if out is not None:
        _say(f"{out}: the estimate of {', '.join(found.columns)}")


@app.command()
def demo(
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Work here, and leave everything there.")
    ] = None,
) -> None:
    """Release a real table at four levels, then collude."""
    from cornerwave.demo import run

    run(keep)


@app.command()
def reproduce(
    part: Annotated[
        str,
        typer.Argument(
            help="all, or one of table2, fig1, fig2, fig3, fig4, fig5, examples, theorems, beyond."
        ),
    ] = "all",
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where figures, numbers and index.html go.")
    ] = Path("reproduction"),
    seed: Annotated[
        int, typer.Option(min=0, help="Draws the same noise again; for experiments only.")
    ] = 1,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own table, in place of ours.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="The columns of --data, numbers all.")
    ] = None,
) -> None:
    """Make the paper's evaluation again, with a verdict for each statement."""
    experiments = _experiments()
    parts = experiments.chosen(part)
    setting = _setting(data, columns, seed)
    with _progress("Reproducing", experiments.duration(parts)) as progress:
        results = experiments.reproduce(parts, setting, out, progress=progress)
    statements = [statement for result in results.values() for statement in result.statements]
    for statement in statements:
        if statement.verdict.value == "does not hold":
            _say(f"does not hold: {statement.claim} ({statement.measured})")
    _say(f"{len(statements)} statements judged: see {out / 'index.html'}")


def _experiments() -> Any:
    """Return the module that runs experiments; raise ExtraMissing without its packages."""
    try:
        from cornerwave.experiments import run
    except ModuleNotFoundError as error:
        raise ExtraMissing(
            f"reproduce needs {error.name}, which is not installed: "
            "pip install 'cornerwave[experiments]'"
        ) from None
    return run


def _setting(data: Path | None, columns: str | None, seed: int) -> Any:
    from cornerwave.experiments.setting import Setting
    from cornerwave.experiments.tables import people, table_of

    if (data is None) != (columns is None):
        raise ColumnError("--data FILE and --columns A,B,... go together; name the columns to use")
    if data is None or columns is None:
        return Setting(people(), seed)
    return Setting(table_of(data, columns.split(",")), seed)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"cornerwave {__version__}")
        raise typer.Exit


def _pair(text: str, example: str) -> tuple[str, str]:
    name, separator, value = text.rpartition("=")
    if not separator or not name:
        raise ColumnError(f"{text!r} is not of the form {example}")
    return name, value


def _bounds(text: str) -> tuple[str, tuple[Any, Any]]:
    from datetime import date

    example = "--clip COLUMN=LO:HI, with a number, a date (2020-01-31) or nothing for each bound"
    name, value = _pair(text, example)
    low, separator, high = value.partition(":")

    def bound(written: str) -> Any:
        try:
            return float(written) if written else None
        except ValueError:
            return date.fromisoformat(written)

    try:
        if not separator:
            raise ValueError
        return name, (bound(low), bound(high))
    except ValueError:
        raise ColumnError(f"{text!r} is not of the form {example}") from None


def _open(vault: Path | None) -> "Vault":
    from cornerwave.owner import Vault, key_place, vault_place

    return Vault.open(vault_place(vault), key_file=key_place())


def _requests(
    name: str,
    to: list[str] | None,
    privacy: list[float] | None,
    noise: list[float] | None,
    out: list[Path] | None,
    levels: Path | None,
) -> list[tuple[str, "Level", Path]]:
    """Return (recipient, level, file) for each copy that was asked for."""
    from cornerwave.levels import Level

    if levels is not None:
        if to or privacy or noise or out:
            raise LevelError("--levels names everything; leave out --to, --privacy, --noise, --out")
        return _requests_in(levels, name)
    units, unit = (privacy, "privacy") if privacy else (noise, "noise")
    if not to or not units or (privacy and noise) or len(units) != len(to):
        raise LevelError(
            "give each --to RECIPIENT one --privacy P, or each one --noise V; "
            "for a mixture use --levels FILE.toml"
        )
    asked = [Level.of(**{unit: value}) for value in units]
    return list(zip(to, asked, _outputs(name, to, out), strict=True))


def _requests_in(path: Path, name: str) -> list[tuple[str, "Level", Path]]:
    import tomllib

    from cornerwave.levels import Level

    try:
        copies = tomllib.loads(path.read_text(encoding="utf-8")).get("copy")
    except (OSError, UnicodeDecodeError):
        raise LevelError(f"{path} cannot be read") from None
    except tomllib.TOMLDecodeError as error:
        raise LevelError(f"{path} is not TOML: {error}") from None
    if not isinstance(copies, list) or not copies:
        raise LevelError(f"{path} names no copy; write [[copy]] tables with to, privacy and out")
    requests = []
    for number, copy in enumerate(copies, start=1):
        if not isinstance(copy, dict):
            raise LevelError(f"{path}, copy {number}: write it as a [[copy]] table")
        if unknown := set(copy) - {"to", "privacy", "noise", "out"}:
            raise LevelError(f"{path}, copy {number}: {sorted(unknown)[0]!r} is not known")
        if not isinstance(copy.get("to"), str):
            raise LevelError(f"{path}, copy {number}: 'to' must name a recipient")
        if not isinstance(copy.get("out", ""), str):
            raise LevelError(f"{path}, copy {number}: 'out' must name a file")
        level = Level.of(noise=copy.get("noise"), privacy=copy.get("privacy"))
        given = [path.parent / copy["out"]] if "out" in copy else None
        requests.append((copy["to"], level, *_outputs(name, [copy["to"]], given)))
    return requests


def _outputs(name: str, to: list[str], out: list[Path] | None) -> list[Path]:
    """Return a file per recipient: as named, or NAME-RECIPIENT.parquet in a directory."""
    if out and len(out) == len(to) and not any(path.is_dir() for path in out):
        return out
    if out and (len(out) > 1 or not out[0].is_dir()):
        raise OutputError("give one --out FILE for each --to, or one --out that is a directory")
    folder = out[0] if out else Path()
    if strange := [r for r in to if Path(r).name != r or r.startswith(".")]:
        raise OutputError(
            f"{strange[0]!r} is no good as part of a file name; name a file with --out"
        )
    return [folder / f"{name}-{recipient}.parquet" for recipient in to]


def _dataset_json(dataset: Any) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "id": dataset.id,
        "registered_at": dataset.registered_at,
        "rows": dataset.frozen.rows,
        "columns": {column.name: column.role for column in dataset.frozen.schema.columns},
        "levels": list(dataset.noise),
        "holdings": [
            {
                "recipient": holding.recipient,
                "noise": holding.level.noise,
                "privacy": holding.level.privacy,
                "since": holding.since,
            }
            for holding in dataset.holdings
        ],
    }


def _write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))


def _print_table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left")
    for column in header:
        table.add_column(column)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


@contextmanager
def _progress(what: str, rows: float | None = None) -> Iterator[Callable[[float], None]]:
    """Show a bar on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=rows)
        yield lambda done: bar.advance(task, done)


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(f"warning: {message}")
