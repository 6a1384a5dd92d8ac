"""Ways to group rows by what has no noise, and which of them are worth an estimate.

**Parts of values.** A column whose values are all different may reveal much by a part of them:

    texts      beginnings and ends, the length, words by place and by name, characters by place
    numbers    digits, from the last on, if all are whole or have few decimals; remainders
    times      hour, weekday, day of the month and from its end, month, day of the year

**Places.** Rows may resemble others far away in the file: people stacked in waves, or there and
back. For values y in the order of the file, standard, the sums

    a(L) = sum over i of y_i y_(i+L) / sqrt(n - L)
    c(s) = sum over i < s - i of y_i y_(s-i) / sqrt(pairs)

are normal with variance 1 if rows are independent; two Fourier transforms give them all. A distance
counts if its sum exceeds the two beside it by far. All of it is seen in the copy alone.

**Screening.** A one-way analysis of variance chooses among them. With B the sum of squares between
the k groups of a row of values with variance 1,

    F = (B / (k - 1)) / ((n - B) / (n - k))        share = 1 - (n - B) / (n - k)

A way counts if F is larger than chance allows and its share, less three of its errors, is the
largest; what it explains is taken away, and the rest is screened again. What is chosen is only a
candidate: estimates are fitted to some rows and scored in others.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.audit._fits import standard
from cornerwave.columns import DAY

CHANCE = 1e-6
"""The probability by which chance passes for one way and one column."""

MOST_STEPS, MOST_CHOSEN = 3, 10
"""Ways that are chosen for one column, and for all."""

MOST_CROSSED, ROWS_PER_CELL = 12, 3
"""So many columns are crossed in twos and threes, if a cell has so many rows, as a rule."""


def share_between(code: Ints, rows: Floats) -> tuple[Floats, Floats]:
    """Return the share of each row of values (d, n) that groups explain, three errors lower, and
    the probability of so much by chance.
    """
    from scipy.special import fdtrc

    count = np.bincount(code)
    held = count > 0
    n, k = rows.shape[1], int(held.sum())
    if k < 2 or n <= k:
        return np.zeros(len(rows)), np.ones(len(rows))
    sums = np.array([np.bincount(code, row)[held] for row in rows])
    between = np.minimum((sums**2 / count[held]).sum(axis=1), n)
    # rows have variance 1, so the total sum of squares is n
    within = np.maximum(n - between, 1e-9 * n) / (n - k)
    # P(F > observed), F with k - 1 and n - k degrees of freedom
    chance = fdtrc(k - 1, n - k, between / (k - 1) / within)
    # sqrt(2 k) / n is the error of a share between k groups by chance
    return 1 - within - 3 * np.sqrt(2 * k) / n, np.asarray(chance)


def choose(ways: Sequence[Ints], known: Sequence[Ints], truths: Floats) -> list[int]:
    """Return which ways explain what those that are known, or chosen before, do not.

    `truths` (d, n) are columns to be explained, standard.
    """
    if not (len(ways) and len(truths)):
        return []
    every = [*known, *ways]
    shares = [share_between(code, truths) for code in every]
    share, chance = (np.array(part) for part in zip(*shares, strict=True))
    chosen: list[int] = []
    for c, row in enumerate(truths):
        open_, rest = np.flatnonzero((chance[:, c] < CHANCE) & (share[:, c] > 0)), row
        gain = share[:, c]
        for _ in range(MOST_STEPS + len(known)):
            if not len(open_):
                break
            # of ways that explain as much the first one, which may be known
            best = int(open_[np.argmax(gain[open_] > gain[open_].max() - 1e-3)])
            if best >= len(known) and best not in chosen:
                chosen.append(best)
            # what is explained is taken away: a second way must explain the rest
            rest = _without(rest, every[best])
            gain = np.zeros(len(every))
            again = [share_between(every[k], rest[None]) for k in open_]
            gain[open_] = [float(between[0]) for between, _ in again]
            keep = [float(p[0]) < CHANCE and float(between[0]) > 0 for between, p in again]
            open_ = open_[np.array(keep) & (open_ != best)]
    largest = sorted(chosen, key=lambda k: -float(share[k].max()))
    return sorted(k - len(known) for k in largest[:MOST_CHOSEN])


def _without(row: Floats, code: Ints) -> Floats:
    """Return a row, standard, without the mean of the others in its group."""
    n, sums = np.bincount(code), np.bincount(code, row)
    # the mean of the others, so that a row does not explain itself
    rest = row - (sums[code] - row) / np.maximum(n[code] - 1, 1)
    remaining = standard(rest[None])
    return remaining[0] if len(remaining) else np.zeros_like(row)


def crosses(codes: Sequence[Ints]) -> Iterator[tuple[tuple[int, ...], Ints]]:
    """Yield one code for every two and three of the columns that are not too fine together."""
    codes = codes[:MOST_CROSSED]
    for size in (2, 3):
        for chosen in combinations(range(len(codes)), size):
            crossed = _crossed_if_coarse([codes[k] for k in chosen])
            if crossed is not None:
                yield chosen, crossed


def _crossed_if_coarse(codes: Sequence[Ints]) -> Ints | None:
    crossed, rows = codes[0], len(codes[0])
    for code in codes[1:]:
        crossed = crossed * (int(code.max()) + 1) + code
        # numbered anew before products overflow
        if int(crossed.max()) > 4 * rows:
            crossed = np.unique(crossed, return_inverse=True)[1]
        if (np.bincount(crossed) > 0).sum() > rows / ROWS_PER_CELL:
            return None
    return np.asarray(crossed, dtype=np.int64)


def binned(row: Floats, bins: int) -> Ints:
    """Return the quantile that each value is in, equal values in one; missing ones come last."""
    _, places, counts = np.unique(row, return_inverse=True, return_counts=True)
    # equal values share the quantile of their middle
    middle = np.cumsum(counts) - counts / 2
    code = np.minimum(middle * bins / len(row), bins - 1).astype(np.int64)[places]
    return np.where(np.isnan(row), bins, code)


Part = tuple[str, Ints]

SEPARATOR = re.compile(r"[^0-9A-Za-z]+")
RUNS = re.compile(r"[^\W\d_]+|\d+")
ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?")

MOST_CHARACTERS, MOST_WORDS, MOST_PLACES = 24, 24, 6
"""Characters of a text that are looked at one by one, frequent words, and places of a word."""

CHARACTER_WINDOWS = (1, 2, 4)
"""So many characters in a row are a part."""

MOST_DIGITS, MOST_DECIMALS = 8, 4
REMAINDERS = (7, 12, 24, 60)

FIRST_SECOND, LAST_SECOND = 3.15e8, 4.1e9
"""Whole numbers in between, 1980 to 2100, may be seconds since 1970."""


def parts_of_texts(name: str, distinct: Sequence[Any], code: Any) -> Iterator[Part]:
    """Yield codes (n,) of parts of texts; `code` (n,) is a place in `distinct`, -1 if missing."""
    texts = [str(value) for value in distinct]
    for what, parts in _distinct_parts(texts):
        places = np.append(np.unique(parts, return_inverse=True)[1] + 1, 0)
        if 1 < places.max() <= max(len(texts) / 1.5, 2):
            yield f"{what} of {name}", places[code].astype(np.int64)


def parts_of_numbers(name: str, row: Floats, unit: str | None) -> Iterator[Part]:
    """Yield codes (n,) of parts of numbers, or of dates and times if they have a unit."""
    seen = np.where(np.isnan(row), 0.0, row)
    if unit is not None:
        seconds = seen * DAY if unit.startswith("days") else seen
        yield from _told(name, row, _parts_of_times(seconds))
        return
    # the fewest decimals that make all values whole
    scale = next((10**k for k in range(MOST_DECIMALS + 1) if _whole(seen * 10.0**k)), None)
    if scale is None or np.abs(seen).max(initial=0.0) * scale >= 2**53:
        return
    whole = np.abs(np.rint(seen * scale)).astype(np.int64)
    yield from _told(name, row, _parts_of_whole(whole))
    if scale == 1 and whole.min() > FIRST_SECOND and whole.max() < LAST_SECOND:
        yield from _told(name, row, _parts_of_times(seen))


def _whole(values: Floats) -> bool:
    near = np.rint(values)
    return bool((np.abs(values - near) <= 1e-9 * np.maximum(np.abs(values), 1.0)).all())


def _told(name: str, row: Floats, parts: Iterator[Part]) -> Iterator[Part]:
    """Yield parts that vary, with their column's name and a code of their own for gaps."""
    for what, values in parts:
        code = np.unique(np.where(np.isnan(row), values.min() - 1, values), return_inverse=True)[1]
        if 0 < code.max() < len(row) / 1.5:
            yield f"{what} of {name}", code.astype(np.int64)


def _parts_of_whole(whole: Ints) -> Iterator[Part]:
    digits = min(len(str(int(whole.max()))), MOST_DIGITS)
    for k in range(1, min(digits, 4)):
        yield ("last digit" if k == 1 else f"last {k} digits"), whole % 10**k
    for k in range(1, digits):
        yield f"digit {k + 1} from the end", whole // 10**k % 10
    for base in REMAINDERS:
        yield f"remainder by {base}", whole % base


def _parts_of_times(seconds: Floats) -> Iterator[Part]:
    """Yield what a calendar and a clock show, in UTC, of seconds since 1970."""
    whole = np.floor(np.clip(seconds, -6e10, 2.5e11)).astype(np.int64)
    # 1970-01-01 was a Thursday, so day + 3 is 0 on Mondays
    day = whole // DAY
    date = day.astype("datetime64[D]")
    month = date.astype("datetime64[M]")
    first = month.astype("datetime64[D]").astype(np.int64)
    following = (month + 1).astype("datetime64[D]").astype(np.int64)
    january = date.astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    yield "weekday", (day + 3) % 7
    yield "day of the month", day - first
    yield "days to the end of the month", following - day
    yield "month", month.astype(np.int64) % 12
    yield "day of the year", day - january
    if (whole % DAY).any():
        yield "hour", whole // 3600 % 24
        yield "hour of the week", (whole // 3600 + 72) % 168
        yield "minute", whole // 60 % 60
        yield "second", whole % 60


def _distinct_parts(texts: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield parts of distinct texts, as arrays of texts or numbers."""
    long = max(map(len, texts), default=0)
    for k in range(1, min(long, MOST_CHARACTERS)):
        yield "beginning", np.array([text[:k] for text in texts])
        yield "end", np.array([text[-k:] for text in texts])
    yield "length", np.array([len(text) for text in texts])
    yield from _parts_by_separator(texts)
    yield from _words([RUNS.findall(text.lower()) for text in texts])
    yield from _characters(texts)
    dates = [ISO.match(text) for text in texts]
    if all(dates):
        try:
            times = np.array([each[0] for each in dates if each], dtype="datetime64[s]")
        except ValueError:  # looks like dates, such as 2020-99-99
            return
        yield from _parts_of_times(times.astype(np.int64).astype(np.float64))


def _parts_by_separator(texts: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield what comes before and after each separator."""
    cuts = [[(match.start(), match.end()) for match in SEPARATOR.finditer(t)] for t in texts]
    deepest = min(max(map(len, cuts), default=0), MOST_PLACES)
    for k in range(deepest):
        pairs = list(zip(texts, cuts, strict=True))
        yield "beginning", np.array([t[: c[min(k, len(c) - 1)][0]] if c else "" for t, c in pairs])
        yield "end", np.array([t[c[-min(k + 1, len(c))][1] :] if c else "" for t, c in pairs])


def _words(words: Sequence[Sequence[str]]) -> Iterator[tuple[str, Any]]:
    """Yield words and runs of digits by their place from both ends, how many, and frequent ones."""
    most = max(map(len, words), default=0)
    if most < 2:
        return
    yield "number of words", np.array([len(each) for each in words])
    for k in range(min(most, MOST_PLACES)):
        yield f"word {k + 1}", np.array([each[k] if k < len(each) else "" for each in words])
        yield (
            f"word {k + 1} from the end",
            np.array([each[-k - 1] if k < len(each) else "" for each in words]),
        )
    sets = [set(each) for each in words]
    counts = Counter(word for each in sets for word in each)
    often = [w for w, n in counts.most_common(2 * MOST_WORDS) if n < 0.99 * len(words)]
    for word in [w for w in often if counts[w] > 0.01 * len(words)][:MOST_WORDS]:
        yield "a frequent word", np.array([word in each for each in sets])


def _characters(texts: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield characters by their places."""
    table = np.array([text[:MOST_CHARACTERS] for text in texts], dtype=f"U{MOST_CHARACTERS}")
    places = table.view(np.uint32).reshape(len(texts), -1).astype(np.int64)
    used = int((places > 0).any(axis=0).sum())
    small = np.stack([np.unique(p, return_inverse=True)[1] for p in places.T[:used]])
    base = int(small.max(initial=0)) + 1
    for wide in CHARACTER_WINDOWS:
        for k in range(1, used - wide + 1):
            window = small[k : k + wide]
            what = f"character {k + 1}" if wide == 1 else f"characters {k + 1} to {k + wide}"
            yield what, base ** np.arange(wide) @ window


STANDS_OUT = 7.5
"""Less the mean of two others, a sum has variance 1.5 by chance: this is 6.1 deviations."""

FEWEST_PAIRS, FAR, MOST_LAGS, MOST_LAGGED = 50, 4.0, 3, 64
"""Pairs of rows at least, values further out are drawn in, and distances and columns at most."""


def rows_alike(shown: Floats) -> dict[str, Ints]:
    """Return codes (n,) of rows that belong together by their places, by name.

    `shown` (d, n) is what a copy shows with noise, standard, in the order of the file.
    """
    n = shown.shape[1]
    if not len(shown) or n < 4 * FEWEST_PAIRS:
        return {}
    ahead, back = (part.max(axis=0) for part in _sums(np.clip(shown[:MOST_LAGGED], -FAR, FAR)))
    place, alike = np.arange(n), {}
    for lag in _peaks(ahead):
        alike[f"rows {lag:,} apart"] = place % lag
    for total in _peaks(back, multiples=True):
        other = total - place
        inside = (other >= 0) & (other < n)
        code = np.where(inside, np.minimum(place, other), place)
        alike[f"rows mirrored around row {total / 2 + 1:,.1f}"] = code
    return alike


def _sums(rows: Floats) -> tuple[Floats, Floats]:
    """Return how far a(L) and c(s) exceed those beside them, (d, lags) each."""
    from scipy.fft import irfft, next_fast_len, rfft

    n = rows.shape[1]
    size = next_fast_len(2 * n, real=True)
    # padded to 2 n: sums do not wrap around
    spectrum = rfft(rows, size)
    apart = np.maximum(n - np.arange(n), 1)
    # autocorrelation a(L) = IFFT |FFT y|^2
    ahead = irfft(np.abs(spectrum) ** 2, size)[:, :n] / np.sqrt(apart)
    total = np.arange(2 * n - 1)
    pairs = (np.minimum(total, 2 * n - 2 - total) + 1) // 2
    # self-convolution, each pair of rows twice: c(s) is half of it
    double = irfft(spectrum**2, size)[:, : 2 * n - 1]
    double[:, ::2] -= rows**2  # a row with itself
    back = double / 2 / np.sqrt(np.maximum(pairs, 1))
    return _out(ahead, apart, first=2), _out(back, pairs, first=1)


def _out(sums: Floats, pairs: Ints, first: int) -> Floats:
    out = np.zeros_like(sums)
    # less the mean of the two beside it: a slow trend raises all three
    out[:, 1:-1] = sums[:, 1:-1] - (sums[:, :-2] + sums[:, 2:]) / 2
    out[:, :first] = 0.0
    out[:, pairs < FEWEST_PAIRS] = 0.0
    return out


def _peaks(out: Floats, *, multiples: bool = False) -> list[int]:
    """Return the highest peaks; of distances, no multiple of another."""
    peaks: list[int] = []
    for k in np.argsort(-out, kind="stable")[: 8 * MOST_LAGS].tolist():
        fresh = multiples or not any(k % peak == 0 for peak in peaks)
        if out[k] > STANDS_OUT and fresh and len(peaks) < MOST_LAGS:
            peaks.append(k)
    return peaks
