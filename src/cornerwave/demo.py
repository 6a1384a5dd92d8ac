"""The demo: a real table, four levels, and what a coalition gains from them."""

import shutil
import tempfile
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pyarrow.parquet as papq
from rich.console import Console
from rich.table import Table

from cornerwave.algorithms import parallel
from cornerwave.arrays import Floats
from cornerwave.levels import Privacy
from cornerwave.moments import Moments
from cornerwave.vault import Dataset, Vault, write_all

THREE = {
    "internal team": Privacy(0.2),
    "partner": Privacy(0.5),
    "public": Privacy(0.8),
}
FOURTH = ("university", Privacy(0.6))


def people() -> Path:
    """Return the table that comes with the package: age and wage of 100,000 people."""
    with as_file(files("cornerwave") / "data" / "people.parquet") as path:
        return path


def run(keep: Path | None = None) -> None:
    """Run the demo in a temporary folder, or in `keep`."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        _run(keep)
        return
    with tempfile.TemporaryDirectory() as folder:
        _run(Path(folder))


def _run(folder: Path) -> None:
    console = Console()
    vault = Vault.create(folder / ".cornerwave", exist_ok=True)
    source = folder / "people.parquet"
    shutil.copyfile(people(), source)
    dataset = vault.register("people", source)
    rows = dataset.frozen.rows
    console.print(f"Registered a table of {rows:,} people: age and wage.")
    copies = {name: folder / f"{name.replace(' ', '-')}.parquet" for name in (*THREE, FOURTH[0])}
    releases = dataset.release_many(THREE)
    write_all([(release, copies[release.recipient]) for release in releases])
    console.print(f"Released three copies in one pass: {', '.join(THREE)}.")
    dataset.release(to=FOURTH[0], privacy=FOURTH[1].share).write(copies[FOURTH[0]])
    console.print(f"Released a fourth copy later, at a level between two of them: {FOURTH[0]}.\n")
    console.print(_table(dataset, copies))
    console.print(
        "\nEach number is the share of variance that the best linear estimate cannot recover. "
        "Together the four recover no more than the best of them alone. With independent noise "
        "they would average the noise away."
    )


def _table(dataset: Dataset, copies: dict[str, Path]) -> Table:
    """Show what stays hidden: by the levels in the ledger, and measured on the files."""
    holdings = dataset.holdings
    table = Table(title="Hidden from", title_justify="left")
    for header in ("", "promised", "measured: age", "measured: wage"):
        table.add_column(header, justify="left" if not header else "right")
    X = _rows(people())
    ours = [_rows(copies[holding.recipient]) for holding in holdings]
    levels = [holding.spec.level for holding in holdings]
    for holding, copy in zip(holdings, ours, strict=True):
        table.add_row(
            holding.recipient,
            f"{holding.spec.level.privacy:.3f}",
            *_hidden(X, [copy], np.array([[holding.spec.level.noise]])),
        )
    found = dataset.coalition([holding.recipient for holding in holdings])
    noise = np.array([level.noise for level in levels])
    table.add_section()
    table.add_row(
        "all four together",
        f"{found.joint_privacy:.3f}",
        *_hidden(X, ours, np.minimum.outer(noise, noise)),
        style="bold",
    )
    independent = [parallel(X, noise=[level.noise])[0] for level in levels]
    table.add_row(
        "all four, independent noise",
        f"{found.independent_privacy:.3f}",
        *_hidden(X, independent, np.diag(noise)),
    )
    return table


def _hidden(X: Floats, copies: list[Floats], covariance: Floats) -> list[str]:
    """Return the measured error of the best linear estimate, as a share of the variance."""
    moments = Moments.of(X)
    weights = np.linalg.solve(1.0 + covariance, np.ones(len(copies)))
    estimate = moments.mean + sum(
        weight * (copy - moments.mean) for weight, copy in zip(weights, copies, strict=True)
    )
    error = ((estimate - X) ** 2).mean(axis=0) / np.diag(moments.covariance)
    return [f"{share:.3f}" for share in error]


def _rows(path: Path) -> Floats:
    table = papq.read_table(path)
    return np.column_stack([column.to_numpy().astype(np.float64) for column in table.columns])
