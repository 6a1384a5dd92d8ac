"""How far new rows drifted from what registration fixed.

What their numbers hide depends on how they spread. A category of distribution pi' that is
refreshed by draws from the first edition's pi hides what `privacy.hidden_shares` gives. What
columns of different kinds reveal of each other is measured as at registration: by how much all
columns together leave less than its own kind does. All this is measured at privacy 0.5, shown,
and refused beyond BOUND, after an allowance for what chance does to few rows.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.columns import distances_in, listed
from cornerwave.editions._all_persons import AllPersons
from cornerwave.editions._all_rows import AllRows
from cornerwave.editions._edition import Drift
from cornerwave.errors import Drifted, SourceError, warn
from cornerwave.levels import HALF, Level, retention
from cornerwave.moments import Moments
from cornerwave.noise import grid_of
from cornerwave.privacy import CategoryDistribution, hidden_shares, lowered, semidefinite
from cornerwave.spine.freeze import hidden_of_rows, shares_of_all_persons
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.survey import Survey, Surveyor

# --------------------------------------------------------------------------------------------------
# How numbers of new rows spread, held against the noise that fits the first edition.
#
# They have covariance K' and get noise v S, so the best linear estimate from their numbers leaves
#
#     hidden_j = 1 - [K' (K' + v S)^-1 K']_jj / K'_jj            v / (1 + v) if K' = S
#
# of column j hidden; of a linear combination at least v / (r + v), where r is the largest
# eigenvalue of S^-1 K'.


BOUND = 0.05
"""New rows of which copies hide less than the first edition's by more than this are refused."""
WORST = 4.0
"""So are rows of which a linear combination varies so many times more than the noise expects."""
ALLOWANCE = 3.0
"""Standard errors that chance is allowed."""
PRIOR = 50.0
"""Rows of the first edition that the frequencies and variances of a small batch are mixed with:
a few rows are refused only if they are far off, or once many have come."""
SOME_ROWS = 1 << 13
"""Rows from which to see how heavy the tails of a column are."""
MOST_RISE = 4.0
"""So many times the noise for privacy 0.5 is the most that persons who grow may take."""
SLIGHT, SLIGHT_OF_FEW = 0.015, 0.2
"""Less than this share of a person, and this over the root of their number, is chance of those that
are sampled."""
_FLOOR = 1e-12


@dataclass(frozen=True)
class Spread:
    """How many rows there are, and the mean and covariance of their numbers; parts add up."""

    rows: int
    mean: Floats
    covariance: Floats

    @classmethod
    def of(cls, survey: Survey, usual: Floats) -> "Spread":
        """Return the spread of rows that were surveyed; what all lack has the usual mean."""
        moments = survey.moments
        return cls(
            moments.rows, np.where(moments.present > 0, moments.mean, usual), moments.covariance
        )

    def __add__(self, other: "Spread") -> "Spread":
        rows = self.rows + other.rows
        # scatter about the common mean: both scatters, and n m / (n + m) of the distance of means
        apart = other.mean - self.mean
        scatter = (
            max(self.rows - 1, 0) * self.covariance + max(other.rows - 1, 0) * other.covariance
        )
        scatter = scatter + self.rows * other.rows / max(rows, 1) * np.outer(apart, apart)
        mean = self.mean + other.rows / max(rows, 1) * apart
        return Spread(rows, mean, scatter / max(rows - 1, 1))

    def to_bytes(self) -> bytes:
        """Return what is kept of it."""
        head = np.array([self.rows], dtype=np.float64)
        return np.concatenate([head, self.mean, self.covariance.ravel()]).astype("<f8").tobytes()

    @classmethod
    def read(cls, content: bytes, columns: int) -> "Spread":
        """Return what `to_bytes` wrote."""
        values = np.frombuffer(content, dtype="<f8").astype(np.float64)
        covariance = values[1 + columns :].reshape(columns, columns)
        return cls(int(values[0]), values[1 : 1 + columns], covariance)


def refused(what: str) -> Drifted:
    return Drifted(
        f"{what}: the noise that was fixed at registration does not fit these rows. Register them "
        "as a dataset of their own, whose noise fits them"
    )


def kurtosis_of(survey: Survey, columns: int) -> Floats:
    """Return the kurtosis of each number, on which the error of its variance depends."""
    numbers = survey.joint.parts[-1].numbers[:columns, :SOME_ROWS]
    present = ~np.isnan(numbers)
    count = np.maximum(present.sum(axis=1), 1)
    values = np.where(present, numbers, 0.0)
    centred = np.where(present, values - (values.sum(axis=1) / count)[:, None], 0.0)
    # divided by the largest first: fourth powers of large numbers overflow
    size = np.abs(centred).max(axis=1, initial=0.0)
    centred = centred / np.where(size > 0, size, 1.0)[:, None]
    second, fourth = ((centred**power).sum(axis=1) / count for power in (2, 4))
    return np.where(second > 0, fourth / np.where(second > 0, second, 1.0) ** 2, 3.0)


@dataclass(frozen=True)
class _InNoise:
    """S and K' in units of the deviation of the noise, of the columns that vary."""

    S: Floats
    K: Floats
    vary: list[int]

    @classmethod
    def of(cls, frozen: Frozen, spread: Spread) -> "_InNoise | None":
        """Compare a spread with the noise; None if there is nothing to compare."""
        S = frozen.covariance + frozen.excess
        vary = np.flatnonzero(np.diag(S) > 0).tolist()
        if spread.rows < 2 or not vary:
            return None
        size, at = np.sqrt(np.diag(S)[vary]), np.ix_(vary, vary)
        unit = np.outer(size, size)
        return cls(S[at] / unit, semidefinite(spread.covariance[at] / unit), vary)

    def at_least(self, spread: Spread, kurtosis: Floats) -> Floats:
        """Return K' less what chance may have added, mixed with rows of the first edition."""
        known = spread.rows / (spread.rows + PRIOR)
        return known * self.K / _allowed(spread, kurtosis[self.vary]) + (1 - known) * self.S


def _hidden_numbers(S: Floats, K: Floats, noise: float) -> Floats:
    """Return which share of each column's variance numbers leave hidden; NaN if it has none."""
    # 1 - [K' (K' + v S)^-1 K']_jj / K'_jj; the floor is for columns that follow from others
    whole = K + noise * S + _FLOOR * np.eye(len(S))
    recovered = np.einsum("ij,ji->i", K, np.linalg.solve(whole, K))
    variance = np.diag(K)
    return np.where(variance > 0, 1 - recovered / np.maximum(variance, 1e-300), np.nan)


def hidden_of_numbers(frozen: Frozen, spread: Spread, level: Level) -> dict[str, float]:
    """Return what copies at a level hide of each number, from numbers alone."""
    noisy = _InNoise.of(frozen, spread)
    if noisy is None:
        return {}
    shares = zip(noisy.vary, _hidden_numbers(noisy.S, noisy.K, level.noise), strict=True)
    return {frozen.schema.perturbed[i]: float(h) for i, h in shares if not np.isnan(h)}


def _allowed(spread: Spread, kurtosis: Floats) -> float:
    """Return how many times too large a variance may be by chance.

    One number for all columns: what they add up to must still add up.
    """
    # Var(s^2) / s^4 = (kurtosis - 1) / n, 2 / n for normal values
    return float(1 + ALLOWANCE * np.sqrt(max(kurtosis.max() - 1, 2.0) / spread.rows))


def check_columns_fit(frozen: Frozen, spread: Spread, level: Level, kurtosis: Floats) -> None:
    """Raise Drifted if a number varies more than its noise can hide, beyond chance."""
    noisy = _InNoise.of(frozen, spread)
    if noisy is None:
        return
    hidden = _hidden_numbers(noisy.S, noisy.at_least(spread, kurtosis), level.noise)
    usual = level.noise / (1 + level.noise)
    for place, share in zip(noisy.vary, hidden, strict=True):
        if share < usual - BOUND:
            name = frozen.schema.perturbed[place]
            raise refused(
                f"of {name!r} in the new rows, copies at privacy {frozen.hidden.promised(level):g} "
                f"would hide {share:.3f} where the first edition's hide {usual:.3f}"
            )


def check_combinations_fit(frozen: Frozen, spread: Spread, kurtosis: Floats) -> None:
    """Raise Drifted if a linear combination of numbers varies much more than its noise."""
    noisy = _InNoise.of(frozen, spread)
    if noisy is None:
        return
    S, low = noisy.S, noisy.at_least(spread, kurtosis)
    # r, the largest eigenvalue of S^-1 K', by the symmetric S^-1/2 K' S^-1/2
    values, vectors = np.linalg.eigh(S + _FLOOR * np.eye(len(S)))
    white = vectors / np.sqrt(values)
    largest = float(np.linalg.eigvalsh(white.T @ low @ white)[-1])
    # the largest of N eigenvalues of n rows is (1 + sqrt(N / n))^2 by chance (Marchenko, Pastur)
    if largest > WORST * (1 + np.sqrt(len(S) / spread.rows)) ** 2:
        names = [frozen.schema.perturbed[place] for place in noisy.vary]
        raise refused(
            f"a linear combination of {listed(names)} varies {largest:.3g} times more than at "
            "registration, as where a column followed from others and no longer does"
        )


OUTSIDE = 0.05
"""Rows of which so much more than usual lies beyond the ends of a rank scale are refused."""


class Ranges:
    """Counts the numbers of a source that lie beyond the ends of their rank scale."""

    def __init__(self, frozen: Frozen) -> None:
        scales = zip(frozen.schema.perturbed, frozen.scales, strict=True)
        self._relative = frozen.schema.relative
        self._ends = {
            name: (scale.knots[0][0], scale.knots[-1][0]) for name, scale in scales if scale.knots
        }
        # of the outermost share at each end about half lies beyond its average
        self.usual = {
            name: 1 / len(scale.knots)
            for name, scale in zip(frozen.schema.perturbed, frozen.scales, strict=True)
            if scale.knots
        }
        self.outside = Counter[str]()

    def beyond(self, rows: pa.Table) -> Counter[str]:
        """Return how many numbers of some rows lie beyond, by their column."""
        outside = Counter[str]()
        numbers = distances_in(rows, list(self._ends), self._relative)
        for (name, (low, high)), values in zip(self._ends.items(), numbers, strict=True):
            outside[name] = int(np.count_nonzero((values < low) | (values > high)))
        return outside

    def look(self, rows: pa.Table) -> None:
        """Count those of some rows."""
        self.outside.update(self.beyond(rows))


def measure_drift(
    frozen: Frozen,
    survey: Survey,
    ranges: Ranges,
    earlier: bytes | None,
    *,
    surveyor: Surveyor,
    came: Survey | None = None,
) -> tuple[Drift, Spread]:
    """Return how new rows differ, and the spread of all that came since registration.

    `earlier` is what was kept of that of those before, `came` are those of the rows that are not
    there for another value: by default all. Linear combinations are held against the noise of
    these alone, since that of rows that changed is renewed by what changed. Raises Drifted
    beyond the bounds.
    """
    level = frozen.hidden.level_of(HALF) or Level(1.0)
    rows, of_batch = survey.moments.rows, Spread.of(survey, frozen.mean)
    _check_numbers(frozen, survey)
    pooled, counts = _count_cases(frozen, survey)
    kurtosis = kurtosis_of(survey, len(frozen.schema.perturbed))
    new = of_batch if came is None else Spread.of(came, frozen.mean)
    since = new if earlier is None else Spread.read(earlier, len(new.mean)) + new
    check_columns_fit(frozen, of_batch, level, kurtosis)
    for spread in (new, since):
        check_columns_fit(frozen, spread, level, kurtosis)
        check_combinations_fit(frozen, spread, kurtosis)
    hidden = hidden_of_numbers(frozen, of_batch, level)
    for names, tally in counts.items():
        hidden["+".join(names)] = _of_category(frozen, names, tally, level)
    usual = level.noise / (1 + level.noise)
    across = _across_kinds(frozen, surveyor, survey, level)
    for name, share, before in _revealed_more(frozen, across, level, survey, kurtosis):
        raise refused(
            f"columns of other kinds reveal more of {name!r} than at registration: in copies "
            f"at privacy {frozen.hidden.promised(level):g} they would reveal {share:.3f} of it, "
            f"and revealed {before:.3f}"
        )
    hidden = {name: round(max(0.0, h - across.get(name, 0.0)), 4) for name, h in hidden.items()}
    for name, count in ranges.outside.items():
        if count > (OUTSIDE + ranges.usual[name]) * rows:
            raise refused(f"{count / rows:.0%} of {name!r} lie beyond the registered values")
    for names, tally in counts.items():
        lost = usual - _of_category(frozen, names, tally, level, prior=PRIOR)
        if lost > BOUND:
            raise refused(f"the frequencies of {listed(names)} have changed too much")
    outside = {name: count for name, count in ranges.outside.items() if count}
    return Drift(rows, frozen.hidden.promised(level), hidden, pooled, outside), since


def _check_numbers(frozen: Frozen, survey: Survey) -> None:
    """Raise SourceError for missing values, constants that vary, and numbers beyond the grid."""
    schema, moments = frozen.schema, survey.moments
    finest = grid_of(deviation=np.full(len(frozen.grid), 1e-300), largest=moments.largest)
    for place, name in enumerate(schema.perturbed):
        present = int(moments.present[place])
        shows = name in frozen.missing or schema.column(name).hide_missing
        if present < moments.rows and not shows:
            raise SourceError(
                f"column {name!r} has missing values, and had none at registration; fill them in, "
                "or leave out these rows"
            )
        ends = (moments.lowest[place], moments.highest[place])
        if not present:
            continue
        if frozen.grid[place] == 0 and any(end != frozen.mean[place] for end in ends):
            raise refused(f"{name!r} was constant, and copies show it as it is; it varies now")
        if frozen.grid[place] > 0 and finest[place] > frozen.grid[place]:
            raise refused(f"{name!r} has values too far from zero for the grid of its copies")


def _count_cases(
    frozen: Frozen, survey: Survey
) -> tuple[dict[str, int], dict[tuple[str, ...], Floats]]:
    """Return how many rows have new values that are pooled, and how many each known value.

    Raises Drifted for values that are new and not pooled.
    """
    pooled, counts = {}, {}
    for each in frozen.categories:
        tally, cases = dict(survey.tallies[each.columns]), each.cases()
        if not each.hides_missing:
            missing = sum(tally.pop(case) for case in list(tally) if None in case)
            if missing and each.columns[0] not in frozen.missing:
                raise SourceError(
                    f"{listed(each.columns)}: values are missing, and none was at registration; "
                    "fill them in, or leave out these rows"
                )
        known = np.array([tally.pop(case, 0) for case in cases], dtype=np.float64)
        new = sum(tally.values())
        if new and not each.pooled:
            raise Drifted(
                f"{listed(each.columns)}: {new:,} rows have {len(tally):,} values that were not "
                "there at registration, and no copy could draw them. Write one of the registered "
                "values instead, leave out these rows, or register them as a dataset of their own"
            )
        if new:
            known[-1] += new
            pooled["+".join(each.columns)] = new
        counts[each.columns] = known
    return pooled, counts


def check_all_rows(frozen: Frozen, surveyor: Surveyor, known: AllRows, survey: Survey) -> None:
    """Raise Drifted if columns reveal clearly more once rows of all editions stand in a copy.

    `known` are some of these, `survey` is that of the new ones.
    """
    level = frozen.hidden.level_of(HALF) or Level(1.0)
    every = known.survey(survey, surveyor)
    across = _across_kinds(frozen, surveyor, every, level, rows=known.rows)
    kurtosis = kurtosis_of(every, len(frozen.schema.perturbed))
    for name, share, before in _revealed_more(frozen, across, level, every, kurtosis):
        raise Drifted(
            f"with these rows, copies of all editions at privacy {frozen.hidden.promised(level):g} "
            f"would reveal {share:.3f} of {name!r} by columns of other kinds, and revealed "
            f"{before:.3f} at registration: what copies show without noise reveals which rows "
            "belong together. If they are new values of rows that are there, update these rows "
            "instead of appending more"
        )


def check_all_persons(
    frozen: Frozen, surveyor: Surveyor, before: AllPersons, survey: Survey
) -> tuple[AllPersons, dict[str, tuple[float, ...]]]:
    """Return the persons of all editions, and what copies hide of columns of which they hide less.

    `before` are those of the editions so far, `survey` is that of new rows. Warns if a privacy
    takes clearly more noise from here on, and raises Drifted if it takes far more.
    """
    known = before.with_rows(survey)
    if not known.are_many_more:
        return known, {}
    first = before.first or _shares_of(before, frozen, surveyor, survey)
    after, less = _shares_of(known, frozen, surveyor, survey), {}
    slight = SLIGHT + SLIGHT_OF_FEW / np.sqrt(len(known.sample.starts))
    for name, stated in frozen.hidden.shares.items():
        was, now, least = map(np.array, (first.get(name, stated), after.get(name, stated), stated))
        # what rows reveal alone may be more: only what goes beyond that is lost
        lost = np.maximum(was - now, 0.0) - np.maximum(was - least, 0.0)
        if (lost > slight).any():
            left = np.clip(least - np.maximum(lost, 0.0), 0.0, 1.0)
            less[name] = tuple(np.round(left, 4).tolist())
    if less:
        _check_noise(frozen, less)
    return replace(known, first=first).as_measured, less


def _check_noise(frozen: Frozen, less: Mapping[str, tuple[float, ...]]) -> None:
    """Warn of noise that a privacy takes if columns hide less; raise Drifted if it is far more."""
    before, after = (h.level_of(HALF) for h in (frozen.hidden, lowered(frozen.hidden, less)))
    if before is None:
        return
    place = max(0, before.thousandths // 10 - 1)
    worst = min(less, key=lambda name: less[name][place])
    what = (
        f"persons have more rows now, or other ones, than the noise was made for: of {worst!r}, "
        f"copies with noise {before.noise:.3g} hide {less[worst][place]:.3f} from someone who "
        f"knows which rows are a person's, and hid {frozen.hidden.shares[worst][place]:.3f}"
    )
    if after is None or after.noise > MOST_RISE * before.noise:
        much = "no noise" if after is None else f"noise {after.noise:.3g}"
        raise Drifted(
            f"{what}; {much} would hide half of it. Leave these rows out, or append fewer of each "
            "person"
        )
    if less[worst][place] < frozen.hidden.shares[worst][place] - BOUND:
        warn(
            f"{what}. Privacy 0.5 takes noise {after.noise:.3g} from here on; recipients who are "
            "permitted a noise get copies that hide less",
            stacklevel=5,
        )


def _shares_of(
    known: AllPersons, frozen: Frozen, surveyor: Surveyor, survey: Survey
) -> Mapping[str, tuple[float, ...]]:
    """Return what copies hide of persons."""
    names = frozen.schema.perturbed
    moments = Moments.of_columns(known.sample.numbers[: len(names)], names)
    every = replace(survey, moments=moments, persons=known.sample)
    return shares_of_all_persons(frozen, surveyor, every)


def _across_kinds(
    frozen: Frozen, surveyor: Surveyor, survey: Survey, level: Level, rows: int | None = None
) -> dict[str, float]:
    """Return the share of each column that those of other kinds reveal in copies of these rows."""
    alone = dict.fromkeys(frozen.hidden.shares, level.noise / (1 + level.noise))
    alone |= hidden_of_numbers(frozen, Spread.of(survey, frozen.mean), level)
    shown = frozen.schema.unchanged or frozen.missing
    is_plain = alone.keys() <= set(frozen.schema.perturbed) and not shown
    if is_plain or survey.moments.rows < 2:  # numbers only: there are no other kinds
        return dict.fromkeys(alone, 0.0)
    together = hidden_of_rows(frozen, surveyor, survey, level, rows)
    return {name: max(0.0, share - together.get(name, share)) for name, share in alone.items()}


def _revealed_more(
    frozen: Frozen, across: Mapping[str, float], level: Level, survey: Survey, kurtosis: Floats
) -> Iterator[tuple[str, float, float]]:
    """Yield the columns of which others reveal clearly more than they did: how much, and before."""
    usual, stated = level.noise / (1 + level.noise), frozen.hidden.at(level)
    rows = max(1, min(survey.moments.rows, SOME_ROWS))
    tails = np.sqrt(max(kurtosis.max(initial=3.0) - 1, 2.0) / 2)
    for name, share in across.items():
        before = max(0.0, usual - stated.get(name, usual))
        error = tails * 2 * np.sqrt(share * (1 - share) / rows)  # of a squared correlation
        if share - before > BOUND + ALLOWANCE * error:
            yield name, share, before


def _of_category(
    frozen: Frozen, names: tuple[str, ...], counts: Floats, level: Level, prior: float = 0.0
) -> float:
    """Return what copies at a level hide of a category with these counts, by itself."""
    [known] = [each for each in frozen.categories if each.columns == names]
    category = CategoryDistribution(known.counts, known.base)
    weights = counts + prior * category.pi
    usual = level.noise / (1 + level.noise)
    if not weights.sum() or np.count_nonzero(weights) < 2:
        return usual
    q = retention(level.noise)
    share = hidden_shares(weights / weights.sum(), category.drawn, q).of_all
    # even draws hide another share from the start: what counts is the difference
    return usual + share - hidden_shares(category.pi, category.drawn, q).of_all
