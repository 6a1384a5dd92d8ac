"""The rows that a survey sampled, as somebody knows them who looks for one of them in a copy.

All columns are known but the key and the unit, which are names: who knows these and gets them as
they are has nothing to look for. Copies show kept columns and visible gaps without noise.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints, lengths_of
from cornerwave.attack import KnownCells, RowsAtRisk, measure_linkage
from cornerwave.choices import UNIFORM
from cornerwave.columns import Scale
from cornerwave.levels import LATTICE
from cornerwave.noise import MISSING, PersonNoise, hat_matrix, nearest_knots
from cornerwave.risks import MEASURED, LinkageCurve
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.missing import fill_missing
from cornerwave.spine.person_gaps import with_gaps_filled
from cornerwave.spine.person_sample import PersonSample
from cornerwave.spine.sample import Sampled
from cornerwave.spine.survey import Survey, Surveyor

MOST_SIZES = 12
"""Sizes of blocks, at even places among all persons, that represent all sizes."""
MOST_NUMBERS = 240
"""Numbers of a person that are used: with more, who knows them hardly fails."""
STEADY = 5.0
"""Blocks that the mean of all rows counts for."""
PERSONS = "categories of persons"


def measure_linkage_of(frozen: Frozen, surveyor: Surveyor, survey: Survey) -> LinkageCurve:
    """Return how often somebody who knows a row finds it, from the sampled rows of a survey.

    With a unit, by somebody who knows all rows of a person.
    """
    if frozen.persons is None:
        parts = [rows_at_risk(frozen, surveyor, survey)]
    else:
        parts = persons_at_risk(frozen, frozen.persons, surveyor, survey)
    noise = [LATTICE[place - 1] for place in MEASURED]
    return LinkageCurve.of(measure_linkage(parts, noise))


def rows_at_risk(frozen: Frozen, surveyor: Surveyor, survey: Survey) -> RowsAtRisk:
    """Return the sampled rows of a survey as they are known."""
    schema, sample = frozen.schema, survey.joint.ordered
    exact = sample.numbers[: len(schema.perturbed)]
    known = _middle_of(frozen.scales, exact)
    if frozen.draws is not None:
        # a sample keeps hashes instead of ids: any keyed draw from the same distribution serves
        ids = np.column_stack([sample.hashes, np.zeros_like(sample.hashes)])
        exact = fill_missing(exact, ids, schema, frozen.draws, surveyor.secrets.sample)
    cells = tuple(_cells(frozen, surveyor, sample))
    return RowsAtRisk(
        names=tuple(schema.perturbed),
        known=known,
        exact=exact,
        mean=frozen.mean,
        covariance=frozen.covariance,
        shape=frozen.covariance + frozen.excess,
        cells=cells,
        shown=_shown(frozen, sample, exact, cells),
        count=frozen.rows,
    )


def persons_at_risk(
    frozen: Frozen, noise: PersonNoise, surveyor: Surveyor, survey: Survey
) -> list[RowsAtRisk]:
    """Return the sampled persons of a survey as they are known: blocks of all their rows.

    Copies show how many rows a person has. Of so many sizes of blocks some represent all. Rows of a
    block are known one by one, in their order; noise in time is that of the usual times of a block.
    """
    sample = survey.persons
    assert sample is not None
    filled = with_gaps_filled(surveyor, survey, frozen.draws).persons
    assert filled is not None
    when = sample.numbers[-1] if frozen.schema.time is not None else sample.order
    if when is not None:
        sample, filled = (each.in_order_of(when) for each in (sample, filled))
    sizes = lengths_of(sample.starts, len(sample.units))
    # persons at even places in the order of their sizes
    places = ((np.arange(MOST_SIZES) + 0.5) / MOST_SIZES * len(sizes)).astype(np.int64)
    chosen, times = np.unique(np.sort(sizes)[places], return_counts=True)
    return [
        _blocks(frozen, noise, surveyor, (sample, filled), int(size), share)
        for size, share in zip(chosen, (times / MOST_SIZES).tolist(), strict=True)
    ]


def _blocks(
    frozen: Frozen,
    noise: PersonNoise,
    surveyor: Surveyor,
    samples: tuple[PersonSample, PersonSample],
    size: int,
    share: float,
) -> RowsAtRisk:
    """Return the blocks of sampled persons of one size, as they are and with gaps filled."""
    schema, (sample, filled) = frozen.schema, samples
    columns = len(schema.perturbed)
    starts = sample.starts[lengths_of(sample.starts, len(sample.units)) == size]
    used = min(size, max(1, MOST_NUMBERS // max(columns, 1)))
    rows = starts + np.arange(used)[:, None]
    exact = filled.numbers[:columns]
    known = _middle_of(frozen.scales, sample.numbers[:columns])
    phi, R = np.ones((used, 1)), noise.within[np.zeros(used, dtype=np.int64)]
    if schema.time is not None:
        times = sample.numbers[-1][rows]
        phi = hat_matrix(times.ravel(), noise.knots).reshape(*times.shape, -1).mean(axis=1)
        R = noise.within[nearest_knots(times.ravel(), noise.knots)]
        R = R.reshape(*times.shape, columns, columns).mean(axis=1)
    # S = Phi L L' Phi' + R of each row: the noise covers the covariance of the block, and is
    # taken for it
    loaded = np.einsum("rj,jnq->rnq", phi, noise.levels)
    loaded = loaded.reshape(used * columns, noise.levels.shape[2])  # there may be no numbers
    shape = loaded @ loaded.T
    for row in range(used):
        own = slice(row * columns, (row + 1) * columns)
        shape[own, own] += R[row]
    words = dict(zip(schema.encoded, sample.cells, strict=False))
    codes = [
        each.codes_of(np.array([words[name] for name in each.columns]), surveyor.secrets.texts)
        for each in frozen.categories
    ]
    gaps = [np.isnan(each) for each in exact if np.isnan(each).any()]
    gaps += [each == MISSING for each in codes if (each == MISSING).any()]
    shown = [words[name][rows] for name in schema.kept] + [each[rows] for each in gaps]
    stacked = _stacked(exact, rows)
    return RowsAtRisk(
        names=tuple(schema.perturbed) * used,
        known=_stacked(known, rows),
        exact=stacked,
        mean=_means(stacked, np.tile(frozen.mean, used)),
        covariance=shape,
        shape=shape,
        cells=tuple(_histories([each[rows] for each in codes])),
        shown=_alike(shown, len(starts)),
        count=max(len(starts), round(len(starts) / sample.share)),
        share=share,
    )


def _means(blocks: Floats, of_rows: Floats) -> Floats:
    """Return the means of blocks, place by place: what time does to everybody is known."""
    present = ~np.isnan(blocks)
    sums = np.where(present, blocks, 0.0).sum(axis=1)
    # few blocks are drawn towards the mean of all rows
    return np.asarray((sums + STEADY * of_rows) / (present.sum(axis=1) + STEADY))


def _histories(codes: list[Ints]) -> Iterator[KnownCells]:
    """Yield all categories of persons as one: an event replaces them by those of another person."""
    if codes:
        held = _alike(codes, codes[0].shape[1])
        pi = np.bincount(held) / len(held)
        yield KnownCells(PERSONS, held, pi, pi)


def _stacked(numbers: Floats, rows: Ints) -> Floats:
    """Return the numbers (N, rows) of blocks (size, persons) one below the other."""
    blocks = numbers[:, rows].transpose(1, 0, 2)
    return blocks.reshape(len(numbers) * len(rows), rows.shape[1])


def _middle_of(scales: tuple[Scale, ...], scores: Floats) -> Floats:
    """Return the scores of values, as they are known."""
    known = [_middle(*each) for each in zip(scales, scores, strict=True)]
    return np.array(known).reshape(scores.shape)


def _alike(shown: "Sequence[np.ndarray[Any, Any]]", count: int) -> Ints:
    """Return a number for each of some columns (..., count), the same for those that are alike."""
    if not shown:
        return np.zeros(count, dtype=np.int64)
    parts = [np.asarray(each).astype(np.uint64).reshape(-1, count) for each in shown]
    return np.unique(np.concatenate(parts), axis=1, return_inverse=True)[1].ravel()


def _middle(scale: Scale, scores: Floats) -> Floats:
    """Return the scores of values: the middle one of those that a value spans on ranks."""
    if scale.name != "rank":
        return scores
    values, at = np.array(scale.knots).T
    return scale.forward(np.interp(scores, at, values), "")


def _cells(frozen: Frozen, surveyor: Surveyor, sample: Sampled) -> Iterator[KnownCells]:
    """Yield the categories, by the codes that copies are made from."""
    words = dict(zip(frozen.schema.encoded, sample.cells, strict=False))
    for each in frozen.categories:
        chosen = np.array([words[name] for name in each.columns])
        codes = each.codes_of(chosen, surveyor.secrets.texts).astype(np.int64)
        counts = np.array(each.counts, dtype=np.float64)
        pi = counts / counts.sum()
        even = np.full(len(pi), 1 / len(pi))
        yield KnownCells("+".join(each.columns), codes, pi, even if each.base == UNIFORM else pi)


def _shown(frozen: Frozen, sample: Sampled, exact: Floats, cells: tuple[KnownCells, ...]) -> Ints:
    """Return a number for each row, the same for rows that show the same without noise."""
    words = dict(zip(frozen.schema.encoded, sample.cells, strict=False))
    shown = [words[name] for name in frozen.schema.kept]
    shown += [np.isnan(each).astype(np.uint64) for each in exact if np.isnan(each).any()]
    shown += [(c.codes == MISSING).astype(np.uint64) for c in cells if (c.codes == MISSING).any()]
    return _alike(shown, len(sample.hashes))
