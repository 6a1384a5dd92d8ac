"""Many attempts: in this process, or in children whose deaths are seen."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.fuzz.attempts import Tried, attempt

SECONDS_PER_ATTEMPT = 3
"""Far more than one takes: together they tell that one of them does not end."""
LOADING = 60
DIED = -1
ROOT = Path(__file__).parents[2]


def here(world: Path, folder: Path, kind: str, numbers: Iterable[int]) -> list[Tried]:
    """Make attempts in this process."""
    return [attempt(world, folder, kind, number) for number in numbers]


def in_children(
    world: Path, kinds: Sequence[str], numbers: range, *, seconds: float | None = None
) -> list[Tried]:
    """Make attempts of each kind in a child, and from where it died in another one."""
    wanted = [f"{kind}:{number}" for kind in kinds for number in numbers]
    tried: list[Tried] = []
    while len(tried) < len(wanted):
        left = wanted[len(tried) :]
        tried += _child(world, left, seconds or LOADING + SECONDS_PER_ATTEMPT * len(left))
    return tried


def _child(world: Path, wanted: Sequence[str], seconds: float) -> list[Tried]:
    """Return the attempts that a child made; the last one may have been fatal."""
    command = [sys.executable, "-m", "tests.fuzz.child", str(world), *wanted]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, cwd=ROOT)
        ending, out = f"died with {done.returncode}\n{done.stderr[-2000:]}", done.stdout
    except subprocess.TimeoutExpired as late:
        ending, out = f"took more than {seconds} seconds", _text(late.stdout)
    tried = [Tried(**json.loads(line)) for line in out.splitlines() if line.endswith("}")]
    if len(tried) < len(wanted):
        fatal = wanted[len(tried)]
        tried.append(Tried(int(fatal.split(":")[1]), fatal, DIED, ending))
    return tried


def fresh(world: Path, folder: Path) -> Path:
    """Return a copy of the world."""
    return Path(shutil.copytree(world, folder))


def _text(output: bytes | str | None) -> str:
    return output.decode() if isinstance(output, bytes) else output or ""
