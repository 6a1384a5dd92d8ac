"""An attempt: a damaged file, a command that reads it, and what must hold of the answer.

Exit 0, 1 or 2; a refusal in one line; no cell and no key in any output; no warning but our
own; nothing left behind. Everything follows from the kind of file and a number.
"""

import io
import random
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow.ipc as paipc
import pyarrow.parquet as papq

from cornerwave import cli
from cornerwave.errors import CornerwaveError, CornerwaveWarning
from cornerwave.miner import Copy
from tests.fuzz import mutants
from tests.fuzz.mutants import Mutation
from tests.fuzz.world import CELLS

SECONDS = 30
"""An attempt that takes longer hangs."""

CLEAN = "{file}"
"""Stands for the damaged file in a command."""

OTHER = "other.csv"
_REGISTER = ("register", "new", CLEAN, "--vault", "empty")
_FEW = (*_REGISTER, "--few-rows")
SOURCE = (
    ("inspect", CLEAN),
    ("inspect", CLEAN, "--out", "draft.toml"),
    (*_FEW, "--drop", "id", "--drop", "note"),
    (*_FEW, "--key", "id", "--drop", "note", "--transform", "wage=log1p"),
    (*_FEW, "--drop", "id", "--keep", "note", "--transform", "wage=rank"),
    (*_FEW, "--drop", "id", "--keep", "note", "--together", "city,team", "--uniform", "flag",
     "--categorical", "age", "--hide-missing", "height", "--min-count", "3"),
    (*_REGISTER, "--schema", "schema.toml"),
    ("release", "people", "--to", "eve", "--privacy", "0.5", "--source", CLEAN),
    ("again", "people", "ann", "--number", "1", "--out", "x.csv", "--source", CLEAN),
    ("report", "people", "--out", "x.html", "--source", CLEAN),
    ("audit", CLEAN, "ann0.3.parquet", "ann0.8.parquet"),
    ("audit", CLEAN, "ann0.3.csv", "--key", "id", "--json"),
    ("audit", CLEAN, "ann0.8.arrow", "--key", "id", "--html", "x.html"),
    ("attack", "ann0.3.parquet", "ann0.8.csv", "--truth", CLEAN),
    ("attack", "ann0.3.parquet", "--truth", CLEAN, "--method", "bayes", "--out", "x.csv"),
)  # fmt: skip
_SPELLED = [command for command in SOURCE if "--source" not in command]
"""For files with other values than the registered table has."""
COPY = (
    ("audit", "people.parquet", CLEAN),
    ("audit", "people.csv", CLEAN, "ann0.8.csv"),
    ("audit", "people.arrow", CLEAN, "ann0.3.arrow", "--key", "id"),
    ("audit", "people.parquet", CLEAN, "bob0.8.parquet", "--json", "--html", "x.html"),
    ("attack", CLEAN),
    ("attack", CLEAN, "ann0.8.csv", "--key", "id", "--out", "x.parquet"),
    ("attack", CLEAN, "bob0.8.parquet", "--truth", "people.parquet"),
    ("attack", CLEAN, "--noise", "1", "--method", "spectral"),
    ("attack", CLEAN, "--noise", "0.5", "--method", "pca", "--truth", "people.parquet"),
    ("ledger", "--against", CLEAN),
    ("ledger", "people", "--against", "ann0.3.arrow", "--against", CLEAN),
    ("miner", CLEAN),
)
_FEW_PASSES = (("attack", CLEAN), ("ledger", "--against", CLEAN), COPY[6])
"""For files that each pass reads in a process of its own."""
VAULT = (
    ("ledger",),
    ("ledger", "--json"),
    ("ledger", "people"),
    ("ledger", "--head"),
    ("ledger", "--since", "heads.txt"),
    ("ledger", "--against", "ann0.3.csv"),
    ("coalition", "people", "ann", "bob"),
    ("coalition", "people", "ann", "--json"),
    ("release", "people", "--to", "eve", "--privacy", "0.5"),
    ("again", "people", "bob", "--number", "2", "--out", "x.csv"),
    ("report", "people", "--out", "x.html", "--external"),
    ("register", "new", "other.csv", "--schema", "schema.toml"),
    ("init",),
    ("init", "--new-ledger"),
)

_MORE = (
    ("release", "people", "--levels", "batch.toml", "--force"),
    ("release", "people", "--to", "eve", "--privacy", "0.5", "--round", "age", "--clip",
     "wage=0:1000", "--out", "eve.csv"),
    ("release", "people", "--to", "eve", "--noise", "3", "--to", "fay", "--noise", "1e-9"),
    ("attack", "ann0.3.csv", "bob0.8.csv", "--noise", "1", "--noise", "2", "--out", "x.arrow"),
    ("coalition", "people", "ann", "bob"),
    ("init", "--vault", "third"),
)  # fmt: skip

Command = Sequence[str]
Kind = tuple[str, Sequence[Mutation], Sequence[Command]]

_CSV = (mutants.bytes_of, mutants.text_of, mutants.table_of, mutants.values_of)
_BINARY = (
    mutants.bytes_of,
    mutants.words_of,
    mutants.bare_words,
    mutants.table_of,
    mutants.values_of,
)
KINDS: dict[str, Kind] = {
    "arguments": (".cornerwave/key", (mutants.nothing,), (*SOURCE, *COPY[:-1], *VAULT, *_MORE)),
    "csv source": (
        "people.csv",
        _CSV,
        SOURCE,
    ),
    "csv.gz source": ("people.csv.gz", (mutants.bytes_of, mutants.zipped), SOURCE),
    "messy source": ("messy.csv", (mutants.bytes_of, mutants.latin_text_of), _SPELLED),
    "csv.zip source": ("people.csv.zip", (mutants.bytes_of, mutants.words_of), SOURCE),
    "csv folder": (
        "texts/two.csv",
        _CSV,
        [[{CLEAN: "texts"}.get(word, word) for word in command] for command in SOURCE],
    ),
    "json lines": ("people.jsonl", (mutants.bytes_of, mutants.lines_of), SOURCE),
    "workbook": ("people.xlsx", (mutants.bytes_of, mutants.sheet_of), _SPELLED),
    "spss source": ("people.sav", (mutants.bytes_of, mutants.words_of), _SPELLED),
    "stata source": ("people.dta", (mutants.bytes_of, mutants.words_of), _SPELLED),
    "sas source": ("people.xpt", (mutants.bytes_of, mutants.words_of), _SPELLED),
    "parquet source": ("people.parquet", _BINARY, SOURCE),
    "parquet folder": (
        "parts/two.parquet",
        _BINARY,
        [[{CLEAN: "parts"}.get(word, word) for word in command] for command in SOURCE],
    ),
    "arrow source": ("people.arrow", (*_BINARY, mutants.stream), SOURCE),
    "csv copy": (
        "ann0.3.csv",
        _CSV,
        COPY,
    ),
    "csv.gz copy": ("ann0.3.csv.gz", (mutants.bytes_of, mutants.zipped), COPY),
    "parquet copy": ("ann0.3.parquet", (*_BINARY, mutants.inner_json), COPY),
    "arrow copy": ("ann0.3.arrow", (*_BINARY, mutants.inner_json), COPY),
    "workbook copy": ("ann0.3.xlsx", (mutants.bytes_of, mutants.sheet_of), _FEW_PASSES),
    "stata copy": ("ann0.3.dta", (mutants.bytes_of, mutants.words_of), _FEW_PASSES),
    "spss copy": ("ann0.3.sav", (mutants.bytes_of, mutants.words_of), _FEW_PASSES),
    "metadata": (
        "ann0.3.csv.meta.json",
        (mutants.json_of, mutants.json_of, mutants.field_of, mutants.field_of, mutants.bytes_of),
        [[{CLEAN: "ann0.3.csv"}.get(word, word) for word in command] for command in COPY],
    ),
    "schema": (
        "schema.toml",
        (mutants.toml_of, mutants.toml_of, mutants.bytes_of),
        [("register", "new", "people.parquet", "--vault", "empty", "--schema", CLEAN)],
    ),
    "reading": (
        "messy.toml",
        (mutants.toml_of, mutants.toml_of, mutants.bytes_of),
        [("register", "new", "messy.csv", "--vault", "empty", "--schema", CLEAN)],
    ),
    "batch": (
        "batch.toml",
        (mutants.toml_of, mutants.toml_of, mutants.bytes_of),
        [("release", "people", "--levels", CLEAN)],
    ),
    "project": (
        "cornerwave.toml",
        (mutants.project_of, mutants.project_of, mutants.bytes_of),
        [("run",), ("run", CLEAN, "--dry-run"), ("run", "--prune", "--json")],
    ),
    "heads": (
        "heads.txt",
        (mutants.bytes_of, mutants.text_of),
        [("ledger", "--since", CLEAN)],
    ),
    "key": (".cornerwave/key", (mutants.bytes_of,), VAULT),
    "ledger": (
        ".cornerwave/ledger.db",
        (mutants.ledger_of, mutants.ledger_of, mutants.bytes_of, mutants.words_of),
        VAULT,
    ),
}
COMPILED = (
    *("parquet source", "parquet folder", "arrow source", "parquet copy", "arrow copy"),
    *("workbook", "spss source", "stata source", "sas source"),
    *("workbook copy", "stata copy", "spss copy"),
)
"""Kinds that could crash the interpreter itself."""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str
    error: BaseException | None = None


@dataclass(frozen=True)
class Tried:
    """An attempt: what was done, the exit code, and what is wrong with the answer, if it is."""

    number: int
    what: str
    code: int
    fault: str | None


def attempt(world: Path, folder: Path, kind: str, number: int) -> Tried:
    """Damage a file of a fresh world and run a command."""
    chance = random.Random(f"{kind} {number}")
    name, mutations, commands = KINDS[kind]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(world, folder)
    mutation, command = chance.choice(list(mutations)), chance.choice(list(commands))
    if kind == "arguments":
        words = mutants.arguments_of([OTHER if word == CLEAN else word for word in command], chance)
    else:
        words = [name if word == CLEAN else word for word in command]
    with chdir(folder):
        secret = Path(".cornerwave/key").read_text().split(":")[1].strip()
        damage = mutation(Path(name), chance)
        what = f"{kind} {number}: {' '.join(words)} after {mutation.__name__}: {damage}"
        shown = _may_be_shown(Path(name))
        answer = run(words)
        cells = [cell for cell in CELLS if cell not in shown]
        fault = fault_of(answer, cells=cells, secret=secret)
        if not fault and (left := _left_behind()):
            fault = f"left behind: {left}"
    return Tried(number, what, answer.code, fault)


def run(words: Sequence[str], *, folder: Path = Path(), seconds: int = SECONDS) -> Answer:
    """Run the command line's own main, or a miner's questions, in this process."""
    out, err, error = io.StringIO(), io.StringIO(), None
    show = warnings.showwarning
    with (
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
        warnings.catch_warnings(),
        _time_limit(seconds),
    ):
        warnings.simplefilter("error")
        try:
            if words[0] == "miner":
                warnings.simplefilter("ignore", CornerwaveWarning)
                code = _mine(words[1])
            else:
                cli.main(words)
                code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
            error = stop.__context__
        except (Exception, _TooLong) as fault:
            code, error = 3, fault
        finally:
            warnings.showwarning = show
    return Answer(code, out.getvalue(), err.getvalue(), error)


class _TooLong(BaseException):
    """An attempt took too long."""


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise _TooLong(f"more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _mine(path: str) -> int:
    """Ask a copy everything that a miner asks."""
    try:
        copy = Copy.open(path)
    except CornerwaveError as error:
        print(f"cornerwave: {error}", file=sys.stderr)
        return 2
    asked: list[Callable[[], Any]] = [
        copy.mean,
        lambda: copy.covariance(of="table"),
        copy.correlation,
        lambda: copy.original_mean("wage"),
        lambda: copy.frequencies("city"),
        lambda: copy.two_way("city", "team"),
        lambda: copy.group_means("age", by="city"),
        lambda: copy.regression("age", on=["wage", "city"]),
        lambda: copy.distribution("age", cells=20),
    ]
    for question in asked:
        try:
            question()
        except CornerwaveError as error:
            if "\n" in str(error):
                return 3
    return 0


def fault_of(answer: Answer, *, cells: Sequence[str] = CELLS, secret: str) -> str | None:
    """Return what is wrong with an answer; None if nothing is."""
    shown = answer.out + answer.err
    if answer.code not in (0, 1, 2):
        inner = answer.error
        places = "" if inner is None else "".join(traceback.format_exception(inner))
        return f"exit {answer.code}: {answer.err}\n{places}"
    if leaked := [cell for cell in (*cells, secret) if cell in shown]:
        return f"shows {leaked}: {shown}"
    lines = [line for line in answer.err.splitlines() if not line.startswith("warning: ")]
    usage = bool(lines) and lines[0].startswith("Usage: ")
    if answer.code == 2 and len(lines) != 1 and not usage:
        return f"a refusal of {len(lines)} lines: {answer.err}"
    if "\x1b[2J" in shown:
        return f"sends control characters to the terminal: {shown!r}"
    return None


def _may_be_shown(path: Path) -> str:
    """Return the names of a table's columns, which damage may have made of cells."""
    try:
        if path.suffix == ".parquet":
            return str(papq.read_schema(path).names)
        if path.suffix == ".arrow":
            return str(paipc.open_file(path.read_bytes()).schema.names)
        return path.read_bytes().split(b"\n")[0].decode("latin-1") if path.suffix == ".csv" else ""
    except Exception:
        return ""


def _left_behind() -> list[str]:
    """Return files of copies that were not finished."""
    hidden = [str(path) for path in Path().rglob(".*.part")]
    return hidden + [str(path) for path in Path(".cornerwave", "work").glob("*")]
