"""Many attempts: in this process, or in children whose deaths are seen."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.attempts import Tried, attempt

SECONDS_PER_BATCH = 300
DIED = -1


def here(world: Path, folder: Path, kind: str, numbers: Iterable[int]) -> list[Tried]:
    """Make attempts in this process."""
    return [attempt(world, folder, kind, number) for number in numbers]


def in_children(
    world: Path, kind: str, numbers: range, *, seconds: float = SECONDS_PER_BATCH
) -> list[Tried]:
    """Make attempts in a child, and from where it died in another one."""
    tried: list[Tried] = []
    while len(tried) < len(numbers):
        tried += _child(world, kind, numbers[len(tried) :], seconds)
    return tried


def _child(world: Path, kind: str, numbers: range, seconds: float) -> list[Tried]:
    """Return the attempts that a child made; the last one may have been fatal."""
    words = [sys.executable, "-m", "tests.fuzz.child", str(world), kind]
    try:
        done = subprocess.run(
            [*words, str(numbers.start), str(numbers.stop)],
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        ending, out = f"died with {done.returncode}\n{done.stderr[-2000:]}", done.stdout
    except subprocess.TimeoutExpired as late:
        ending, out = f"took more than {seconds} seconds", _text(late.stdout)
    told = [json.loads(line) for line in out.splitlines()]
    tried = [Tried(**each) for each in told if "what" in each]
    if len(tried) < len(numbers):
        tried.append(Tried(numbers[len(tried)], f"{kind} {numbers[len(tried)]}", DIED, ending))
    return tried


def _text(output: bytes | str | None) -> str:
    return output.decode() if isinstance(output, bytes) else output or ""
