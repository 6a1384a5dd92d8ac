"""Run parts of the reproduction and write figures, numbers and the page.

DIR/index.html                    everything on one page, nothing loaded from elsewhere
DIR/NAME.png, DIR/NAME.svg        each figure
DIR/NAME.csv                      the numbers behind it
DIR/verdicts.json                 every statement with its verdict
"""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from io import BytesIO, StringIO
from pathlib import Path

from threadpoolctl import threadpool_limits

from cornerwave.errors import NoSuchExperiment, OutputError
from cornerwave.experiments import (
    beyond,
    examples,
    fig1,
    fig2,
    fig3,
    fig4,
    fig5,
    table2,
    theorems,
)
from cornerwave.experiments.result import Columns, Drawing, Result
from cornerwave.experiments.setting import Setting
from cornerwave.experiments.style import FILE_METADATA, styled
from cornerwave.pages import Picture, reproduction_page


@dataclass(frozen=True)
class Part:
    """One part: how to run it, and about how many seconds it takes."""

    run: Callable[[Setting], Result]
    seconds: float


PARTS: Mapping[str, Part] = {
    "table2": Part(table2.run, 0.2),
    "fig1": Part(fig1.run, 0.2),
    "examples": Part(examples.run, 1),
    "theorems": Part(theorems.run, 2),
    "fig2": Part(fig2.run, 10),
    "fig3": Part(fig3.run, 1),
    "fig4": Part(fig4.run, 90),
    "fig5": Part(fig5.run, 20),
    "beyond": Part(beyond.run, 60),
}
"""Every part, in the order of the page."""


def chosen(name: str) -> list[str]:
    """Return the parts that a name stands for; raise NoSuchExperiment for another name."""
    if name != "all" and name not in PARTS:
        raise NoSuchExperiment(f"there is no part {name!r}; choose all, {', '.join(PARTS)}")
    return list(PARTS) if name == "all" else [name]


def duration(parts: Sequence[str]) -> float:
    """Return about how many seconds the parts take; what `progress` adds up to."""
    return sum(PARTS[name].seconds for name in parts)


def reproduce(
    parts: Sequence[str],
    setting: Setting,
    out: Path,
    *,
    progress: Callable[[float], None] = lambda seconds: None,
) -> dict[str, Result]:
    """Run the parts and write everything into a directory; return the results.

    Raises OutputError if the directory cannot be made or written.
    """
    folder = _prepared(out)
    results, pictures = {}, {}
    with threadpool_limits(1):  # idle threads of numeric libraries would spin, and disturb times
        for name in parts:
            results[name] = _timed(PARTS[name], setting, progress)
            pictures[name] = [_write_figure(folder, d) for d in results[name].drawings]
            for file, columns in results[name].numbers.items():
                _write(folder / f"{file}.csv", _csv(columns).encode())
    _write(folder / "verdicts.json", _json(results).encode())
    page = reproduction_page(results, pictures, data=_data(setting), paper=table2.PAPER)
    _write(folder / "index.html", page.encode())
    return results


def _data(setting: Setting) -> str:
    table, columns = setting.table, ", ".join(setting.table.columns)
    return f"table {table.name}: {len(table.rows):,} rows of {columns}; seed {setting.seed}"


def _timed(part: Part, setting: Setting, progress: Callable[[float], None]) -> Result:
    """Run a part; what it did not report of its time is reported at its end."""
    reported = 0.0

    def tick(share: float) -> None:
        nonlocal reported
        reported += share
        progress(share * part.seconds)

    result = part.run(replace(setting, tick=tick))
    progress((1 - reported) * part.seconds)
    return result


def _prepared(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out} cannot be made: {error.strerror}") from None
    probe = out / ".cornerwave-probe"
    _write(probe, b"")
    probe.unlink()
    return out


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None


def _write_figure(folder: Path, drawing: Drawing) -> Picture:
    with styled():
        drawn = drawing.draw()
        for kind, metadata in FILE_METADATA.items():
            content = BytesIO()
            drawn.savefig(content, format=kind, metadata=metadata)
            _write(folder / f"{drawing.name}.{kind}", content.getvalue())
    return Picture(drawing.name, drawing.caption, content.getvalue())


def _csv(columns: Columns) -> str:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _json(results: Mapping[str, Result]) -> str:
    verdicts = {
        name: [asdict(statement) for statement in result.statements]
        for name, result in results.items()
    }
    return json.dumps(verdicts, indent=2, ensure_ascii=False) + "\n"
