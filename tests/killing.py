"""Processes that are killed at a chosen moment: before or after a step that touches a file."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any


def arm(seams: Sequence[tuple[Any, str]], kill_at: int, log: int, only: str = "") -> None:
    """Kill this process at the k-th event: the moment before or after a call of one of the seams.

    Only events whose name contains `only` count. The name of the last one goes to `log`.
    """
    count = 0

    def event(name: str) -> None:
        nonlocal count
        count += only in name
        if count == kill_at:
            os.write(log, name.encode())
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            event("before " + name)
            result = original(*args, **kwargs)
            event("after " + name)
            return result

        return call

    for home, name in seams:
        setattr(home, name, watched(getattr(home, name), name))


def forked(work: Callable[[], Any]) -> int:
    """Do some work in a child of this process; return how it ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitpid(child, 0)[1]
