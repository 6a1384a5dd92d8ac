"""Requests: what a recipient asks for, and what each coalition could recover if he got it.

A coalition leaves hidden what its least noisy copy leaves (Theorem 4), so a new copy at level v
changes something only for coalitions with its recipient in which nobody holds less noise than v.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from cornerwave.dataset import Dataset
from cornerwave.errors import VaultError
from cornerwave.levels import Level
from cornerwave.vault import Record

OPEN, APPROVED, DECLINED = "open", "approved", "declined"
MOST_WORDS = 500
MOST_OPEN = 20
"""Requests of one recipient that may wait for an answer."""


@dataclass(frozen=True)
class Request:
    """A recipient asks for a dataset, or for a better level of it, and why.

    `name` and `privacy` are as he wrote them. `dataset` is an id, or '' if there was none of that
    name: he is not told whether there is.
    """

    id: str
    dataset: str
    name: str
    recipient: str
    privacy: float
    reason: str
    at: str
    state: str = OPEN
    answer: str = ""

    @classmethod
    def of(cls, record: Record) -> "Request":
        """Read a request as it is kept."""
        return cls(id=record.id, recipient=record.of, at=record.at, **record.content)

    def record(self) -> Record:
        """Return it as it is kept."""
        content = {
            "dataset": self.dataset,
            "name": self.name,
            "privacy": self.privacy,
            "reason": self.reason,
            "state": self.state,
            "answer": self.answer,
        }
        return Record("request", self.id, self.recipient, self.at, content)


@dataclass(frozen=True)
class Foreseen:
    """The share that stays hidden from a coalition, now and if a recipient had one more copy."""

    members: tuple[str, ...]
    before: float
    after: float

    @property
    def loses(self) -> bool:
        """Whether less would stay hidden."""
        return self.after < self.before


def foreseen(dataset: Dataset, recipient: str, level: Level) -> Iterator[Foreseen]:
    """Yield him alone, him with each holder, and all of them together if there are several.

    Whoever holds no copy leaves everything hidden.
    """
    least: dict[str, Level] = {}
    for held in dataset.holdings:  # least noise first
        least.setdefault(held.recipient, held.level)
    others = [name for name in least if name != recipient]
    pairs = [(recipient, other) for other in others]
    everybody = [(recipient, *others)] if len(others) > 1 else []
    for members in [(recipient,), *pairs, *everybody]:
        known = [least[name] for name in members if name in least]
        before = dataset.privacy_of(min(known)) if known else 1.0
        yield Foreseen(members, before, dataset.privacy_of(min([*known, level])))


def short(text: str) -> str:
    """Return text that fits into a line of a list. Raises VaultError."""
    plain = "".join(c if c.isprintable() else " " for c in text).strip()
    if len(plain) > MOST_WORDS:
        raise VaultError(f"at most {MOST_WORDS} characters")
    return plain
