"""Who holds which copy, as a line of the ledger says it."""

from dataclasses import dataclass

from cornerwave.columns import Finish
from cornerwave.ledger import Holding
from cornerwave.levels import LATTICE, Level


@dataclass(frozen=True)
class Held:
    """A recipient holds a copy since a time; the rest is all that made its bytes."""

    recipient: str
    level: Level
    finish: Finish
    format: str
    dictionary: bool
    since: str
    edition: int
    batch: int | None

    @classmethod
    def of(cls, holding: Holding) -> "Held":
        """Read a line of the ledger."""
        made = holding.made
        clip = {name: (low, high) for name, (low, high) in made["clip"].items()}
        finish = Finish(frozenset(made["round"]), clip, made["types"], made["names"])
        return cls(
            recipient=holding.recipient,
            level=Level(LATTICE[made["level"] - 1]),
            finish=finish,
            format=made["format"],
            dictionary=made["dictionary"],
            since=holding.since,
            edition=made["edition"],
            batch=made["batch"],
        )

    @property
    def which(self) -> str:
        """Which rows of the table it has: an edition, or a batch alone."""
        return f"{self.edition}" if self.batch is None else f"batch {self.batch}"
