"""The researcher's commands: `demo` and `reproduce`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cornerwave.cli._screen import progress, say
from cornerwave.errors import ColumnError, ExtraMissing


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
        raise ExtraMissing(
            f"reproduce needs {error.name}, which is not installed: "
            "pip install 'cornerwave[experiments]'"
        ) from None
    return experiments


def _setting(data: Path | None, columns: str | None, seed: int) -> Any:
    from cornerwave_reproduction import Setting, people, table_of

    if (data is None) != (columns is None):
        raise ColumnError("--data FILE and --columns A,B,... go together; give both or neither")
    if data is None or columns is None:
        return Setting(people(), seed)
    return Setting(table_of(data, columns.split(",")), seed)
