from dataclasses import replace

import pytest
from cornerwave_reproduction import Effort, Setting, _drawing, people
from cornerwave_reproduction._requests import requested
from threadpoolctl import threadpool_limits

QUICK = Effort(
    copies=12,
    sample_draws=8,
    utility_levels=2,
    utility_seeds=2,
    folds=2,
    timed_rows=2_000,
    timed_repeats=1,
    largest_matrix=50,
    attacked_rows=800,
    reference_rows=400,
    leaked_rows=400,
    miner_seeds=4,
)
"""Enough to see that everything runs."""


def first_rows(table, rows):
    return replace(table, rows=table.rows[:rows])


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Idle threads of numeric libraries spin, and slow down tests that run side by side."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session", autouse=True)
def small_figures():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(_drawing.STYLE, "savefig.dpi", 40)
        yield


@pytest.fixture(scope="session")
def setting():
    """Twelve copies of 20,000 people."""
    return Setting(first_rows(people(), 20_000), 1, QUICK)


@pytest.fixture(scope="session")
def requests(setting):
    return requested(setting)
