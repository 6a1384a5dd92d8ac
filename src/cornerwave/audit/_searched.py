"""Looking for the rows of a table in a copy, of whatever tool: who knows a person finds his row?

What a copy states is undone: how numbers were drawn together, ranks, logarithms. Noise that it does
not state is measured beside the table: the covariance of copy minus table, and how often the cells
of a category are the table's. Columns that are the same in both are shown without noise. For other
than normal noise, which no release of Cornerwave has, a better likelihood may find more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cornerwave import document as doc
from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.attack import KnownCells, RowsAtRisk, ShownRows, find_rows
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._guesses import CategoriesRead, CategoryCodes
from cornerwave.choices import UNIFORM
from cornerwave.columns import RankDraws, Scale, knot_scores, listed
from cornerwave.errors import ColumnError, SourceError
from cornerwave.moments import Moments
from cornerwave.risks import Linkage, share
from cornerwave.sources import Progress, silent

FEWEST_ROWS = 20
"""Rows that a table needs to be searched."""


@dataclass(frozen=True)
class Searched:
    """How often rows of a table are found in a copy by somebody who knows some of its columns.

    `rows` of the table's `all_rows` were searched.
    """

    copy: str
    columns: tuple[str, ...]
    rows: int
    all_rows: int
    linkage: Linkage
    unit: str | None = None
    """The column that names the person of each row: rows were looked for one by one."""


def search_copies(
    truth: object,
    copies: Sequence[object],
    *,
    key: str | None = None,
    known: Sequence[str] = (),
    progress: Progress = silent,
) -> list[Searched]:
    """Look for rows of a table in each copy of it, knowing some columns, by default all.

    A set of copies reveals as much as its best one if they are Cornerwave's; of others each is
    searched by itself. Raises SourceError for a table of few rows, ColumnError for an unknown name.
    """
    aligned = Aligned.of(truth, copies, key=key)
    named = [*aligned.columns, *aligned.apart, *(n for group in aligned.categories for n in group)]
    if wrong := [name for name in known if name not in named]:
        raise ColumnError(
            f"{listed(wrong)}: not a column of numbers or categories that table and copies have; "
            f"these are {listed(named)}"
        )
    return [_searched(aligned, copy, list(known) or named, progress) for copy in range(len(copies))]


def _searched(aligned: Aligned, copy: int, known: Sequence[str], progress: Progress) -> Searched:
    """Look for rows in one of the copies."""
    numbers = _Numbers.of(aligned, copy, progress)
    read = CategoriesRead.of(aligned) if aligned.categories else None
    # so many rows as there is room for the codes of categories
    every = read.every if read else 1
    cells = [_Cells.of(each, aligned, copy) for each in (read.shown if read else ())]
    cells = [each for each in cells if {*each.columns} & {*known}]
    numbers = numbers.at_every(every).only(known)
    count = len(cells[0].truth) if cells else numbers.rows
    if count < FEWEST_ROWS:
        raise SourceError(f"{aligned.source.name} has {count} rows; give at least {FEWEST_ROWS}")
    refreshed = [each for each in cells if not each.is_bare]
    noisy, without_noise = numbers.noisy, numbers.without_noise
    moments = Moments.of_columns(noisy.exact)
    stated = aligned.stated.noise[copy]
    noise = stated or 1.0
    rows = RowsAtRisk(
        names=noisy.names,
        known=noisy.known,
        exact=noisy.exact,
        mean=moments.mean,
        covariance=moments.covariance,
        shape=noisy.shape(aligned, moments.covariance) if stated else noisy.measured_shape,
        cells=tuple(each.known for each in refreshed),
        shown=_alike([*without_noise, *(each.without_noise for each in cells)], count),
        count=count,
    )
    codes = tuple(each.shown for each in refreshed)
    retained = () if stated else tuple(each.retained for each in refreshed)
    copied = np.where(np.isnan(noisy.copied), moments.mean[:, None], noisy.copied)
    found = find_rows(rows, ShownRows(copied, codes, retained), noise)
    every_row = numbers.all_rows or count
    unit = aligned.stated.unit
    return Searched(aligned.names[copy], tuple(known), count, every_row, found, unit)


@dataclass(frozen=True)
class _Numbers:
    """Numbers (N, rows) of table and copy on the scales that they were perturbed on.

    `known` are those of the table as they are known, `exact` those that got noise; NaN is missing.
    """

    names: tuple[str, ...]
    known: Floats
    exact: Floats
    copied: Floats
    all_rows: int

    @classmethod
    def of(cls, aligned: Aligned, copy: int, progress: Progress) -> "_Numbers":
        """Read them: those that are compared, and those that are judged apart."""
        side = replace(aligned, columns=(*aligned.columns, *aligned.apart))
        if not side.columns:
            none = np.empty((0, 0))
            return cls((), none, none, none, 0)
        blocks = []
        for block in side.blocks():
            blocks.append((block[0], block[1 + copy]))
            progress(block[0].shape[1])
        exact, copied = (np.concatenate(parts, axis=1) for parts in zip(*blocks, strict=True))
        known, rng = exact.copy(), np.random.default_rng(0)
        for place, name in enumerate(side.columns):
            about = side.stated.column(copy, name)
            if about.transform != "rank" or not about.knots:
                continue
            scale = Scale("rank", (*zip(about.knots, knot_scores(len(about.knots)), strict=True),))
            # of a value that spans many ranks the middle one is known, and any one got the noise
            values = exact[place]
            drawn = np.asarray(1 - rng.random(len(values)))
            known[place] = scale.forward(values, name)
            exact[place] = scale.forward(values, name, _chooses(drawn))
            copied[place] = scale.undone(copied[place])
            if about.spread is not None:
                copied[place] = about.spread.undone(copied[place])
        return cls(side.columns, known, exact, copied, exact.shape[1])

    @property
    def rows(self) -> int:
        """How many rows there are here."""
        return int(self.exact.shape[1])

    def at_every(self, every: int) -> "_Numbers":
        """Return every so-and-so-many row."""
        known, exact, copied = (each[:, ::every] for each in (self.known, self.exact, self.copied))
        return replace(self, known=known, exact=exact, copied=copied)

    def only(self, names: Sequence[str]) -> "_Numbers":
        """Return the columns of these names."""
        chosen = [place for place, name in enumerate(self.names) if name in names]
        known, exact, copied = (each[chosen] for each in (self.known, self.exact, self.copied))
        shown = tuple(self.names[place] for place in chosen)
        return _Numbers(shown, known, exact, copied, self.all_rows)

    @property
    def is_bare(self) -> Flags:
        """Which columns the copy shows as they are."""
        same = np.isclose(self.exact, self.copied, rtol=1e-9, atol=0.0, equal_nan=True)
        return np.asarray(same.all(axis=1))

    @property
    def noisy(self) -> "_Numbers":
        """The columns that have noise."""
        bare = self.is_bare
        return self.only(
            [name for name, is_bare in zip(self.names, bare, strict=True) if not is_bare]
        )

    @property
    def without_noise(self) -> Iterator[Ints]:
        """What the copy shows without noise: columns as they are, and gaps that are the table's."""
        for exact, copied, is_bare in zip(self.exact, self.copied, self.is_bare, strict=True):
            gaps = np.isnan(exact)
            if is_bare:
                yield np.unique(exact, return_inverse=True)[1].ravel()
            elif gaps.any() and (gaps == np.isnan(copied)).all():
                yield gaps.astype(np.int64)

    def shape(self, aligned: Aligned, K: Floats) -> Floats:
        """Return the shape of the noise, as copies state it."""
        return K + aligned.stated.excess(self.names)

    @property
    def measured_shape(self) -> Floats:
        """The covariance of the noise, from copy and table."""
        return Moments.of_columns(self.copied - self.exact).covariance


@dataclass(frozen=True)
class _Cells:
    """A category in table and copy, by codes of its values, -1 where both miss one."""

    columns: tuple[str, ...]
    truth: Ints
    shown: Ints
    known: KnownCells

    @classmethod
    def of(cls, each: CategoryCodes, aligned: Aligned, copy: int) -> "_Cells":
        truth, shown = (each.codes[place].astype(np.int64) for place in (0, 1 + copy))
        # values of few rows that a copy never shows, it shows as another one that no row has
        seen = np.bincount(shown[shown >= 0], minlength=len(each.values)) > 0
        pools = np.flatnonzero(seen & (each.counts == 0))
        if len(pools):
            truth = np.where((truth >= 0) & ~seen[truth], pools[0], truth)
        counts = np.bincount(truth[truth >= 0], minlength=len(each.values))
        pi = counts / max(counts.sum(), 1)
        base = {about.base for about in aligned.stated.each(each.columns[0])}
        drawn = seen / max(seen.sum(), 1) if UNIFORM in base else pi
        return cls(each.columns, truth, shown, KnownCells(each.name, truth, pi, drawn))

    @property
    def is_bare(self) -> bool:
        """Whether the copy shows it as it is."""
        return bool((self.truth == self.shown).all())

    @property
    def without_noise(self) -> Ints:
        """What the copy shows without noise: the values as they are, or which are missing."""
        return self.truth if self.is_bare else (self.truth < 0).astype(np.int64)

    @property
    def retained(self) -> float:
        """The probability that a cell was retained, from how many are the same."""
        # P(Y = X) = q + (1 - q) sum of pi_x b_x
        held, drawn = self.truth >= 0, self.known.drawn
        same = float((self.truth == self.shown)[held].mean())
        chance = 0.0 if drawn is None else float(self.known.pi @ drawn)
        return max(0.0, (same - chance) / max(1 - chance, 1e-9))


def _chooses(drawn: Floats) -> RankDraws:
    """Return what chooses these ranks, in any column."""
    return lambda column: drawn


def _alike(shown: Sequence[Ints], rows: int) -> Ints:
    """Return a number for each row, the same for rows that show the same."""
    if not shown:
        return np.zeros(rows, dtype=np.int64)
    return np.unique(np.array(shown), axis=1, return_inverse=True)[1].ravel()


# --------------------------------------------------------------------------------------------------
# What was found, as a document.


KNOWS = (
    "Somebody knows these columns of a person as they are in the table, how rows are distributed, "
    "and how the noise was made, and takes the row of the copy that fits best; or, by likelihood "
    "alone, without allowing for how common such a row is."
)
HEADER = ("copy", "found", "95 % interval", "among ten", "by likelihood alone")


def searched_document(found: Sequence[Searched]) -> doc.Document:
    """Return how often rows were found in each copy."""
    first = found[0]
    most = max(each.linkage.linked for each in found)
    some = "" if first.rows == first.all_rows else f" of {first.all_rows:,}"
    return doc.Document(
        title="",
        verdict=f"Somebody who knows a row finds it in at most {share(most)} of cases, among "
        f"{first.rows:,} rows{some}.",
        facts=f"Known: {listed(first.columns, str)}."
        + (
            f" Rows were looked for one by one: who knows all rows of one {first.unit} finds more."
            if first.unit
            else ""
        ),
        sections=[
            doc.Section(
                "Rows that are found",
                [doc.Paragraph(KNOWS), doc.DataTable(HEADER, [_in_words(each) for each in found])],
            )
        ],
        data=[
            {"copy": each.copy, "columns": list(each.columns), "rows": each.rows}
            | {name: getattr(each.linkage, name) for name in MEASURED}
            for each in found
        ],
    )


MEASURED = ("linked", "low", "high", "among_ten", "by_likelihood")
"""What one copy shows: in it each row is found, or it is not."""


def _in_words(found: Searched) -> tuple[str, ...]:
    linkage = found.linkage
    interval = f"{share(linkage.low)} to {share(linkage.high)}"
    figures = (linkage.among_ten, linkage.by_likelihood)
    return (found.copy, share(linkage.linked), interval, *map(share, figures))
