"""Run attempts in a process of their own: `python -m tests.fuzz.child WORLD KIND FIRST LAST`.

Each attempt is named before it is made, so that whoever watches knows which one was fatal.
"""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.attempts import attempt


def main(world: str, kind: str, first: str, last: str) -> None:
    """Print a line of JSON before and after each attempt."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(int(first), int(last)):
            print(json.dumps({"number": number}), flush=True)
            tried = attempt(Path(world), Path(folder) / "world", kind, number)
            print(json.dumps(asdict(tried)), flush=True)


main(*sys.argv[1:])
