"""What a miner computes from a table, and the tables of results in a report.

The original is asked in the same way as a copy: as one whose columns were all kept.
Standard errors are those of the noise alone, so they show what the noise costs.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from cornerwave.document import DAY, SPANS, DataTable, is_date, moment, seconds_of, span_of
from cornerwave.errors import ColumnError, collecting_warnings
from cornerwave.levels import Level
from cornerwave.miner import Copy, CopyColumn, Estimate
from cornerwave.sources import Source

MOST_PAIRS = 15
"""So many correlations are shown: those of six columns."""
MOST_DIGITS = 9
NONE = "–"
MEANS, DEVIATIONS, CORRELATIONS = "Means", "Standard deviations", "Correlations"
FREQUENCIES = "Category frequencies"

Results = dict[str, Estimate]
"""Estimates by what they are of."""


@dataclass(frozen=True)
class Questions:
    """What is asked of each table; the last number is regressed on the columns `on`."""

    titles: Mapping[str, str]
    """The number columns, each with the name that it is shown by."""
    labels: Mapping[str, Sequence[Any]]
    """The category columns, each with the values to count."""
    on: tuple[str, ...]
    units: Mapping[str, str | None]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The number columns."""
        return tuple(self.titles)

    @property
    def regression(self) -> str:
        """The heading of the regression, with the unit of what is regressed."""
        if not self.titles:
            return ""
        name, title = list(self.titles.items())[-1]
        unit = self.units.get(name)
        return f"Linear regression of {title}{f' ({unit})' if unit else ''}"

    def writing(self, heading: str, title: str) -> "Writing":
        """Return how the results under a heading are written for a column of this title."""
        unit = {self.titles[name]: self.units.get(name) for name in self.titles}.get(title)
        return Writing(unit if heading in (MEANS, DEVIATIONS) else None, heading == DEVIATIONS)


@dataclass(frozen=True)
class Answers:
    """The results by heading, without those that a table cannot give, and notes on bias."""

    results: Mapping[str, Results]
    notes: tuple[str, ...]


def ask(copy: Copy, asked: Questions) -> Answers:
    """Ask a table; what it cannot answer without bias is noted."""
    questions: dict[str, Callable[[Copy, Questions], Results]] = {
        MEANS: _means,
        DEVIATIONS: _deviations,
        CORRELATIONS: _correlations,
        asked.regression: _regression,
        FREQUENCIES: _frequencies,
    }
    with collecting_warnings() as caught:
        results = {
            heading: _unless_refused(lambda q=question: q(copy, asked))  # type: ignore[misc]
            for heading, question in questions.items()
        }
    return Answers(results, tuple(dict.fromkeys(caught)))


def as_kept(source: Source, columns: Iterable[CopyColumn]) -> Copy:
    """Return the original as a copy to which nothing was done."""
    kept = {
        column.name: CopyColumn(
            column.name,
            column.is_number,
            transform=column.transform,
            hides_missing=column.hides_missing and not column.is_number,
        )
        for column in columns
    }
    return Copy(source, Level(1.0), kept)


def _means(copy: Copy, asked: Questions) -> Results:
    if not asked.titles:
        return {}
    means = copy.mean(asked.numbers, of="table")
    return {asked.titles[name]: means[name] for name in asked.numbers}


def _deviations(copy: Copy, asked: Questions) -> Results:
    if not asked.titles:
        return {}
    covariance = copy.covariance(asked.numbers, of="table")
    return {asked.titles[name]: _root(covariance[name, name]) for name in asked.numbers}


def _root(variance: Estimate) -> Estimate:
    """Return a standard deviation from a variance: d sqrt(x) = dx / (2 sqrt(x))."""
    value = float(np.sqrt(max(variance.value, 0.0)))
    return Estimate(value, variance.standard_error / (2 * value) if value else 0.0)


def _correlations(copy: Copy, asked: Questions) -> Results:
    if len(asked.titles) < 2:
        return {}
    correlation, titles = copy.correlation(asked.numbers, of="table"), asked.titles
    pairs = list(combinations(asked.numbers, 2))[:MOST_PAIRS]
    return {f"{titles[one]}, {titles[other]}": correlation[one, other] for one, other in pairs}


def _regression(copy: Copy, asked: Questions) -> Results:
    if not asked.on:
        return {}
    fitted = copy.regression(asked.numbers[-1], on=asked.on, of="table")
    names = [str(name) for name in fitted.coefficients.labels[0]]
    results = {asked.titles.get(name, name): fitted.coefficients[name] for name in names}
    return results | {"R²": Estimate(round(fitted.r_squared, 4), 0.0)}


def _frequencies(copy: Copy, asked: Questions) -> Results:
    results: Results = {}
    for name, labels in asked.labels.items():
        results |= _unless_refused(lambda n=name, ls=labels: _shares(copy, n, ls))  # type: ignore[misc]
    return results


def _shares(copy: Copy, name: str, labels: Sequence[Any]) -> Results:
    shares = copy.frequencies(name, of="table")
    known = set(shares.labels[0])
    return {value_title(name, label): shares[label] for label in labels if label in known}


def value_title(name: str, label: Any) -> str:
    """Return what a value of a category is called in a table."""
    return f"{name} = {'missing' if label is None else label}"


def _unless_refused(answer: Callable[[], Results]) -> Results:
    try:
        return answer()
    except ColumnError:
        return {}


def result_tables(
    copies: Mapping[str, Answers],
    original: Answers | None,
    values: Sequence[str],
    asked: Questions,
) -> list[DataTable]:
    """Return the copies' results, by name of the copy, beside the original's if it is given.

    A line per question, with a cell per table that was asked. Of the frequencies only those of
    `values` are shown.
    """
    tables = []
    for heading in next(iter(copies.values())).results:
        columns = [answers.results[heading] for answers in copies.values()]
        names = list(dict.fromkeys(name for results in columns for name in results))
        exact = original.results[heading] if original else None
        rows = [
            _line(name, columns, exact, asked.writing(heading, name))
            for name in (values if heading == FREQUENCIES else names)
        ]
        first = {CORRELATIONS: "columns", FREQUENCIES: "value"}.get(heading, "column")
        header = (first, *(["original"] if original else []), *copies)
        if rows:
            tables.append(DataTable(header, rows, heading))
    return tables


def _line(
    name: str, columns: Sequence[Results], original: Results | None, writing: "Writing"
) -> tuple[str, ...]:
    answers = [results.get(name) for results in columns]
    least = min((answer.standard_error for answer in answers if answer), default=0.0)
    first = [writing.exact(original.get(name), least)] if original is not None else []
    return (name, *first, *map(writing.estimate, answers))


@dataclass(frozen=True)
class Writing:
    """How results of a unit are written: dates as dates, spans of time with their unit."""

    unit: str | None
    is_span: bool = False

    def estimate(self, result: Estimate | None) -> str:
        """Write an estimate with its standard error.

        >>> Writing("days since 1970-01-01").estimate(Estimate(18644.3, 4.41))
        '2021-01-17 ± 4.4 days'
        >>> Writing("seconds", is_span=True).estimate(Estimate(80446.0, 700.0))
        '22.35 ± 0.19 hours'
        """
        if self.unit is None or result is None or not math.isfinite(result.value):
            return figure(result)
        seconds = seconds_of(result.value, self.unit)
        error = seconds_of(result.standard_error, self.unit)
        if not is_date(self.unit) or self.is_span:
            name, size = span_of(seconds)
            return f"{figure(Estimate(seconds / size, error / size))} {name}"
        name, size = span_of(error)
        within = float(f"{error / size:.2g}")
        return f"{moment(seconds, within=error)} ± {within:,g} {name}"

    def exact(self, result: Estimate | None, beside: float) -> str:
        """Write an exact value, more precisely than an estimate of this error beside it."""
        if self.unit is None or result is None or not math.isfinite(result.value):
            return exact(result, beside)
        seconds = seconds_of(result.value, self.unit)
        error = seconds_of(beside, self.unit)
        if not is_date(self.unit) or self.is_span:
            name, size = span_of(seconds)
            return f"{exact(Estimate(seconds / size, 0.0), error / size)} {name}"
        within = next((size for _, size in SPANS if size < error), 1.0)
        return moment(seconds, within=min(within, DAY / 2))


def figure(result: Estimate | None) -> str:
    """Write an estimate to the second digit of its standard error.

    >>> figure(Estimate(10.1234, 0.0321)), figure(Estimate(10.12345678, 0.0)), figure(None)
    ('10.123 ± 0.032', '10.123', '–')
    """
    if result is None or not math.isfinite(result.value):
        return NONE
    if not result.standard_error > 0:
        return f"{result.value:,.5g}" if abs(result.value) < 1e6 else f"{result.value:.4e}"
    digits = _digits(result.standard_error)
    # no column is wide enough for more digits than these
    if digits > MOST_DIGITS or abs(result.value) > 1e12:
        return f"{result.value:.4e} ± {result.standard_error:.1e}"
    value, error = f"{result.value:,.{digits}f}", f"{result.standard_error:,.{digits}f}"
    return f"{value} ± {error}"


def exact(result: Estimate | None, beside: float) -> str:
    """Write an exact value with one digit more than the estimate of this error beside it.

    >>> exact(Estimate(10.12345678, 0.0), beside=0.0321)
    '10.1235'
    """
    if result is None or not (math.isfinite(result.value) and beside > 0):
        return figure(result and Estimate(result.value, 0.0))
    digits = _digits(beside) + 1
    if digits > MOST_DIGITS or abs(result.value) > 1e12:
        return f"{result.value:.5e}"
    return f"{result.value:,.{digits}f}"


def _digits(error: float) -> int:
    """Return the decimals down to the second digit of an error; none for one above 10."""
    return max(1 - math.floor(math.log10(error)), 0) if math.isfinite(error) else 0
