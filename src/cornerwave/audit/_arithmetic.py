"""Numbers from outside may be so large, small or far apart that no double holds their squares."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from cornerwave.errors import SourceError


@contextmanager
def refuse_overflow() -> Iterator[None]:
    """Raise SourceError where arithmetic overflows: a NaN would pass any check after it.

    >>> with refuse_overflow():
    ...     np.float64(1e200) ** 2
    Traceback (most recent call last):
    cornerwave.errors.SourceError: the values are too large or too far apart to be compared...
    """
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            yield
    except (FloatingPointError, OverflowError, np.linalg.LinAlgError):
        raise SourceError(
            "the values are too large or too far apart to be compared: check that the files are "
            "copies of one table in the same units"
        ) from None
