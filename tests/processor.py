"""Runs a script as another processor would: what it prints must be the same on all."""

import os
import subprocess
import sys


def report_of(script: str, **settings: str) -> str:
    """Return what a script prints in a process of its own, with these settings of Numba."""
    return subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
