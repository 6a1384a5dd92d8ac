"""Parts of what stands without noise, each with a name: ends of a text, digits, weekdays.

A column whose values are all different may say much by a part of them. All parts are candidates;
_screening chooses those that rows with the same part agree in.

    texts      beginnings and ends, the length, words by place and by name, characters by place
    numbers    digits, from the last on, if all are whole or have few decimals; remainders
    times      hour, weekday, day of the month and from its end, month, day of the year
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints

Part = tuple[str, Ints]

SEPARATOR = re.compile(r"[^0-9A-Za-z]+")
RUNS = re.compile(r"[^\W\d_]+|\d+")
ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?")

MOST_CHARACTERS, MOST_WORDS, MOST_PLACES = 24, 24, 6
"""Characters of a text that are looked at one by one, frequent words, and places of a word."""

WINDOWS = (1, 2, 4)
"""So many characters in a row are a part."""

MOST_DIGITS, MOST_DECIMALS = 8, 4
REMAINDERS = (7, 12, 24, 60)

DAY = 86400
FIRST_SECOND, LAST_SECOND = 3.15e8, 4.1e9
"""Whole numbers in between, 1980 to 2100, may be seconds since 1970."""


def parts_of_texts(name: str, distinct: Sequence[Any], code: Any) -> Iterator[Part]:
    """Yield codes (n,) of parts of texts; `code` (n,) is a place in `distinct`, -1 if missing."""
    texts = [str(value) for value in distinct]
    for what, own in _distinct_parts(texts):
        places = np.append(np.unique(own, return_inverse=True)[1] + 1, 0)
        if 1 < places.max() <= max(len(texts) / 1.5, 2):
            yield f"{what} of {name}", places[code].astype(np.int64)


def parts_of_numbers(name: str, row: Floats, unit: str | None) -> Iterator[Part]:
    """Yield codes (n,) of parts of numbers, or of dates and times if they have a unit."""
    seen = np.where(np.isnan(row), 0.0, row)
    if unit is not None:
        seconds = seen * DAY if unit.startswith("days") else seen
        yield from _told(name, row, _parts_of_times(seconds))
        return
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
    """Yield what a calendar and a clock say, in UTC, of seconds since 1970."""
    whole = np.floor(np.clip(seconds, -6e10, 2.5e11)).astype(np.int64)
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
    found = [ISO.match(text) for text in texts]
    if all(found):
        try:
            times = np.array([each[0] for each in found if each], dtype="datetime64[s]")
        except ValueError:  # looks like dates, such as 2020-99-99
            return
        yield from _parts_of_times(times.astype(np.int64).astype(np.float64))


def _parts_by_separator(texts: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield what stands before and after each separator."""
    cuts = [[(found.start(), found.end()) for found in SEPARATOR.finditer(t)] for t in texts]
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
    yield "number of words", np.array([len(own) for own in words])
    for k in range(min(most, MOST_PLACES)):
        yield f"word {k + 1}", np.array([own[k] if k < len(own) else "" for own in words])
        yield (
            f"word {k + 1} from the end",
            np.array([own[-k - 1] if k < len(own) else "" for own in words]),
        )
    sets = [set(own) for own in words]
    counts = Counter(word for own in sets for word in own)
    often = [w for w, n in counts.most_common(2 * MOST_WORDS) if n < 0.99 * len(words)]
    for word in [w for w in often if counts[w] > 0.01 * len(words)][:MOST_WORDS]:
        yield "a frequent word", np.array([word in own for own in sets])


def _characters(texts: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield characters by their places."""
    table = np.array([text[:MOST_CHARACTERS] for text in texts], dtype=f"U{MOST_CHARACTERS}")
    places = table.view(np.uint32).reshape(len(texts), -1).astype(np.int64)
    used = int((places > 0).any(axis=0).sum())
    small = np.stack([np.unique(p, return_inverse=True)[1] for p in places.T[:used]])
    base = int(small.max(initial=0)) + 1
    for wide in WINDOWS:
        for k in range(1, used - wide + 1):
            window = small[k : k + wide]
            what = f"character {k + 1}" if wide == 1 else f"characters {k + 1} to {k + wide}"
            yield what, base ** np.arange(wide) @ window
