"""What others than the owner run: auditors and adversaries, recipients, researchers."""

from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cornerwave.cli._options import AlignOption, JsonOption, VaultOption
from cornerwave.cli._original import (
    as_copied,
    as_read,
    audit_linked,
    audit_linked_files,
    linked_audit_document,
    linked_named,
    tables_and_copies,
)
from cornerwave.cli._screen import print_table, progress, say, show, tell
from cornerwave.errors import ColumnError, ExtraMissing, SourceError, VaultError, spelled

if TYPE_CHECKING:
    from cornerwave.choices import ReadingSettings

FOUND = 1


class Method(StrEnum):
    """The estimate that `attack` uses."""

    llse = "llse"
    bayes = "bayes"
    learned = "learned"
    spectral = "spectral"
    pca = "pca"


def audit(
    source: Annotated[
        str, typer.Argument(help="The original table, or the name of linked tables in the vault.")
    ],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="COPIES...",
            help="Copies of it, made by any tool. Of linked tables each is of all of them, and "
            "without a vault the first words are TABLE=SOURCE for each.",
        ),
    ],
    key: AlignOption = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Rows of one person share its values; of persons in households both, the "
            "household first; default: the metadata.",
        ),
    ] = None,
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

    tables, copies = tables_and_copies(source, words)
    linked = None if tables else linked_named(source, vault)
    if tables or linked is not None:
        if linked is None:
            audits = audit_linked_files(
                tables, copies, unit=unit, privacy=privacy, vault=vault, reading=reading
            )
            source = " and ".join(tables)
        else:
            audits = audit_linked(linked, copies, unit=unit, privacy=privacy)
        document, clean = (
            linked_audit_document(source, audits),
            all(a.clean for a in audits.values()),
        )
    else:
        with progress("Auditing") as advance, ExitStack() as closing:
            truth = open_source(source, reading=as_read(reading, copies))
            original, done = as_copied(truth, copies, key, vault, closing)
            result = run(original, copies, key=key, unit=unit, privacy=privacy, progress=advance)
            result = replace(result, source=place_of(source).name)  # not that of its rows in order
            document, clean = audit_document(result), result.clean
        for line in done:
            say(line)
    if html is not None:
        from cornerwave.documents import page
        from cornerwave.outputs import write_text

        write_text(html, page(document))
    show(document, as_json=as_json)
    if not as_json:  # the first line has scrolled away
        typer.echo()
        tell(document.verdict)
    if not clean:
        raise typer.Exit(FOUND)


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
    link: Annotated[
        bool,
        typer.Option(
            "--link",
            help="Look for rows that somebody knows in each copy, instead; needs --truth.",
        ),
    ] = False,
    known: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="With --link: a column that they know; default: all (repeatable).",
        ),
    ] = None,
    as_json: JsonOption = False,
    vault: VaultOption = None,
    *,
    reading: "ReadingSettings | None" = None,
) -> None:
    """Play the adversary: estimate the original from copies, or find the rows of persons."""
    from cornerwave.audit import attack_copies as run
    from cornerwave.audit import attack_document
    from cornerwave.sources import open_source

    if link or known or as_json:
        _check_link(truth, noise, out, method, link=link)
        _link(copies, str(truth), key, known or [], vault, reading, as_json=as_json)
        return

    with progress("Attacking") as advance, ExitStack() as closing:
        original, done = None, list[str]()
        if truth is not None:
            original = open_source(truth, reading=as_read(reading, copies))
            original, done = as_copied(original, copies, key, vault, closing)
        recovered = run(
            copies, noise=noise, truth=original, key=key, method=method, out=out, progress=advance
        )
    for line in done:
        say(line)
    show(attack_document(recovered, method), as_json=False)
    if out is not None:
        say(f"Wrote {out}: estimates of {', '.join(map(spelled, recovered.columns))}")


def _check_link(
    truth: str | None, noise: list[float] | None, out: Path | None, method: Method, *, link: bool
) -> None:
    """Raise SourceError or ColumnError for options that do not go with --link."""
    if not link:
        raise ColumnError("--known and --json are for looking for rows; add --link")
    if truth is None:
        raise SourceError("--link looks for rows of the original; give it with --truth")
    if noise or out is not None or method is not Method.llse:
        raise SourceError("--link estimates nothing: leave out --noise, --out and --method")


def _link(
    copies: list[Path],
    truth: str,
    key: str | None,
    known: list[str],
    vault: Path | None,
    reading: "ReadingSettings | None",
    *,
    as_json: bool,
) -> None:
    """Look for rows of the original in each copy."""
    from cornerwave.audit import search_copies, searched_document
    from cornerwave.sources import open_source

    with progress("Looking for rows") as advance, ExitStack() as closing:
        original = open_source(truth, reading=as_read(reading, copies))
        original, done = as_copied(original, copies, key, vault, closing)
        found = search_copies(original, copies, key=key, known=known, progress=advance)
    for line in done:
        say(line)
    show(searched_document(found), as_json=as_json)


# --------------------------------------------------------------------------------------------------
# The recipient: fetch, request.


def fetch(
    profile: Annotated[Path, typer.Argument(help="The profile file that the owner gave you.")],
    dataset: Annotated[
        str | None, typer.Argument(help="The dataset; default: the only one.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Output file (.csv, .csv.gz, .parquet, .arrow, .xlsx, .dta, .sav)."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Fetch your copy from a service; run it again to resume an interrupted download."""
    from cornerwave.miner import Profile
    from cornerwave.miner import fetch as download

    if out is None:
        rows = [
            (
                each.name,
                f"{each.privacy:g}",
                f"{each.rows:,}",
                f"{each.edition}",
                each.until or "",
            )
            for each in Profile.read(profile).datasets()
        ]
        print_table("You may fetch", ("dataset", "privacy", "rows", "edition", "until"), rows)
        return
    with progress("Fetching") as advance:
        path = download(profile, dataset, out=out, force=force, progress=advance)
    say(f"Wrote {path}")


def request(
    profile: Annotated[Path, typer.Argument(help="The profile file that the owner gave you.")],
    dataset: Annotated[str | None, typer.Argument(help="The dataset.")] = None,
    privacy: Annotated[
        float | None, typer.Option(metavar="P", help="The privacy that you ask for.")
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, in a sentence.")] = "",
) -> None:
    """Ask the owner for another level of a dataset; without one, list what you asked for."""
    from cornerwave.miner import Profile

    mine = Profile.read(profile)
    if dataset is None or privacy is None:
        if dataset is not None or privacy is not None:
            raise VaultError("name a dataset and a privacy with --privacy, or neither")
        rows = [
            (each.dataset, f"{each.privacy:g}", each.state, each.answer) for each in mine.asked()
        ]
        print_table("You asked for", ("dataset", "privacy", "state", "answer"), rows)
        return
    mine.ask(dataset, privacy=privacy, reason=reason)
    say(f"Asked for {dataset} at privacy {privacy:g}. The owner decides; see: request {profile}")


# --------------------------------------------------------------------------------------------------
# The researcher: demo, reproduce.


def demo(
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Work in this directory and keep all files.")
    ] = None,
) -> None:
    """Release a real table at four levels and measure what colluding brings."""
    from cornerwave.demo import run

    run(keep)


def reproduce(
    part: Annotated[
        str,
        typer.Argument(
            help="all, table2, fig1, fig2, fig3, fig4, fig5, examples, theorems or beyond."
        ),
    ] = "all",
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Output directory: figures, numbers, index.html.")
    ] = Path("reproduced"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the noise; for experiments only.")] = 1,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use your own table (with --columns).")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="The numeric columns of --data to use.")
    ] = None,
) -> None:
    """Repeat the paper's evaluation, with a verdict for each statement."""
    experiments = _experiments()
    parts = experiments.chosen(part)
    setting = _setting(data, columns, seed)
    with progress("Reproducing", experiments.duration(parts)) as advance:
        results = experiments.reproduce(parts, setting, out, progress=advance)
    statements = [statement for result in results.values() for statement in result.statements]
    for statement in statements:
        if statement.verdict.value == "does not hold":
            say(f"does not hold: {statement.claim} ({statement.measured})")
    say(f"Judged {len(statements)} statements: see {out / 'index.html'}")


def _experiments() -> Any:
    """Return the package of the experiments; raise ExtraMissing without its packages."""
    try:
        import cornerwave_reproduction as experiments
    except ModuleNotFoundError as error:
        raise ExtraMissing.of("reproduce", str(error.name), extra="experiments") from None
    return experiments


def _setting(data: Path | None, columns: str | None, seed: int) -> Any:
    from cornerwave_reproduction import Setting, people, table_of

    if (data is None) != (columns is None):
        raise ColumnError("--data FILE and --columns A,B,... go together; give both or neither")
    if data is None or columns is None:
        return Setting(people(), seed)
    return Setting(table_of(data, columns.split(",")), seed)
