"""Waiting for what other threads and processes do: by a deadline, never by a fixed sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

SECONDS = 30.0
"""Longer than anything takes: a test that waits in vain fails."""
Found = TypeVar("Found")


def until(look: Callable[[], Found], is_there: Callable[[Found], bool] = bool) -> Found:
    """Return what `look` finds as soon as it is what a test waits for. Raises AssertionError."""
    deadline, pause = time.monotonic() + SECONDS, 0.001
    while not is_there(found := look()):
        assert time.monotonic() < deadline, f"not within {SECONDS:g} seconds"
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
    return found
