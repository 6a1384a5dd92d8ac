"""Many tables by one file: what an owner states of them, and how a vault is brought there.

    file = read_project(Path("cornerwave.toml"))
    plan = plan_project(file, vault)                   # compares, changes nothing
    carry_out(plan, print, working)                    # one line for each thing done

    _project_file   the file: every key with its kind; paths relative to the file
    _actions        what a plan is made of
    _table_plan     a table: registered, and with which editions
    _copy_plan      its copies: held, and where they should be
    _grant_plan     recipients and grants, and what the file no longer has
    _plan           all of it; in which order it is done

In: a file and a vault. Out: a `Plan`. To add something that a file can state: a key in
_project_file, and an `Action` where it is compared with the vault.
"""

from cornerwave.project._actions import PlanLine
from cornerwave.project._plan import Plan, carry_out, plan_project, vault_of
from cornerwave.project._project_file import FILE, ProjectFile, read_project

__all__ = [
    "FILE",
    "Plan",
    "PlanLine",
    "ProjectFile",
    "carry_out",
    "plan_project",
    "read_project",
    "vault_of",
]
