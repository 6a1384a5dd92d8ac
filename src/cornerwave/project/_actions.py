"""What a plan is made of: actions, each with its lines, and lines on what is not done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cornerwave.document import one_line
from cornerwave.errors import CornerwaveError, Fault, SourceLost, collecting_warnings
from cornerwave.kinds import Json, JsonObject
from cornerwave.ledger import Terms
from cornerwave.levels import LINEAR, Level, Privacy
from cornerwave.sources import Progress

NEW, REPLACED, ENDED, STAYS, CANNOT = "+", "~", "-", "=", "!"
"""How a line begins: what is made, made in place of another, ended, left alone, and impossible."""


@dataclass(frozen=True)
class PlanLine:
    """A line of a plan; `facts` are what programs read of it."""

    mark: str
    text: str
    facts: JsonObject = field(default_factory=dict)

    def __str__(self) -> str:
        return one_line(f"{self.mark} {self.text}")

    def to_json(self) -> JsonObject:
        """Return it for programs."""
        return {**self.facts, "mark": self.mark, "text": self.text}


@dataclass(frozen=True)
class Action:
    """Something that brings a vault nearer to what a file states; `rehearse` records nothing."""

    lines: tuple[PlanLine, ...]
    do: Callable[[Progress], None]
    rehearse: Callable[[Progress], None] | None = None
    table: str = ""


@dataclass
class Findings:
    """What comparing the file with the vault brought so far."""

    actions: list[Action] = field(default_factory=list)
    stays: list[PlanLine] = field(default_factory=list)
    cannot: list[PlanLine] = field(default_factory=list)

    def refuse(self, table: str, why: str) -> None:
        """Note what is stated of a table and cannot be done, and what to do."""
        self.cannot.append(PlanLine(CANNOT, f"{table}: {why}", {"table": table}))

    @contextmanager
    def refusing(self, table: str) -> Iterator[None]:
        """Note what the code within refuses; warnings are for the run, not for the plan."""
        try:
            with collecting_warnings():
                yield
        except (Fault, SourceLost):
            raise
        except CornerwaveError as error:
            self.refuse(table, str(error))


def asked_words(asked: Level | Privacy) -> str:
    """Return a level as an owner states it.

    >>> asked_words(Privacy(0.5)), asked_words(Privacy(0.5, "bayes")), asked_words(Level(4.0))
    ('privacy 0.5', 'privacy 0.5 against bayes', 'noise 4')
    """
    if isinstance(asked, Level):
        return f"noise {asked.noise:g}"
    return f"privacy {asked.share:g}" + f" against {asked.against}" * (asked.against != LINEAR)


def asked_facts(asked: Level | Privacy) -> dict[str, Json]:
    """Return a level for programs."""
    if isinstance(asked, Level):
        return {"noise": asked.noise}
    return {"privacy": asked.share, "against": asked.against}


def terms_words(terms: Terms) -> str:
    """Return terms, to be added to what a recipient may have."""
    return f", {terms.in_words}" if terms else ""
