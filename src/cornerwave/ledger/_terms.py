"""Why somebody has a copy, by which contract and until when; and times as they are kept.

Recipients, grants and the lines of the ledger state terms. The service ends a permission by them;
a copy that has left cannot be taken back, so its line only states what was agreed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cornerwave.errors import LevelError, VaultError

MOST_WORDS = 500


@dataclass(frozen=True)
class Terms:
    """What a copy is for, by which contract, and until when; '' and None are not stated.

    >>> Terms.of(purpose="a study", until="2027-01-31").in_words
    'for a study, until 2027-01-31'
    """

    purpose: str = ""
    contract: str = ""
    until: str | None = None

    @classmethod
    def of(
        cls, *, purpose: str = "", contract: str = "", until: str | datetime | None = None
    ) -> "Terms":
        """Return terms from what an owner gives. Raises VaultError."""
        ends = None if until is None else written(time_of(until))
        return cls(short(purpose), short(contract), ends)

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> "Terms":
        """Return what `to_json` wrote; what is not kept was not stated."""
        return cls(kept.get("purpose", ""), kept.get("contract", ""), kept.get("until"))

    def to_json(self) -> dict[str, str]:
        """Return what is stated, as it is kept."""
        stated = {"purpose": self.purpose, "contract": self.contract, "until": self.until}
        return {name: text for name, text in stated.items() if text}

    def __bool__(self) -> bool:
        return bool(self.to_json())

    @property
    def ends(self) -> datetime | None:
        """The time when they end, if there is one."""
        return None if self.until is None else time_of(self.until)

    def has_ended(self, at: datetime) -> bool:
        """Whether they have ended at a time."""
        return self.ends is not None and self.ends <= at

    def check_ahead(self, at: datetime, what: str) -> None:
        """Raise LevelError if they would have ended before they begin."""
        if self.has_ended(at):
            raise LevelError(f"{what} must end in the future; this time has passed")

    def beside(self, others: "Terms") -> "Terms":
        """Return these terms, and those of others where nothing is stated here."""
        return Terms.of_json({**others.to_json(), **self.to_json()})

    @property
    def in_words(self) -> str:
        """What is stated, for a line of text; '' if nothing is."""
        said = [f"for {self.purpose}"] * bool(self.purpose)
        said += [f"by {self.contract}"] * bool(self.contract)
        said += [f"until {day_of(self.until)}"] * bool(self.until)
        return ", ".join(said)


NO_TERMS = Terms()
"""Nothing is stated."""


def day_of(time: str | None) -> str:
    """Return a time as people read it: a date alone, if it is the beginning of a day in UTC."""
    return (time or "").removesuffix("T00:00:00.000+00:00")


def written(at: datetime) -> str:
    """Return a time as it is kept."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


def time_of(text: str | datetime) -> datetime:
    """Return a time; a date alone is its beginning in UTC. Raises VaultError."""
    try:
        at = text if isinstance(text, datetime) else datetime.fromisoformat(text)
    except ValueError:
        raise VaultError(
            f"{text!r} is not a valid date; write 2027-01-31 or 2027-01-31T12:00"
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def short(text: str) -> str:
    """Return text that fits into a line of a list. Raises VaultError."""
    plain = "".join(c if c.isprintable() else " " for c in text).strip()
    if len(plain) > MOST_WORDS:
        raise VaultError(f"at most {MOST_WORDS} characters")
    return plain
