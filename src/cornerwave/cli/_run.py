"""`run`: bring a vault to the state that a project file describes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cornerwave.cli._options import JsonOption, advice_for, open_vault
from cornerwave.cli._screen import print_json, progress, say, tell
from cornerwave.errors import CornerwaveError

if TYPE_CHECKING:
    from cornerwave.project import Plan, PlanLine


def run(
    project: Annotated[
        Path, typer.Argument(help="The project file, or the directory that it is in.")
    ] = Path("cornerwave.toml"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done; record nothing.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Revoke grants that the file does not have.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Do not read registered tables to see whether they changed: that shows when a "
            "copy is made.",
        ),
    ] = False,
    as_json: JsonOption = False,
    vault: Annotated[
        Path | None,
        typer.Option(
            "--vault",
            metavar="DIR",
            help="Vault directory; default: that of the file, CORNERWAVE_VAULT, or .cornerwave "
            "beside the file.",
        ),
    ] = None,
) -> None:
    """Bring a vault to the state that a project file describes."""
    from cornerwave.project import carry_out, plan_project, read_project, vault_of

    file = read_project(project)
    with _advice_for(file.path):
        opened = open_vault(vault_of(file, vault), to_change=not dry_run)
        with progress("Comparing") as advance:
            plan = plan_project(file, opened, prune=prune, look=not quick, progress=advance)
        if as_json:
            _print_as_json(plan, dry_run=dry_run)
            return
        if plan.cannot:
            _tell_all(plan.lines)
        carry_out(plan, _tell, progress, dry_run=dry_run)
    _tell_all(plan.stays)
    say(_ending(plan, dry_run=dry_run))


def _tell(line: "PlanLine") -> None:
    tell(str(line))


def _tell_all(lines: "Sequence[PlanLine]") -> None:
    for line in lines:
        _tell(line)


def _print_as_json(plan: "Plan", *, dry_run: bool) -> None:
    """Carry out a plan, and print it as JSON with what was done, also if something is refused."""
    from cornerwave.project import carry_out

    lines = list["PlanLine"]()
    try:
        carry_out(plan, lines.append, progress, dry_run=dry_run)
    finally:
        print_json(plan.to_json(() if dry_run else lines))


def _ending(plan: "Plan", *, dry_run: bool) -> str:
    count = sum(len(action.lines) for action in plan.actions)
    if not count:
        return f"Nothing to do: the vault is as {plan.name} states"
    what = "1 thing" if count == 1 else f"{count} things"
    return f"Would do {what}; nothing was changed" if dry_run else f"Did {what}"


@contextmanager
def _advice_for(path: Path) -> Iterator[None]:
    """Give advice in the words of the file: options of other commands are of no use here."""
    try:
        with advice_for(path):
            yield
    except CornerwaveError as error:
        error.use = tuple(each for each in error.use if " " in each or each in _COMMANDS)
        raise


_COMMANDS = ("init", "append", "update", "by")
"""Commands, and the option of this one, that an error may recommend here as well."""
