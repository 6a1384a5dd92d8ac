"""Threads of ours and of BLAS: one of these for each of ours, or they wait for each other."""

import os
import subprocess
import sys

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from cornerwave.passes import in_threads

SEVERAL = 3


def blas_threads() -> set[int]:
    np.ones((2, 2)) @ np.ones((2, 2))
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def within_ours() -> set[int]:
    with in_threads(lambda _: blas_threads(), [1, 2], 2) as found:
        return set.union(*found)


def test_blas_has_one_thread_while_ours_work_and_its_own_after():
    with threadpool_limits(SEVERAL, user_api="blas"):
        assert blas_threads() == {SEVERAL}
        assert within_ours() == {1}
        assert blas_threads() == {SEVERAL}


def test_a_command_starts_no_threads_of_blas():
    code = (
        "import os\n"
        "from cornerwave import cli\n"
        "{run}"
        "import numpy, threadpoolctl\n"
        "print(*(each['num_threads'] for each in threadpoolctl.threadpool_info()))"
    )
    command = "try:\n    cli.main(['--help'])\nexcept SystemExit:\n    pass\n"
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    last = []
    for run in (command, ""):
        done = subprocess.run(
            [sys.executable, "-c", code.format(run=run)],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        last.append(set(done.stdout.splitlines()[-1].split()))
    assert last[0] == {"1"}
    if (os.cpu_count() or 1) > 1:  # the control: without a command there are several
        assert last[1] != {"1"}
