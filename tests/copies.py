"""Copies as a ledger keeps them, for tests of the ledger."""

from typing import Any

from cornerwave.levels import LATTICE, Level
from cornerwave.spec import CopySpec


def at(level: int, **known: Any) -> CopySpec:
    """Return a copy at a level of the lattice, counted from 1."""
    return CopySpec(Level(LATTICE[level - 1]), **known)
