"""Run parts of the reproduction and write figures, numbers and the page.

DIR/index.html                    everything on one page that loads nothing else
DIR/NAME.png, DIR/NAME.svg        each figure
DIR/NAME.csv                      the numbers behind it
DIR/verdicts.json                 every statement with its verdict
"""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from io import StringIO
from pathlib import Path

from threadpoolctl import threadpool_limits

from cornerwave.documents import page
from cornerwave.errors import NoSuchExperiment, OutputError
from cornerwave_reproduction import (
    _beyond_attacks,
    _beyond_cost,
    _beyond_miner,
    _case_study,
    _fig1,
    _fig2,
    _fig3,
    _fig4,
    _fig5,
    _theorems,
)
from cornerwave_reproduction._drawing import Drawing
from cornerwave_reproduction._part import Columns, Result, Setting
from cornerwave_reproduction._reproduction_page import Figure, reproduction_document


@dataclass(frozen=True)
class Part:
    """One part: how to run it, and about how many seconds it takes."""

    run: Callable[[Setting], Result]
    seconds: float


def _beyond(setting: Setting) -> Result:
    parts = (_beyond_attacks, _beyond_cost, _beyond_miner)
    return Result.joined("Beyond the paper", [part.run(setting) for part in parts])


PARTS: Mapping[str, Part] = {
    "table2": Part(_fig1.run_table2, 0.2),
    "fig1": Part(_fig1.run, 0.2),
    "examples": Part(_case_study.run, 1),
    "theorems": Part(_theorems.run, 2),
    "fig2": Part(_fig2.run, 10),
    "fig3": Part(_fig3.run, 1),
    "fig4": Part(_fig4.run, 90),
    "fig5": Part(_fig5.run, 20),
    "beyond": Part(_beyond, 60),
}
"""Every part, in the order of the page."""


def chosen(name: str) -> list[str]:
    """Return the parts for a name, "all" for every part; raise NoSuchExperiment if unknown."""
    if name != "all" and name not in PARTS:
        raise NoSuchExperiment(f"there is no part {name!r}; choose all, {', '.join(PARTS)}")
    return list(PARTS) if name == "all" else [name]


def duration(parts: Sequence[str]) -> float:
    """Return about how many seconds the parts take: the sum of what `progress` receives."""
    return sum(PARTS[name].seconds for name in parts)


def reproduce(
    parts: Sequence[str],
    setting: Setting,
    out: Path,
    *,
    progress: Callable[[float], None] = lambda seconds: None,
) -> dict[str, Result]:
    """Run the parts and write everything into a directory; return the results.

    Raises OutputError if the directory cannot be created or written.
    """
    _prepare(out)
    results, figures = {}, {}
    with threadpool_limits(1):  # idle threads of numeric libraries spin and disturb the times
        for name in parts:
            results[name] = _run(PARTS[name], setting, progress)
            figures[name] = [_write_figure(out, d) for d in results[name].drawings]
            for file, columns in results[name].numbers.items():
                _write(out / f"{file}.csv", _csv(columns).encode())
    _write(out / "verdicts.json", _json(results).encode())
    found = reproduction_document(results, figures, data=_data(setting), paper=_fig1.PAPER)
    _write(out / "index.html", page(found).encode())
    return results


def _data(setting: Setting) -> str:
    table, columns = setting.table, ", ".join(setting.table.columns)
    return f"table {table.name}: {len(table.rows):,} rows of {columns}; seed {setting.seed}"


def _run(part: Part, setting: Setting, progress: Callable[[float], None]) -> Result:
    """Run a part; report the rest of its time at its end."""
    reported = 0.0

    def tick(share: float) -> None:
        nonlocal reported
        reported += share
        progress(share * part.seconds)

    result = part.run(replace(setting, tick=tick))
    progress((1 - reported) * part.seconds)
    return result


def _prepare(out: Path) -> None:
    """Create the directory and check, before minutes of work, that it can be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out} cannot be created: {error.strerror}") from None
    probe = out / ".cornerwave-probe"
    _write(probe, b"")
    probe.unlink()


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None


def _write_figure(out: Path, drawing: Drawing) -> Figure:
    files = drawing.files()
    for kind, content in files.items():
        _write(out / f"{drawing.name}.{kind}", content)
    return Figure(drawing.name, drawing.caption, files["svg"])


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
