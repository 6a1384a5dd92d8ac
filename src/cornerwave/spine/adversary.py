"""What a copy leaves to an adversary who knows how rows are distributed, measured at registration.

The keyed sample of a survey represents the rows of others that this adversary knows: some of the
sampled rows are attacked in simulated copies, given the rest (`attack.measure_joint`). Kept columns
are known without noise; of a kept number its quantile band is.
"""

from collections.abc import Iterator

import numpy as np

from cornerwave.arrays import Floats, Ints, Words
from cornerwave.attack import KnownCells, KnownRows, measure_joint
from cornerwave.choices import UNIFORM
from cornerwave.columns import MISSING_BITS, Categories
from cornerwave.privacy import LEAST_HOLDERS, JointShares
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.missing import fill_missing
from cornerwave.spine.sample import Sampled
from cornerwave.spine.survey import Survey, Surveyor

USED = 1 << 14
"""Sampled rows that are used at most: some are attacked, 8192 of the others are known."""
MOST_VALUES = 256
"""Values of all categories and kept columns that are distinguished; the rarest share one."""
BANDS = 16
"""Quantile bands of a kept number of more values."""


def measure_adversary(frozen: Frozen, surveyor: Surveyor, survey: Survey) -> JointShares:
    """Return what a joint adversary leaves of each column, from the sampled rows of a survey."""
    sample = survey.joint.ordered
    sample = sample.take(np.arange(min(USED, len(sample.hashes))))
    schema = frozen.schema
    numbers = sample.numbers[: len(schema.perturbed)]
    # a sample keeps hashes instead of ids: any keyed draw from the same distribution serves
    if frozen.draws is not None:
        ids = np.column_stack([sample.hashes, np.zeros_like(sample.hashes)])
        numbers = fill_missing(numbers, ids, schema, frozen.draws, surveyor.secrets.sample)
    return measure_joint(
        KnownRows(
            names=tuple(schema.perturbed),
            numbers=numbers,
            mean=frozen.mean,
            covariance=frozen.covariance,
            shape=frozen.covariance + frozen.excess,
            cells=tuple(_cells(frozen, surveyor, sample)),
        )
    )


def _cells(frozen: Frozen, surveyor: Surveyor, sample: Sampled) -> Iterator[KnownCells]:
    """Yield the categories, refreshed, and the kept columns, known without noise."""
    schema, words = frozen.schema, dict(zip(frozen.schema.encoded, sample.cells, strict=False))
    most = max(2, MOST_VALUES // max(1, len(frozen.categories) + len(schema.kept)))
    for each in frozen.categories:
        chosen = np.array([words[name] for name in each.columns])
        missing = (chosen == MISSING_BITS).any(axis=0) & (not each.hides_missing)
        codes = np.where(missing, -1, _coded(chosen, most))
        pi = _shares(codes)
        if np.count_nonzero(pi) > 1:
            yield KnownCells("+".join(each.columns), codes, pi, _drawn(each, pi))
    kept = dict(zip(schema.unchanged, sample.numbers[len(schema.perturbed) :], strict=False))
    for name in schema.kept:
        codes = _coded(words[name][None], most)
        if name not in surveyor.texts and codes.max(initial=0) + 1 == most:
            codes = _banded(kept[name])
        yield KnownCells(name, codes, _shares(codes), None)


def _drawn(each: Categories, pi: Floats) -> Floats:
    """Return what a refresh draws; the last of the values represents all rare ones."""
    if each.base != UNIFORM:
        return pi
    even = np.full(len(pi), 1 / len(each.counts))
    # each listed value has its own share 1/n of the even draws
    even[-1] = 1 - even[:-1].sum()  # all values that are too rare to be listed
    return even


def _coded(cells: Words, most: int) -> Ints:
    """Return codes of values by their frequency; rare ones, and those beyond `most`, share one."""
    # the words of several columns as one value, since a category may have several
    rows = np.ascontiguousarray(cells.T).view(f"V{8 * len(cells)}").ravel()
    _, places, counts = np.unique(
        cells[0] if len(cells) == 1 else rows, return_inverse=True, return_counts=True
    )
    frequent = np.argsort(-counts, kind="stable")[: most - 1]
    frequent = frequent[counts[frequent] >= LEAST_HOLDERS]
    codes = np.full(len(counts), len(frequent))
    codes[frequent] = np.arange(len(frequent))
    return np.asarray(codes[places.ravel()])


def _banded(numbers: Floats) -> Ints:
    """Return the quantile band of each number; the last is for those that are missing."""
    known = ~np.isnan(numbers)
    if not known.any():
        return np.full(len(numbers), BANDS)
    # bands of as many rows each
    cuts = np.quantile(numbers[known], np.arange(1, BANDS) / BANDS)
    return np.where(known, np.searchsorted(cuts, numbers), BANDS)


def _shares(codes: Ints) -> Floats:
    counts = np.bincount(codes[codes >= 0], minlength=1)
    return np.asarray(counts / max(counts.sum(), 1))
