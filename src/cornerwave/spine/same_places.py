"""Categories that everybody has alike at the same place of their histories, such as the year.

An event replaces the history of a person by that of a donor with as many rows, row by row, in the
order of time. What a donor has for sure in the same place is no secret: with z an indicator, i its
row's place among the m rows of its person, copies show E[z | i, m] whatever the noise. The share
1 - MSW / Var of z is that, if rows at each place are enough; of few rows, by i alone.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from cornerwave.arrays import Floats, Ints, lengths_of
from cornerwave.columns import listed
from cornerwave.errors import ColumnError
from cornerwave.privacy import PersonRows

LEAST_AT_PLACE, SLIGHT = 50, 0.02
"""Rows at one place, to know what categories have there; a smaller share is chance."""
LEAST_SECRET = 0.05
"""A category of which less than this share differs between persons at a place is refused."""
MOST_NAMED = 6


def shown_by_place(drawn: Floats, starts: Ints) -> Iterator[Floats]:
    """Yield E[z | i, m] of the indicators z (k, rows) of a category where it is more than chance.

    Rows are sorted by person, `starts` is where each begins, and by time.
    """
    codes = _places(starts, drawn.shape[1])
    counts = np.bincount(codes)
    for z in drawn:
        means = (np.bincount(codes, weights=z) / counts)[codes]
        if _within(z, means, len(counts)) < (1 - SLIGHT) * z.var():
            yield np.where(counts[codes] < LEAST_AT_PLACE, z.mean(), means)


def check_places(persons: Sequence[PersonRows]) -> None:
    """Raise ColumnError for categories that everybody runs through in the same order of times."""
    columns: list[str] = []
    for rows in (each for each in persons if each.in_time):
        codes = _places(rows.starts, rows.numbers.shape[1])
        counts = np.bincount(codes)
        for name, drawn in rows.categories.items():
            within = sum(
                _within(z, (np.bincount(codes, weights=z) / counts)[codes], len(counts))
                for z in drawn
            )
            if within < LEAST_SECRET * drawn.var(axis=1).sum():
                columns.append(name)
    if columns:
        more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
        it, them = ("it", "it is") if len(columns) == 1 else ("them", "they are")
        raise ColumnError(
            f"every person has the same values of {listed(columns[:MOST_NAMED])}{more} in the same "
            f"order in time, so that the history of any other person shows {it} unchanged: noise "
            f"cannot hide {it}. Drop {it}, or keep {it} as {them}",
            use=("drop", "keep"),
        )


def _places(starts: Ints, rows: int) -> Ints:
    """Return codes of (i, m), the place of each row and the number of rows, or of i alone."""
    sizes = lengths_of(starts, rows)
    many, place = np.repeat(sizes, sizes), np.arange(rows) - np.repeat(starts, sizes)
    of_both = place + (1 + int(place.max(initial=0))) * many
    codes = np.unique(of_both, return_inverse=True)[1]
    few = np.bincount(codes, minlength=1)[codes] < LEAST_AT_PLACE
    return np.asarray(np.unique(np.where(few, place, of_both), return_inverse=True)[1])


def _within(z: Floats, means: Floats, groups: int) -> float:
    """Return MSW, the variance about the means of groups."""
    return float(((z - means) ** 2).sum() / max(1, len(z) - groups))
