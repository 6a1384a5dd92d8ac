"""What it takes to bring a vault to the state that a file describes, and to do it.

    read_project ── compare with the vault ── Plan ── carry out, action by action

Each action is whole or not at all, and the next plan begins with what is there: so a run that was
killed is completed by the next, and one that has nothing to do does nothing.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from cornerwave.access import Sharing
from cornerwave.errors import ProjectError, in_table
from cornerwave.kinds import JsonObject
from cornerwave.project._actions import Action, Findings, PlanLine
from cornerwave.project._copy_plan import plan_copies
from cornerwave.project._grant_plan import plan_grants, plan_recipients, plan_the_rest
from cornerwave.project._project_file import ProjectFile
from cornerwave.project._table_plan import TableOfProject, plan_table
from cornerwave.sources import Progress, silent
from cornerwave.vault import VAULT_NAME, Vault, vault_place


@dataclass(frozen=True)
class Plan:
    """Actions in their order; what the vault has and the file has not; what cannot be done."""

    name: str
    actions: tuple[Action, ...]
    stays: tuple[PlanLine, ...]
    cannot: tuple[PlanLine, ...]

    @property
    def lines(self) -> list[PlanLine]:
        """All lines, in their order."""
        done = [line for action in self.actions for line in action.lines]
        return [*done, *self.stays, *self.cannot]

    def check(self) -> None:
        """Raise ProjectError if something cannot be done: then nothing is."""
        if self.cannot:
            many = f"{len(self.cannot)} things" if len(self.cannot) > 1 else "one thing"
            raise ProjectError(
                f"{self.name} states {many} that cannot be done (the lines with !); nothing was "
                "changed"
            )

    def to_json(self, done: Sequence[PlanLine] = ()) -> JsonObject:
        """Return it for programs; `done` are the lines of what was done."""
        lines = [line for action in self.actions for line in action.lines]
        return {
            "project": self.name,
            "actions": [{**line.to_json(), "done": line in done} for line in lines],
            "stays": [line.to_json() for line in self.stays],
            "cannot": [line.to_json() for line in self.cannot],
        }


def plan_project(
    file: ProjectFile,
    vault: Vault,
    *,
    prune: bool = False,
    look: bool = True,
    progress: Progress = silent,
) -> Plan:
    """Compare a file with a vault.

    With `prune`, grants that the file does not have are revoked. Unless `look`, rows of tables
    that are registered are not read: whether they changed shows when a copy is made of them.
    """
    sharing, found = Sharing(vault), Findings()
    plan_recipients(file, sharing, found)
    tables = [TableOfProject(stated, vault, tuple(file.recipients)) for stated in file.tables]
    names = {dataset.name for dataset in vault.datasets()}
    for table in tables:
        refused = len(found.cannot)
        plan_table(table, found, names, look=look, progress=progress)
        if len(found.cannot) == refused:  # else the rest would say it again
            plan_copies(table, found)
            plan_grants(table, sharing, found)
    plan_the_rest(tables, sharing, found, prune=prune)
    return Plan(file.path.name, tuple(found.actions), tuple(found.stays), tuple(found.cannot))


Working = Callable[[str], AbstractContextManager[Progress]]
"""Gives the progress of an action, by its first line."""


def carry_out(
    plan: Plan, done: Callable[[PlanLine], None], working: Working, *, dry_run: bool = False
) -> None:
    """Do what a plan states, and call `done` with each line after it was done.

    A `dry_run` records nothing; it registers tables for trial, so that refusals show.
    """
    plan.check()
    for action in plan.actions:
        do = action.rehearse if dry_run else action.do
        if do is not None:
            with working(action.lines[0].text) as progress:
                if action.table:
                    with in_table(action.table):
                        do(progress)
                else:
                    do(progress)
        for line in action.lines:
            done(line)


def vault_of(file: ProjectFile, given: Path | None = None) -> Path:
    """Return where the vault of a project is.

    Given, or stated in the file, or named by CORNERWAVE_VAULT, or beside the file.
    """
    named = given or file.vault
    if named is None and not os.environ.get("CORNERWAVE_VAULT"):
        named = file.path.absolute().parent / VAULT_NAME
    return vault_place(named)
