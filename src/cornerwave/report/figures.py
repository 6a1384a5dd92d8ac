"""The miner's figures as tables: a line per question, the original's answer beside each copy's."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.miner import Estimate
from cornerwave.report.copies import Copies
from cornerwave.report.mined import Mined
from cornerwave.report.picture import named
from cornerwave.report.tally import Counts, Tally, common

MOST_PAIRS = 15
MOST_DIGITS = 9
NONE = "–"

Row = tuple[str, ...]
Ask = Callable[[Mined], Estimate | None]


@dataclass(frozen=True)
class Figures:
    """A table of the report: a title, its header and its lines."""

    title: str
    header: Row
    rows: tuple[Row, ...]


def figures(copies: Copies, original: Mined | None, tallies: Sequence[Tally]) -> list[Figures]:
    """Return the tables; without an original they hold the copies' answers alone."""
    parts = [
        ("Means", _means(copies)),
        ("Standard deviations", _deviations(copies)),
        ("Correlations", _correlations(copies)),
        (_regression_title(copies), _coefficients(copies)),
        ("Shares of categories", _shares(copies, tallies)),
    ]
    header = (*(["original"] if original else []), *(named(level) for level in copies.levels))
    return [
        Figures(title, ("", *header), rows)
        for title, questions in parts
        if (rows := tuple(_line(name, ask, copies, original) for name, ask in questions))
    ]


def figure(found: Estimate | None) -> str:
    """Write an estimate to the second digit of its standard error.

    >>> figure(Estimate(10.1234, 0.0321)), figure(Estimate(10.12345678, 0.0)), figure(None)
    ('10.123 ± 0.032', '10.123', '–')
    """
    if found is None or not math.isfinite(found.value):
        return NONE
    if not found.standard_error > 0:
        return f"{found.value:,.5g}" if abs(found.value) < 1e6 else f"{found.value:.4e}"
    digits = _digits(found.standard_error)
    if digits > MOST_DIGITS or abs(found.value) > 1e12:
        return f"{found.value:.4e} ± {found.standard_error:.1e}"
    return f"{found.value:,.{digits}f} ± {found.standard_error:,.{digits}f}"


def exact(found: Estimate | None, beside: float) -> str:
    """Write an exact value with one digit more than the estimate of this error beside it.

    >>> exact(Estimate(10.12345678, 0.0), beside=0.0321)
    '10.1235'
    """
    if found is None or not (math.isfinite(found.value) and beside > 0):
        return figure(found and Estimate(found.value, 0.0))
    digits = _digits(beside) + 1
    if digits > MOST_DIGITS or abs(found.value) > 1e12:
        return f"{found.value:.5e}"
    return f"{found.value:,.{digits}f}"


def _digits(error: float) -> int:
    return max(1 - math.floor(math.log10(error)), 0) if math.isfinite(error) else 0


def _line(name: str, ask: Ask, copies: Copies, original: Mined | None) -> Row:
    answers = [ask(mined) for mined in copies.mined]
    least = min((found.standard_error for found in answers if found), default=0.0)
    first = [exact(ask(original), least)] if original else []
    return (name, *first, *map(figure, answers))


def _means(copies: Copies) -> Iterator[tuple[str, Ask]]:
    for name in copies.asked.numbers:
        yield _with_unit(copies, name), lambda m, name=name: m.mean and m.mean[name]  # type: ignore[misc]


def _deviations(copies: Copies) -> Iterator[tuple[str, Ask]]:
    for name in copies.asked.numbers:
        yield _with_unit(copies, name), lambda m, name=name: m.deviation.get(name)  # type: ignore[misc]


def _with_unit(copies: Copies, name: str) -> str:
    unit = (copies.shown.units or {}).get(name)
    return f"{copies.title(name)} ({unit})" if unit else copies.title(name)


def _correlations(copies: Copies) -> Iterator[tuple[str, Ask]]:
    for one, other in list(combinations(copies.asked.numbers, 2))[:MOST_PAIRS]:
        yield (
            f"{copies.title(one)}, {copies.title(other)}",
            lambda m, pair=(one, other): m.correlation and m.correlation[pair],  # type: ignore[misc]
        )


def _regression_title(copies: Copies) -> str:
    numbers = copies.asked.numbers
    return f"Regression of {copies.title(numbers[-1])}" if numbers else ""


def _coefficients(copies: Copies) -> Iterator[tuple[str, Ask]]:
    fitted = next((mined.regression for mined in copies.mined if mined.regression), None)
    for name in fitted.coefficients.labels[0] if fitted else ():
        title = copies.title(str(name)) if name in copies.axes else str(name)
        yield title, lambda m, name=name: _coefficient(m, name)  # type: ignore[misc]
    if fitted:
        yield (
            "share of variance explained",
            lambda m: Estimate(round(m.regression.r_squared, 4), 0.0) if m.regression else None,
        )


def _coefficient(mined: Mined, name: str) -> Estimate | None:
    if mined.regression is None or name not in mined.regression.coefficients.labels[0]:
        return None
    return mined.regression.coefficients[name]


def _shares(copies: Copies, tallies: Sequence[Tally]) -> Iterator[tuple[str, Ask]]:
    for column in copies.categories:
        for place in common(tallies, column.name):
            label = copies.labels[column.name][place].as_py()
            yield (
                f"{column.name} = {'missing' if label is None else label}",
                lambda m, name=column.name, label=label: _share(m, name, label),  # type: ignore[misc]
            )


def _share(mined: Mined, name: str, label: object) -> Estimate | None:
    found = mined.shares.get(name)
    return found[label] if found is not None and label in found.labels[0] else None


def shares_of(counts: Counts, rows: int) -> Floats:
    """Return counts as shares of all rows."""
    return np.asarray(counts / max(rows, 1), dtype=np.float64)
