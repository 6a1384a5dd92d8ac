"""A page about a registered dataset: for its owner, or for others.

    vault ──make again──> copies ──look──> Copies ──────────────┐
    source ──look, with the copies' bins and labels──> Original ┴─> page

What is for others is drawn from `Copies` alone, which never saw the original.
"""

from cornerwave.report.spine import write_report

__all__ = ["write_report"]
