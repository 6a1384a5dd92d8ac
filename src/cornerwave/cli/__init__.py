"""The command line. It imports what a command needs when the command runs.

    owner.py       init, register, inspect, ledger, coalition, report
    copies.py      release, again
    adversary.py   audit, attack
    researcher.py  demo, reproduce
    options.py     what commands share; screen.py prints

Exit codes: 0 done; 1 an audit found something; 2 refused, with one line that says why;
3 a fault of Cornerwave itself, with the place but never the values.
"""

import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

from cornerwave.cli.adversary import attack, audit
from cornerwave.cli.copies import again, release
from cornerwave.cli.owner import coalition, init, inspect, ledger, register, report
from cornerwave.cli.researcher import demo, reproduce
from cornerwave.cli.screen import say, show_warning, tell_places
from cornerwave.errors import CornerwaveError, CornerwaveWarning, Fault
from cornerwave.version import __version__

app = typer.Typer(
    name="cornerwave",
    help="Release one table to recipients you trust differently.",
    epilog="Colluding recipients learn no more than the best single copy among them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich help takes longer to import than to read
)
_OWNER = (init, register, inspect, release, again, ledger, coalition, report)
for _command in (*_OWNER, audit, attack, demo, reproduce):
    app.command()(_command)

REFUSED, FAULT = 2, 3


def main() -> None:
    """Run a command; turn refusals into one line and faults into their place."""
    warnings.showwarning = show_warning
    warnings.simplefilter("always", CornerwaveWarning)
    try:
        app()
    except Fault as fault:
        tell_places(str(fault), fault)
        sys.exit(FAULT)
    except CornerwaveError as error:
        say(f"cornerwave: {error}{_hint(error.use)}")
        sys.exit(REFUSED)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        # A message or a local variable may hold a cell: name the kind and the place only.
        tell_places(f"internal fault ({type(error).__name__})", error)
        sys.exit(FAULT)


def _hint(use: Sequence[str]) -> str:
    """Return the options, or commands, that an error's choices are called here."""
    commands = {info.callback.__name__ for info in app.registered_commands if info.callback}
    names = [f"cornerwave {n}" if n in commands else f"--{n.replace('_', '-')}" for n in use]
    return f" ({', '.join(names)})" if names else ""


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"cornerwave {__version__}")
        raise typer.Exit
