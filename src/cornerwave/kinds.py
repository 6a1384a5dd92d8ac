"""Kinds of values that a declared field may have: which are accepted, in words."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""A value that is written as JSON."""
JsonObject: TypeAlias = Mapping[str, Json]
"""An object that is written as JSON."""


def canonical(value: Any) -> str:
    """Return the canonical JSON of a value: equal values have one text.

    >>> canonical({"b": 1, "a": [0.5, None]})
    '{"a":[0.5,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


class Kind:
    """Which values of JSON or TOML a field may have; `allowed` states it in words."""

    allowed: str

    def accepts(self, value: Any) -> bool:
        """Whether a value is one of them."""
        raise NotImplementedError

    def parsed(self, value: Any) -> Any:
        """Return a value that is accepted as it is used."""
        return tuple(value) if isinstance(value, list) else value

    def of_text(self, text: str) -> Any:
        """Return what a text states, to be checked."""
        return text


@dataclass(frozen=True)
class Text(Kind):
    """Text without control characters, or any text, of at least and at most some letters."""

    allowed: str = "text"
    printable: bool = True
    least: int = 0
    most: int | None = None

    def accepts(self, value: Any) -> bool:
        """Whether it is text."""
        if not isinstance(value, str) or len(value) < self.least:
            return False
        is_short = self.most is None or len(value) <= self.most
        return is_short and (value.isprintable() or not self.printable)


@dataclass(frozen=True)
class Number(Kind):
    """A number in a range, both ends included."""

    least: float
    most: float
    allowed: str

    def accepts(self, value: Any) -> bool:
        """Whether it is a number in the range; NaN is not."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and self.least <= value <= self.most


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number in a range, both ends included."""

    allowed: str
    least: int = 0
    most: int = 2**63 - 1

    def accepts(self, value: Any) -> bool:
        """Whether it is a whole number in the range."""
        return type(value) is int and self.least <= value <= self.most

    def of_text(self, text: str) -> Any:
        """Return the number that a text spells, or the text."""
        return int(text) if text.isdecimal() and len(text) < 20 else text


class OneOf(Kind):
    """One of some values."""

    def __init__(self, *values: Any, allowed: str = "") -> None:
        self.values = values
        self.allowed = allowed or f"one of {', '.join(json.dumps(value) for value in values)}"

    def accepts(self, value: Any) -> bool:
        """Whether it is one of them, and of its type: 1 is not true."""
        return any(type(value) is type(each) and value == each for each in self.values)


@dataclass(frozen=True)
class ListOf(Kind):
    """A list of values of one kind, or of `length` values."""

    kind: Kind
    allowed: str
    length: int | None = None
    ascending: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether it is such a list; numbers in it ascend if they must."""
        if not (isinstance(value, list | tuple) and all(map(self.kind.accepts, value))):
            return False
        if self.length is not None and len(value) != self.length:
            return False
        known = [each for each in value if each is not None]
        return not self.ascending or known == sorted(known)


@dataclass(frozen=True)
class TableOf(Kind):
    """Values of one kind, each by a name."""

    kind: Kind
    allowed: str

    def accepts(self, value: Any) -> bool:
        """Whether it is such a table."""
        return isinstance(value, Mapping) and all(map(self.kind.accepts, value.values()))


@dataclass(frozen=True)
class OrNull(Kind):
    """A value of a kind, or null."""

    kind: Kind

    @property
    def allowed(self) -> str:  # type: ignore[override]
        """What the kind allows, and null."""
        return f"{self.kind.allowed}, or null"

    def accepts(self, value: Any) -> bool:
        """Whether it is null or of the kind."""
        return value is None or self.kind.accepts(value)

    def parsed(self, value: Any) -> Any:
        """Return null, or a value of the kind as it is used."""
        return None if value is None else self.kind.parsed(value)
