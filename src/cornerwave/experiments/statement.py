"""A statement of the paper in our words, with a verdict from measured numbers."""

from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist


class Verdict(StrEnum):
    """What became of a statement."""

    HOLDS = "holds"
    REMARK = "holds with a remark"
    FAILS = "does not hold"


ALPHA = 1e-4
"""How often a check that samples may reject a true statement, over all its comparisons."""


@dataclass(frozen=True)
class Statement:
    """Where the paper says what, and what was measured here."""

    source: str
    claim: str
    verdict: Verdict
    measured: str
    remark: str = ""

    @classmethod
    def judged(
        cls, *, source: str, claim: str, holds: bool, measured: str, remark: str = ""
    ) -> "Statement":
        """Return a statement whose verdict follows from a check and a remark.

        >>> Statement.judged(source="us", claim="1 < 2", holds=True, measured="1").verdict.value
        'holds'
        """
        passed = Verdict.REMARK if remark else Verdict.HOLDS
        return cls(source, claim, passed if holds else Verdict.FAILS, measured, remark)


def bound(comparisons: int) -> float:
    """Return how many standard deviations a true statement may stray, by ALPHA.

    >>> round(bound(1), 2), round(bound(100), 2)
    (3.89, 4.89)
    """
    return NormalDist().inv_cdf(1 - ALPHA / (2 * comparisons))
