"""Cornerwave: one table, many recipients, and no gain from collusion.

    register   source ── rows ── survey (parts add up) ── freeze ── ledger: a dataset
    release    source ── rows ── recipe (pure) ── copies ── registered table? ── ledger ── files

    copy at noise v    Y(v) = X + W(v),   Cov(W(u), W(v)) = min(u, v) S,   S = K or more
      numbers          one path of keyed noise for each row; with a unit, one for each person, too
      categories       keyed events refresh cells; with a unit, whole histories of persons
      its look         drawn together, c + f (Y - c), so that it varies as the table does
    privacy p          the least share of a column, or of what a person has, that stays hidden from
                       estimates linear in the noise and arbitrary in what is shown without noise

For owners: `Vault`, `Dataset`, `Release`, `Level`, also for tables that grow (`Dataset.append`,
`Dataset.update`) and for several tables of the same persons (`Vault.register_linked`). For
recipients: `cornerwave.miner`. For
auditors: `cornerwave.audit`. For researchers: `parallel`, `sequential`, `on_demand` and
`corner_wave`, over arrays.
"""

from typing import TYPE_CHECKING, Any

from cornerwave.version import __version__

if TYPE_CHECKING:
    from cornerwave.algorithms import (
        corner_wave,
        is_corner_wave,
        on_demand,
        parallel,
        sequential,
    )
    from cornerwave.levels import Level, Privacy
    from cornerwave.privacy import Coalition
    from cornerwave.vault import Dataset, Release, Vault, write_all, write_all_spark

_HOMES = {
    "corner_wave": "algorithms",
    "is_corner_wave": "algorithms",
    "on_demand": "algorithms",
    "parallel": "algorithms",
    "sequential": "algorithms",
    "Coalition": "privacy",
    "Level": "levels",
    "Privacy": "levels",
    "Dataset": "vault",
    "Release": "vault",
    "Vault": "vault",
    "write_all": "vault",
    "write_all_spark": "vault",
}

__all__ = [
    "Coalition",
    "Dataset",
    "Level",
    "Privacy",
    "Release",
    "Vault",
    "__version__",
    "corner_wave",
    "is_corner_wave",
    "on_demand",
    "parallel",
    "sequential",
    "write_all",
    "write_all_spark",
]


def __getattr__(name: str) -> Any:
    # The command line imports this package to show its help: nothing heavy may come along.
    if name not in _HOMES:
        raise AttributeError(f"module 'cornerwave' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"cornerwave.{_HOMES[name]}"), name)
