"""What must not leave by default, and whole numbers that are codes.

A column is known by its name, in several languages, and by the shape of its values in the
sampled rows. What is recognised is left to the owner, with the reason; so is every text of
many values that nothing is known of. No reason shows a value.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints
from cornerwave.columns import FEW_ROWS, is_text, to_floats, unit_of
from cornerwave.inspection import _words
from cornerwave.privacy import names_a_thing

MANY = 100
"""Text of so many values is left to the owner, whatever it looks like,"""
SHARE_OF_ANSWERS = 0.3
"""If most rows have none, texts with this many values for each answer were written."""
SHARE_OF_ROWS = 0.2
"""as is text with this many values for each row, if they are more than FEW_ROWS."""
FEW_CODES = 10
"""Whole numbers of at most so many values are codes, unless their name suggests otherwise."""
FEW_FLOATS = 5
"""So are numbers with decimals, of at most so many values."""
CODES_OF_KINDS = 50
"""Whole numbers are, of at most so many values, if their name suggests it."""
MOST_COUNTED = 30
"""Larger whole numbers under the word for a thing, as school, count nothing: they name it."""
FEWEST_TIMES = 15
"""So many different numbers look like the hours and minutes of a clock, or do by chance."""
LOOKED_AT = 1000
"""So many different values of a column are looked at."""
LETTERS = 1000
"""So many characters of a text are looked at: longer ones are written, or sequences."""
SOME, MOST = 0.01, 0.6
"""Shares of these values: some look like a sure thing, most like one that is less sure."""
CHOSEN_WORDS, WORDS_IN_TEXT = 2, 4
"""Texts of more words than this, on average, were written rather than chosen: of fewer if the
column's name suggests it."""
NEARLY_UNIQUE = 0.95
IDENTIFIER, DROP_OR_KEY = "looks like an identifier", "drop it, or make it the key"
OF_THINGS = f"{IDENTIFIER} of people or things"
FEWEST_NAMED, MOST_EACH = 15, 500
"""Identifiers of several rows each have so many values at least, of so many rows at most."""
BY_CHANCE = 10.0
"""Whole numbers that are all different, though so many pairs of equal ones are expected, were
given out one by one."""
ZERO_HEAVY = 0.2
"""The share of zeros that is worth a note."""
EXACT = 2.0**53
"""Whole numbers beyond this are not exact as floats."""
LOW_CODES, HIGH_CODES = (-1, -7, -8, -9, -77, -88, -99, -999, -9999), (999, 9999, 99999)
"""Numbers by which surveys mark a missing answer,"""
FEW_VALUES = 4
"""in columns of so many values at least."""
LIFETIME = 40 * 365.25
"""Dates over so many days may be dates of birth."""


@dataclass(frozen=True)
class Seen:
    """A column as far as it is looked at: `values` are different ones from the sampled rows.

    `distinct` and `present` belong to the whole column, of `rows` rows; `beside` are the words of
    all columns.
    """

    name: str
    values: pa.Array
    distinct: int
    present: int
    rows: int
    beside: frozenset[str]

    @classmethod
    def of(cls, name: str, rows: pa.Table, *, distinct: int, present: int, total: int) -> "Seen":
        """Look at a column of the sampled rows, of `total` rows."""
        values = pc.unique(rows.column(name)).drop_null()[:LOOKED_AT]
        if pa.types.is_floating(values.type):
            values = values.filter(pc.is_finite(values))
        beside = frozenset(w for each in rows.column_names for w in _words.words_of(each))
        return cls(name, values, distinct, present, total, beside)

    @property
    def words(self) -> frozenset[str]:
        """The words of the column's name."""
        return _words.words_of(self.name)

    @property
    def is_unique(self) -> bool:
        """Whether every row has a value of its own, in more than a few rows."""
        return self.present > FEW_ROWS and self.distinct >= self.present

    @property
    def is_short_list(self) -> bool:
        """Whether there are so few values, and each so often, that none names one person."""
        return self.distinct <= FEW_CODES and self.present >= 2 * self.distinct

    @property
    def is_seldom_answered(self) -> bool:
        """Whether most rows have no value, as under 'other, please specify'."""
        return self.rows > FEW_ROWS and self.distinct > 2 and 2 * self.present < self.rows

    @property
    def is_varied(self) -> bool:
        """Whether the values are too many to be a short list of kinds."""
        return self.distinct > FEW_ROWS and self.distinct > SHARE_OF_ROWS * self.present


@dataclass(frozen=True)
class Recognised:
    """What a draft should propose for a column, and why."""

    do: str
    reason: str
    is_dated: bool = False
    """Whether it is text that spells dates: it names nobody."""


def recognise(seen: Seen) -> Recognised | None:
    """Return what a column was recognised as; None if nothing speaks against its type."""
    if not len(seen.values):
        return None
    type_ = seen.values.type
    if is_text(type_):
        return _first(_TEXT, seen)
    if pa.types.is_integer(type_):
        return _first(_WHOLE, seen)
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return _decide(_birth(seen))
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return _decide(_position(seen)) or _whole_floats(seen)
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


def _first(rules: Sequence[Callable[[Seen], Any]], seen: Seen) -> Recognised | None:
    for rule in rules:
        if result := rule(seen):
            return result if isinstance(result, Recognised) else _decide(result)
    return None


def _decide(reason: str | None) -> Recognised | None:
    return None if reason is None else Recognised("decide", reason)


# --- by value ---------------------------------------------------------------------------

# each begins where its first run of characters does, or every place in a long run would be tried
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(\.[\w-]+)+")
_URL = re.compile(r"(https?://|ftp://|www\.)\S+", re.I)
_PHONE = re.compile(r"(\+|00?)?[\d(][\d ()/.-]{5,20}\d")
_DAY = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([ T].*)?")
_YEARS = re.compile(r"(1[89]|20)\d\d ?[-–/] ?((1[89]|20)\d\d|\d\d)")
_NUMBER = re.compile(r"[+-]?[\d.,]+(e[+-]?\d+)?", re.I)
_PLACE = re.compile(r"[(\[]?-?\d{1,3}\.\d{2,}[,; ]+-?\d{1,3}\.\d{2,}[)\]]?")
_CODE = re.compile(r"(?=.*\d)[0-9A-Za-z]+([-_:./][0-9A-Za-z]+)*")
_TITLE = re.compile(r"(dr|mr|mrs|ms|miss|prof|herr|frau|mme|mlle|sr|sra|sig)\b\.? \S+", re.I)
_THING = re.compile(
    r"\b(air(field|lines?|port|ways)|college|co|company|corp|county|dept|gmbh|hospital|inc|"
    r"inst(itute)?|int'?l|journal|llc|ltd|museum|park|plc|school|station|univ(ersity)?)\b",
    re.I,
)
_WORD = r"[^\W\d_a-z][\w'’.-]*"
_PERSON = re.compile(rf"{_WORD}(,? {_WORD}){{1,3}}")


def _texts(seen: Seen) -> list[str]:
    """Return the values that are looked at, of long ones the beginning."""
    cut = pc.utf8_slice_codeunits(seen.values.cast(pa.large_string()), 0, LETTERS)
    return [text.strip() for text in cut.to_pylist()]


def _share(seen: Seen, test: Callable[[str], Any]) -> float:
    """Return the share of the values that pass a test."""
    return float(np.mean([bool(test(text)) for text in _texts(seen)]))


def _address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _iban(text: str) -> bool:
    """Whether the digits check: the rearranged number is 1 modulo 97 (ISO 13616)."""
    plain = text.replace(" ", "").upper()
    if not re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", plain):
        return False
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


def _luhn(text: str) -> bool:
    """Whether 13 to 19 digits check as those of a payment card do (ISO/IEC 7812)."""
    plain = re.sub(r"[ -]", "", text)
    if not re.fullmatch(r"\d{13,19}", plain):
        return False
    doubled = [int(d) * (1 + place % 2) for place, d in enumerate(reversed(plain))]
    return sum(d - 9 * (d > 9) for d in doubled) % 10 == 0


def _phone(text: str) -> bool:
    return bool(
        _PHONE.fullmatch(text)
        and 7 <= sum(c.isdigit() for c in text) <= 15
        and not (_DAY.fullmatch(text) or _YEARS.fullmatch(text))
        and (text[0] in "+0(" or (" " in text or "-" in text))
    )


_SURE = (
    (_EMAIL.search, "e-mail addresses"),
    (_URL.search, "web addresses"),
    (_iban, "bank account numbers (IBAN)"),
)
_LIKELY = (
    (_luhn, "payment card or account numbers (the check digit fits)"),
    (_address, "IP addresses"),
    (_phone, "telephone numbers"),
    (_PLACE.fullmatch, "coordinates"),
    (_TITLE.match, "names of people"),
)


def _contact(seen: Seen) -> str | None:
    for test, what in _SURE:
        if (share := _share(seen, test)) > SOME:
            return f"holds {what} ({share:.0%} of the values looked at)"
    for test, what in _LIKELY if seen.distinct > 1 else ():
        if (share := _share(seen, test)) > MOST:
            return f"looks like {what} ({share:.0%} of the values looked at)"
    return None


def _written(seen: Seen) -> str | None:
    texts = _texts(seen)
    words = float(np.mean([len(text.split()) for text in texts]))
    if words > WORDS_IN_TEXT and seen.distinct > FEW_ROWS:
        return f"looks like free text, {words:.0f} words on average: it may name people"
    if words > CHOSEN_WORDS and seen.words & _words.WRITTEN:
        return "free text, according to its name: it may name people"
    lettered = _share(seen, lambda text: any(c.isalpha() for c in text)) > MOST
    if lettered and seen.is_seldom_answered and seen.distinct > SHARE_OF_ANSWERS * seen.present:
        return (
            f"{seen.present:,} answers in {seen.rows:,} rows, {seen.distinct:,} different ones: "
            "written in people's own words?"
        )
    return None


def _names(seen: Seen) -> str | None:
    words = seen.words
    persons = words & (_words.FIRST_OR_LAST | _words.ROLES)
    called = words & _words.PEOPLE or (words & _words.CALLED and persons)
    plainly = bool(words) and words <= _words.CALLED | _words.FIRST_OR_LAST
    written = _share(seen, lambda text: any(c.isalpha() for c in text)) > MOST
    few = seen.distinct <= 4 and seen.present > FEW_ROWS
    if (called or plainly) and written and not few:
        whose = "the names of people" if words - _words.CALLED else "names, perhaps of people"
        return f"{whose}, according to its name ({seen.distinct:,} different ones)"
    if _share(seen, _THING.search) > MOST / 2:
        return (
            f"{seen.distinct:,} names of places or organisations" if seen.distinct >= MANY else None
        )
    shaped = 0.0 if words & _words.KINDS else _share(seen, _PERSON.fullmatch)
    if shaped > MOST and (seen.distinct >= MANY / 2 or seen.is_varied):
        return f"looks like names of people: {shaped:.0%} of the values are capitalised words"
    if words & _words.ROLES and written and seen.distinct > FEW_CODES:
        return f"{seen.distinct:,} different texts under the word for a person: names?"
    return None


def _by_name(seen: Seen) -> str | None:
    """Return why the name of a column of text or whole numbers speaks against it."""
    words = seen.words
    if seen.is_short_list or words & _words.MEASURED:
        return None
    if words & _words.BIRTH and not words & _words.OF_BIRTHS:
        return "a date or year of birth, according to its name: it finds people in other registers"
    if words & _words.OFFICIAL:
        return "a number that was given to one person or account, according to its name"
    if words & _words.REACHED:
        return "a way to reach people, according to its name"
    return None


def _of_several(seen: Seen) -> str | None:
    """Return why a column names people or things that have several rows each."""
    each = seen.present / max(1, seen.distinct)
    if seen.words & _words.MEASURED or not names_a_thing(seen.name):
        return None
    if seen.distinct < FEWEST_NAMED or each > MOST_EACH:
        return None
    return (
        f"{OF_THINGS}, according to its name: {seen.distinct:,} values, of "
        f"about {each:.3g} rows each; noise on a name is of no use to anybody: drop it"
    )


def _dates(seen: Seen) -> Recognised | None:
    if _share(seen, _DAY.fullmatch) <= MOST or seen.distinct <= FEW_CODES:
        return None
    reason = f"{seen.distinct:,} different dates, written as text: convert them to dates, or drop"
    return Recognised("decide", reason, is_dated=True)


def _codes(seen: Seen) -> str | None:
    if _share(seen, _NUMBER.fullmatch) > MOST and seen.distinct >= MANY:
        return f"numbers written as text, {seen.distinct:,} different ones: codes?"
    if _share(seen, _CODE.fullmatch) > MOST and (seen.distinct >= MANY or seen.is_varied):
        return f"{seen.distinct:,} different codes: each may name a person or a case"
    return None


def _many(seen: Seen) -> str | None:
    if seen.distinct >= MANY or seen.is_varied:
        return f"{seen.distinct:,} different texts: some may point to people"
    return None


_TEXT = (_contact, _by_name, _names, _written, _of_several, _dates, _codes, _many)

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
    if np.mean([_luhn(str(value)) for value in seen.values.to_pylist()]) > MOST:
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
        return _decide(f"{OF_THINGS}, according to its name: {seen.distinct:,} values")
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
    _by_name,
    _of_several,
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
    return _first(_WHOLE, replace(seen, values=values.cast(pa.int64())))


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
