"""The demo: a real table, four levels, and what a coalition gains from them."""

import shutil
import tempfile
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pyarrow.parquet as papq

from cornerwave import document as doc
from cornerwave.algorithms import parallel
from cornerwave.arrays import Floats
from cornerwave.documents import print_document
from cornerwave.levels import Privacy
from cornerwave.miner import Copy, number_blocks
from cornerwave.moments import Moments
from cornerwave.vault import Dataset, Vault, write_all

THREE = {
    "internal team": Privacy(0.2),
    "partner": Privacy(0.5),
    "public": Privacy(0.8),
}
FOURTH = ("university", Privacy(0.6))
EXPLAINED = "Each number is the share of variance that the best linear estimate cannot recover."


def people() -> Path:
    """Return the table that comes with the package: age and wage of 100,000 people."""
    with as_file(files("cornerwave") / "data" / "people.parquet") as path:
        return path


def run(keep: Path | None = None) -> None:
    """Run the demo in a temporary folder, or in `keep`, and print what it shows."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        print_document(_run(keep))
        return
    with tempfile.TemporaryDirectory() as folder:
        print_document(_run(Path(folder)))


def _run(folder: Path) -> doc.Document:
    """Register the table, release four copies, and return what they hide."""
    vault = Vault.create(folder / ".cornerwave", exist_ok=True)
    source = folder / "people.parquet"
    shutil.copyfile(people(), source)
    dataset = vault.register("people", source)
    copies = {name: folder / f"{name.replace(' ', '-')}.parquet" for name in (*THREE, FOURTH[0])}
    releases = dataset.release_many(THREE)
    write_all([(release, copies[release.recipient]) for release in releases])
    dataset.release(to=FOURTH[0], privacy=FOURTH[1].share).write(copies[FOURTH[0]])
    return doc.Document(
        title="",
        verdict="Together the four recover no more than the best of them alone. With independent "
        "noise they would average the noise away.",
        sections=[
            doc.Section("What was done", [doc.Bullets([*_done(dataset.frozen.rows)])]),
            doc.Section("Hidden from", [_table(dataset, copies), doc.Paragraph(EXPLAINED)]),
        ],
    )


def _done(rows: int) -> Iterator[str]:
    yield f"Registered a table of {rows:,} people: age and wage."
    yield f"Released three copies in one pass: {', '.join(THREE)}."
    yield f"Released a fourth copy later, at a level between two of them: {FOURTH[0]}."


def _table(dataset: Dataset, copies: dict[str, Path]) -> doc.DataTable:
    """Show what stays hidden: by the levels in the ledger, and measured on the files."""
    holdings = dataset.holdings
    X = _rows(people())
    read = [_as_left(copies[holding.recipient]) for holding in holdings]
    levels = [holding.spec.level for holding in holdings]
    noise = np.array([level.noise for level in levels])
    together = dataset.coalition([holding.recipient for holding in holdings])
    independent = [parallel(X, noise=[level.noise])[0] for level in levels]
    rows = [
        (holding.recipient, f"{level.privacy:.3f}", *_hidden(X, [copy], np.array([[level.noise]])))
        for holding, level, copy in zip(holdings, levels, read, strict=True)
    ]
    rows += [
        (
            "all four together",
            f"{together.joint_privacy:.3f}",
            *_hidden(X, read, np.minimum.outer(noise, noise)),
        ),
        (
            "all four, independent noise",
            f"{together.independent_privacy:.3f}",
            *_hidden(X, independent, np.diag(noise)),
        ),
    ]
    return doc.DataTable(("recipient", "promised", "measured: age", "measured: wage"), rows)


def _hidden(X: Floats, copies: list[Floats], covariance: Floats) -> list[str]:
    """Return the measured error of the best linear estimate, as a share of the variance."""
    moments = Moments.of(X)
    weights = np.linalg.solve(1.0 + covariance, np.ones(len(copies)))
    estimate = moments.mean + sum(
        weight * (copy - moments.mean) for weight, copy in zip(weights, copies, strict=True)
    )
    error = ((estimate - X) ** 2).mean(axis=0) / np.diag(moments.covariance)
    return [f"{share:.3f}" for share in error]


def _as_left(path: Path) -> Floats:
    """Return the numbers of a copy as the noise left them, not as they are drawn together."""
    copy = Copy.open(path)
    return np.concatenate([*number_blocks(copy.source, [*copy.columns.values()])])


def _rows(path: Path) -> Floats:
    table = papq.read_table(path)
    return np.column_stack([column.to_numpy().astype(np.float64) for column in table.columns])
