"""Runs a script as other processors would: what it prints must be the same on all."""

import os
import subprocess
import sys

from cornerwave._core import runnable

INSTRUCTIONS = [name.removeprefix("_") for name in runnable()]
"""What this processor has: portable, and on x86-64 perhaps avx2 and avx512."""


def reports_of(script: str) -> list[str]:
    """Return what a script prints in processes of their own, one for each instruction set."""
    return [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"CORNERWAVE_INSTRUCTIONS": instructions},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for instructions in INSTRUCTIONS
    ]


def same_lines_of(script: str) -> list[str]:
    """Return the lines that a script prints; fail unless they are the same on all processors."""
    first, *others = reports_of(script)
    assert all(other == first for other in others)
    return first.splitlines()
