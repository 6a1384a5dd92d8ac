"""What goes wrong on a cluster, once: these run on its machines, before our work sees the rows."""

import os
import time
from pathlib import Path

PATIENCE = 600.0


def _first(marker):
    """Whether this is the first time that somebody is here."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _attempted(folder):
    from pyspark import TaskContext

    task = TaskContext.get()
    Path(folder, f"task-{task.partitionId()}-{task.taskAttemptId()}").touch()


def failing_once(folder):
    """One task gives its rows, and then fails; tried again, it does not."""

    def task(batches):
        yield from batches
        _attempted(folder)
        if _first(Path(folder, "failed")):
            raise RuntimeError("a fault that passes")

    return task


def waiting(folder, *, for_twin=False):
    """One task gives its rows, and then waits: until it may go on, or until it is run again."""

    def task(batches):
        from pyspark import TaskContext

        _attempted(folder)
        number = TaskContext.get().partitionId()
        if for_twin and Path(folder, f"waiting-{number}").exists():
            Path(folder, "go").touch()
        yield from batches
        if _first(Path(folder, "waiting")):
            Path(folder, f"waiting-{number}").touch()
            Path(folder, "where").write_text(os.environ["SPARK_LOCAL_DIRS"])
            Path(folder, "here").touch()
            end = time.monotonic() + PATIENCE
            while not Path(folder, "go").exists() and time.monotonic() < end:
                time.sleep(0.05)

    return task


def wait_for(path):
    end = time.monotonic() + PATIENCE
    while not Path(path).exists():
        assert time.monotonic() < end, f"{path} does not appear"
        time.sleep(0.05)
