"""The command line. Each command imports what it needs when it runs.

    _owner.py      init, inspect, register, append, update, schema, rename, close, unregister
    _copies.py     release, again
    _questions.py  levels, ledger, coalition, report
    _dossier_command.py    dossier
    _run.py        run
    _sharing.py    recipient, grant, revoke, token, log, requests, serve
    _roles.py      owner, approval; the option --by
    _others.py     audit, attack; fetch, request; demo, reproduce
    _options.py    shared options
    _screen.py     messages, tables, JSON, progress bars

Exit codes: 0 done; 1 an audit has findings, the ledger does not list a copy, or a dossier differs;
2 refused, with one line that states why; 3 a bug in Cornerwave, reported by its place in the code
and never by values.

With a small table a command spends most of its time on imports: `tests/test_start.py` lists the
packages and rooms that each may load.
"""

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache, wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer
import typer.main

from cornerwave.cli import _screen
from cornerwave.cli._copies import again, release
from cornerwave.cli._dossier_command import dossier
from cornerwave.cli._options import expanded
from cornerwave.cli._others import attack, audit, demo, fetch, reproduce, request
from cornerwave.cli._owner import (
    append,
    close,
    init,
    inspect,
    register,
    rename,
    schema,
    unregister,
    update,
)
from cornerwave.cli._questions import coalition, ledger, levels, report
from cornerwave.cli._roles import approval, owner_app, under_a_name
from cornerwave.cli._run import run
from cornerwave.cli._screen import say, show_warning, tell_places
from cornerwave.cli._sharing import grant, log, recipient_app, requests, revoke, serve, token
from cornerwave.errors import CornerwaveError, CornerwaveWarning, Fault
from cornerwave.version import __version__

app = typer.Typer(
    name="cornerwave",
    help="Release one table to recipients you trust differently.",
    epilog="Recipients who pool their copies learn no more than from the best single copy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich help takes longer to import than to read
)


def _long(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that may take long, with the option `--progress`."""

    @wraps(command)
    def run(*arguments: Any, show_progress: bool = False, **options: Any) -> None:
        _screen.plain_progress = show_progress
        command(*arguments, **options)

    wanted = Annotated[
        bool,
        typer.Option("--progress", help="Print progress in lines where there is no terminal."),
    ]
    known = signature(command)
    added = Parameter("show_progress", Parameter.KEYWORD_ONLY, default=False, annotation=wanted)
    # Typer reads the options from signature and annotations.
    run.__signature__ = known.replace(  # type: ignore[attr-defined]
        parameters=[*known.parameters.values(), added]
    )
    run.__annotations__ = {**command.__annotations__, "show_progress": wanted}
    return run


def _started(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that starts without pandas, and ends well in `| head`."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        if options.get("engine") != "spark":  # whose client converts frames of pandas
            _leave_out_pandas()
        try:
            command(*arguments, **options)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has closed the pipe: nothing more is written to it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return run


class _NoPandas:
    """A finder of modules for which pandas is not installed."""

    @staticmethod
    def find_spec(name: str, _path: Any = None, _target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def _leave_out_pandas() -> None:
    """Let pyarrow look for pandas while it cannot be imported.

    pyarrow imports pandas, where it is installed, with the first array, so that it recognises a
    series: 0.3 s and 60 MB of a command that has none. There is no setting for this, but it looks
    only once. What asks for pandas by name, as `to_pandas`, still gets it.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(_NoPandas)


_LONG = {
    register,
    append,
    update,
    inspect,
    release,
    again,
    levels,
    report,
    dossier,
    fetch,
    audit,
    attack,
    reproduce,
    run,
}
_OWNER = (init, inspect, register, append, update, schema, rename, unregister, close)
_COPIES = (release, again, levels, ledger, coalition, report, dossier)
_SERVICE = (grant, revoke, token, requests, approval, log, serve, fetch, request)
_UNDER_A_NAME = {register, append, update, run, rename, unregister, close, release, again}
_UNDER_A_NAME |= {grant, revoke, token, requests, approval}
for _command in (*_OWNER, *_COPIES, run, *_SERVICE, audit, attack, demo, reproduce):
    _made = expanded(_command)
    _made = under_a_name(_made) if _command in _UNDER_A_NAME else _made
    app.command()(_started(_long(_made) if _command in _LONG else _made))
app.add_typer(recipient_app, name="recipient")
app.add_typer(owner_app, name="owner")

REFUSED, FAULT = 2, 3


def main(words: Sequence[str] | None = None) -> None:
    """Run a command: the words of the process, or those given.

    Report a refusal in one line, and a bug by its place in the code.
    """
    # Before NumPy is loaded: threads of BLAS take 30 ms to start, and wait busily for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    warnings.showwarning = show_warning
    warnings.simplefilter("always", CornerwaveWarning)
    # Not inside a handler: an error keeps files open, and a reader's threads must not outlive the
    # interpreter.
    sys.exit(_outcome(words))


def _outcome(words: Sequence[str] | None) -> int:
    try:
        run = _commands_of(app)
        run() if words is None else run(list(words), prog_name="cornerwave")
    except Fault as fault:
        tell_places(str(fault), fault)
        return FAULT
    except CornerwaveError as error:
        say(f"cornerwave: {error}{_hint(error.use)}")
        return REFUSED
    except Exception as error:
        # The message or a local variable may hold a cell: report only the type and the place.
        tell_places(f"internal fault ({type(error).__name__})", error)
        return FAULT
    return 0


@cache
def _commands_of(app: typer.Typer) -> Callable[..., Any]:
    """Return the commands with their options: to make them takes longer than a small command."""
    return typer.main.get_command(app)


def _hint(use: Sequence[str]) -> str:
    """Return the options or commands that an error recommends, by their names here."""
    commands = {info.callback.__name__ for info in app.registered_commands if info.callback}
    commands.remove("schema")  # an error means the option of `register`
    called = {name: f"cornerwave {name}" for name in commands}
    columns = {"unit": " COLUMN"}
    names = [
        n if " " in n else called.get(n, f"--{n.replace('_', '-')}{columns.get(n, '')}")
        for n in use
    ]
    return f" ({', '.join(names)})" if names else ""


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"cornerwave {__version__}")
        raise typer.Exit
