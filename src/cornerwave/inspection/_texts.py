"""Texts that must not leave by default: names, addresses, numbers of people, free text.

Known by the column's name, in several languages, and by the shape of its values in the sampled
rows. So is every text of many values that nothing is known of. No reason shows a value.
"""

import ipaddress
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.columns import FEW_ROWS
from cornerwave.inspection import _words
from cornerwave.inspection._seen import (
    FEW_CODES,
    MANY,
    MOST,
    SOME,
    Recognised,
    Seen,
    by_name,
    of_several,
)

SHARE_OF_ANSWERS = 0.3
"""If most rows have none, texts with this many values for each answer were written."""

LETTERS = 1000
"""So many characters of a text are looked at: longer ones are written, or sequences."""

CHOSEN_WORDS, WORDS_IN_TEXT = 2, 4
"""Texts of more words than this, on average, were written rather than chosen: of fewer if the
column's name suggests it."""

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


def luhn(text: str) -> bool:
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
    (luhn, "payment card or account numbers (the check digit fits)"),
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


TEXT_RULES = (_contact, by_name, _names, _written, of_several, _dates, _codes, _many)
