"""Grants: permission to fetch a dataset at a level, and how it is kept."""

from dataclasses import dataclass
from datetime import UTC, datetime

from cornerwave.dataset import Dataset, Release
from cornerwave.errors import VaultError
from cornerwave.levels import LATTICE, Level
from cornerwave.table import Finish
from cornerwave.vault import Record

ANYBODY = "anybody"
"""A grant to this name is the dataset's public level: anybody may fetch it, without a token."""
ANYBODY_KNOWN = "anybody with a token"
"""A grant to this name is for anybody with a token."""


@dataclass(frozen=True)
class Grant:
    """Permission for a recipient to fetch a dataset at a level, until a time if one is given."""

    id: str
    dataset: str
    recipient: str
    level: Level
    finish: Finish
    at: str
    until: str | None = None
    revoked: str | None = None

    @classmethod
    def of(cls, record: Record) -> "Grant":
        """Read a grant as it is kept."""
        said = record.content
        clip = {name: (low, high) for name, (low, high) in said["clip"].items()}
        return cls(
            id=record.id,
            dataset=said["dataset"],
            recipient=record.of,
            level=Level(LATTICE[said["level"] - 1]),
            finish=Finish(frozenset(said["round"]), clip),
            at=record.at,
            until=said["until"],
            revoked=said["revoked"],
        )

    def record(self) -> Record:
        """Return it as it is kept."""
        content = {
            "dataset": self.dataset,
            "level": self.level.thousandths,
            "round": sorted(self.finish.round),
            "clip": {name: list(ends) for name, ends in self.finish.clip.items()},
            "until": self.until,
            "revoked": self.revoked,
        }
        return Record("grant", self.id, self.recipient, self.at, content)

    def is_live(self, at: datetime) -> bool:
        """Return whether it permits anything at this time."""
        return self.revoked is None and (self.until is None or at < time_of(self.until))

    def release_of(self, dataset: Dataset) -> Release:
        """Return the copy that it permits, held by nobody yet."""
        return dataset.granted(self.recipient, self.level, self.finish)


def written(at: datetime) -> str:
    """Return a time as it is kept."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


def time_of(text: str | datetime) -> datetime:
    """Return a time; a date alone is its beginning in UTC. Raises VaultError."""
    try:
        at = text if isinstance(text, datetime) else datetime.fromisoformat(text)
    except ValueError:
        raise VaultError(f"{text!r} is no date; write 2027-01-31 or 2027-01-31T12:00") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
