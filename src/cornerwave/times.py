"""Dates and spans of time as people write them.

Copies count dates in days or seconds since 1970, and durations in seconds; `unit` says which.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

DAY, MINUTE = 86400.0, 60.0
SPANS = (("days", DAY), ("hours", 3600.0), ("minutes", MINUTE), ("seconds", 1.0))


def is_date(unit: str | None) -> bool:
    """Whether values of a unit are points in time."""
    return unit is not None and "1970" in unit


def seconds_of(value: float, unit: str) -> float:
    """Return a value, or a distance between two, in seconds."""
    return value * DAY if unit.startswith("days") else value


def moment(seconds: float, *, within: float = DAY) -> str:
    """Write a point in time, as precisely as something known within so many seconds deserves.

    >>> moment(86400.0 * 365.51), moment(86400.0 * 365.51, within=600.0), moment(1e30)
    ('1971-01-01', '1971-01-01 12:14', '1e+30')
    """
    try:
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return f"{seconds:.4g}"
    if within >= DAY:
        return when.date().isoformat()
    return when.strftime("%Y-%m-%d %H:%M" if within >= MINUTE else "%Y-%m-%d %H:%M:%S")


def span_of(seconds: float) -> tuple[str, float]:
    """Return the unit that people would use for so many seconds, and its length."""
    return next((span for span in SPANS if abs(seconds) >= span[1]), SPANS[-1])


_LARGE = (("trillion", 1e12), ("billion", 1e9), ("million", 1e6))


def ends(values: Sequence[float], unit: str | None) -> list[str]:
    """Write the ends of an axis; dates as dates, durations and large numbers in one unit.

    >>> ends([0.0, 12000.0], None), ends([-7200.0, 36000.0], "seconds")
    (['0', '12,000'], ['-2 hours', '10 hours'])
    >>> ends([-105e6, 0.0, 4e8], None)
    ['-105 million', '0', '400 million']
    """
    if unit is None:
        most = max(map(abs, values))
        name, size = next((each for each in _LARGE if each[1] <= most < 1e15), ("", 1.0))
        digits = 4 if name else 6
        return [f"{v / size:,.{digits}g} {name}".rstrip() if v else "0" for v in values]
    seconds = [seconds_of(value, unit) for value in values]
    if is_date(unit):
        return [moment(each, within=max(seconds) - min(seconds)) for each in seconds]
    name, size = span_of(max(seconds, key=abs))
    return [f"{each / size:,.4g} {name}" for each in seconds]
