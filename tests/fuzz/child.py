"""Make attempts in a process of their own: `python -m tests.fuzz.child WORLD KIND:NUMBER ...`.

Each attempt is a line of JSON, so that the one after the last line is known to be fatal.
"""

import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path


def main(world: str, *wanted: str) -> None:
    """Make the attempts, or what the fuzzer must notice: a crash, a hang."""
    with tempfile.TemporaryDirectory() as folder:
        for each in wanted:
            kind, _, number = each.partition(":")
            if kind == "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            if kind == "sleep":
                time.sleep(60)
            from tests.fuzz.attempts import attempt  # takes longer than a crash

            tried = attempt(Path(world), Path(folder) / "world", kind, int(number))
            print(json.dumps(asdict(tried)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
