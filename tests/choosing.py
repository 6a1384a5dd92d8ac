"""Which cases of a test run every time, and which with the slow ones."""

from collections.abc import Iterable
from typing import Any

import pytest


def one_now(cases: Iterable[Any], *now: Any) -> list[Any]:
    """Return cases of which the first, or those named, run every time."""
    every = list(cases)
    quick = now or every[:1]
    assert set(quick) <= set(every)
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in every]
