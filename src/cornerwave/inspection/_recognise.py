"""What must not leave by default, and numbers that are codes: what a column is recognised as.

A column is known by its name, in several languages, and by the shape of its values in the
sampled rows. What is recognised is left to the owner, with the reason; so is every text of
many values that nothing is known of. No reason shows a value.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints
from cornerwave.columns import EXACT, FEW_ROWS, is_text, to_floats, unit_of
from cornerwave.inspection import _words
from cornerwave.inspection._seen import (
    DROP_OR_KEY,
    FEW_CODES,
    IDENTIFIER,
    MANY,
    MOST,
    OF_THINGS,
    Recognised,
    Seen,
    by_name,
    decide,
    first,
    of_several,
)
from cornerwave.inspection._texts import TEXT_RULES, luhn

FEW_FLOATS = 5
"""Numbers with decimals of at most so many values are codes."""

CODES_OF_KINDS = 50
"""Whole numbers of at most so many values are codes, if their name suggests it."""

MOST_COUNTED = 30
"""Larger whole numbers under the word for a thing, as school, count nothing: they name it."""

FEWEST_TIMES = 15
"""So many different numbers look like the hours and minutes of a clock, or do by chance."""

NEARLY_UNIQUE = 0.95

BY_CHANCE = 10.0
"""Whole numbers that are all different, though so many pairs of equal ones are expected, were
given out one by one."""

ZERO_HEAVY = 0.2
"""The share of zeros that is worth a note."""

LOW_CODES, HIGH_CODES = (-1, -7, -8, -9, -77, -88, -99, -999, -9999), (999, 9999, 99999)
"""Numbers by which surveys mark a missing answer,"""

FEW_VALUES = 4
"""in columns of so many values at least."""

LIFETIME = 40 * 365.25
"""Dates over so many days may be dates of birth."""


def recognise(seen: Seen) -> Recognised | None:
    """Return what a column was recognised as; None if nothing speaks against its type."""
    if not len(seen.values):
        return None
    type_ = seen.values.type
    if is_text(type_):
        return first(TEXT_RULES, seen)
    if pa.types.is_integer(type_):
        return first(_WHOLE, seen)
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return decide(_birth(seen))
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return decide(_position(seen)) or _whole_floats(seen)
    return None


def code_for_missing(cells: pa.ChunkedArray) -> tuple[int, int] | None:
    """Return a number that may mark missing values, and how many cells hold it.

    It is one of those that surveys use, and alone: the one negative value, or far above the next.
    """
    if not (pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)):
        return None
    counts = pc.value_counts(cells.combine_chunks().drop_null()).to_pylist()
    held = sorted((each["values"], each["counts"]) for each in counts)
    if len(held) < FEW_VALUES:
        return None
    (low, few), (_, many) = held[0], held[-1]
    if low in LOW_CODES and held[1][0] >= 0:
        return int(low), few
    high = held[-1][0]
    return (int(high), many) if high in HIGH_CODES and 0 <= held[-2][0] < high / 4 else None


def zeros(cells: pa.ChunkedArray) -> float:
    """Return the share of the cells that are zero, of those that are not missing."""
    present = len(cells) - cells.null_count
    return float(pc.sum(pc.equal(cells, 0)).as_py() or 0.0) / float(max(present, 1))


# --- numbers ----------------------------------------------------------------------------


def _record(seen: Seen) -> str | None:
    """Return why whole numbers name records: unique by more than chance, or so called."""
    nearly = seen.present > FEW_ROWS and seen.distinct > NEARLY_UNIQUE * seen.present
    alone = seen.is_varied or seen.distinct == seen.present
    known = (seen.words & _words.IDS and alone) or (nearly and seen.words & _words.NUMBERS)
    if known and not seen.words & _words.MEASURED:
        return f"{IDENTIFIER}: a record number, according to its name; {DROP_OR_KEY}"
    values = np.array(seen.values.to_pylist(), dtype=np.float64)
    span = float(values.max() - values.min()) + 1
    # of n numbers drawn from as many as these span, about n^2 / (2 span) pairs would be equal
    expected = seen.present**2 / (2 * span)
    if seen.is_unique and (span <= 2 * len(values) or expected > BY_CHANCE):
        return f"{IDENTIFIER}: every value is different, and not by chance; {DROP_OR_KEY}"
    return None


def _card(seen: Seen) -> str | None:
    if np.mean([luhn(str(value)) for value in seen.values.to_pylist()]) > MOST:
        return "looks like payment card or account numbers (the check digit fits)"
    return None


def _postal(seen: Seen) -> Recognised | None:
    if not seen.words & _words.POSTAL:
        return None
    if seen.distinct >= MANY or seen.is_varied:
        return Recognised("decide", f"{seen.distinct:,} postal codes: few people share one")
    return Recognised("category", "postal codes: numbers without a size, so a category")


def _number_of_a_thing(seen: Seen) -> Recognised | None:
    """Return what numbers are that name a place, a school, a family: noise would name another."""
    named = seen.words & _words.PLACES or (
        seen.words & _words.HOLDERS and _most(seen) > MOST_COUNTED and seen.distinct > MOST_COUNTED
    )
    if not named or seen.words & _words.COUNTED or seen.distinct <= FEW_CODES:
        return None
    if seen.distinct >= MANY or seen.is_varied:
        return decide(f"{OF_THINGS}, according to its name: {seen.distinct:,} values")
    return Recognised(
        "category", "numbers of places or things: names without a size, so a category"
    )


def _month(seen: Seen) -> Recognised | None:
    if not seen.words & _words.MONTHS or _most(seen) > 12:
        return None
    return Recognised("category", "months: the last is beside the first, so a category")


def _clock(seen: Seen) -> Recognised | None:
    """Return what hours and minutes written as one number are, as 1545: noise makes 1583 of it."""
    values = np.array(seen.values.to_pylist(), dtype=np.int64)
    hours, minutes = np.divmod(values, 100)
    spread = len({*minutes.tolist()} - {0, 50}) > 0
    written = values.min() >= 0 and 10 <= hours.max() <= 24 and minutes.max() < 60
    if not (written and spread and seen.distinct >= FEWEST_TIMES):
        return None
    return Recognised("category", "hours and minutes written as one number, so a category")


def _most(seen: Seen) -> int:
    """Return the largest size of a value."""
    ends = pc.min_max(seen.values).as_py()
    return max(-int(ends["min"]), int(ends["max"]))


def _code(seen: Seen) -> Recognised | None:
    if seen.present < FEW_ROWS * 2 or seen.distinct < 2:
        return None
    many = CODES_OF_KINDS if seen.words & _words.CODED else FEW_CODES
    if seen.distinct > many or (seen.words & _words.COUNTED and seen.distinct > 2):
        return None
    return Recognised(
        "category",
        f"{seen.distinct} different whole numbers, taken as codes; perturb what counts or measures",
    )


_WHOLE = (
    _card,
    _record,
    by_name,
    of_several,
    _postal,
    _number_of_a_thing,
    _month,
    _clock,
    _code,
)


def _whole_floats(seen: Seen) -> Recognised | None:
    """Return what whole numbers that are stored as floats, as beside gaps, are recognised as."""
    values = seen.values.cast(pa.float64())
    ends = pc.min_max(values).as_py()
    if (
        max(-ends["min"], ends["max"]) > EXACT
        or not pc.all(pc.equal(values, pc.floor(values))).as_py()
    ):
        return _code_with_decimals(seen)
    return first(_WHOLE, replace(seen, values=values.cast(pa.int64())))


def _code_with_decimals(seen: Seen) -> Recognised | None:
    """Return what grades are, such as 0, 0.5 and 1."""
    if seen.distinct > FEW_FLOATS or _code(seen) is None:
        return None
    return Recognised(
        "category",
        f"{seen.distinct} different numbers, taken as codes; perturb what counts or measures",
    )


def _birth(seen: Seen) -> str | None:
    if seen.words & _words.BIRTH:
        return "a date of birth, according to its name: it finds people in other registers"
    days = to_floats(seen.values, seen.name)
    if not str(unit_of(seen.values.type)).startswith("days"):
        days = days / 86_400
    if (_days_of_months(days) == 1).all():  # months, as in a time series
        return None
    low, high = np.quantile(days, [0.05, 0.95])
    if high - low > LIFETIME and seen.distinct >= MANY:
        return f"dates over {(high - low) / 365.25:.0f} years: dates of birth?"
    return None


def _days_of_months(days: Floats) -> Ints:
    """Return which day of its month each day since 1970 is."""
    dates = np.floor(days).astype("datetime64[D]")
    return np.asarray((dates - dates.astype("datetime64[M]")).astype(np.int64) + 1)


def _position(seen: Seen) -> str | None:
    words = seen.words
    ends = pc.min_max(seen.values).as_py()
    far = max(abs(float(ends["min"])), abs(float(ends["max"])))
    latitude = words & _words.LATITUDE and far <= 90
    sure = words != {"long"} or bool(seen.beside & _words.LATITUDE)
    longitude = words & _words.LONGITUDE and far <= 180 and sure
    if (latitude or longitude or words & _words.GEO) and not seen.is_short_list:
        return "coordinates, according to its name: a place with few people names them"
    return None
