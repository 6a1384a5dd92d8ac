"""What some recipients can recover together, exactly, from the levels that they hold.

With copies Y_i = X + Z_i and Cov(Z) = Sigma (x) K, the best linear estimate leaves
the share 1 / (1 + 1' Sigma^-1 1) of X's variance hidden, in every column:

    corner wave   Sigma = min(u, v)   ->  v / (1 + v) of the least noise v      (Theorem 4)
    independent   Sigma = diag(v)     ->  1 / (1 + sum 1/v)                     (Theorem 3)
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cornerwave.levels import Level


@dataclass(frozen=True)
class Coalition:
    """Shares of variance that stay hidden from some recipients."""

    members: tuple[tuple[str, Level], ...]
    joint_privacy: float
    best_member: str
    best_privacy: float
    independent_privacy: float

    @property
    def gain(self) -> float:
        """What pooling uncovers beyond the best member's own copy; 0 for corner-wave noise."""
        return self.best_privacy - self.joint_privacy

    @property
    def independent_gain(self) -> float:
        """What pooling would uncover if each copy had noise of its own."""
        return self.best_privacy - self.independent_privacy


def coalition(members: Sequence[tuple[str, Level]]) -> Coalition:
    """Return what recipients can recover together from the copies that they hold.

    >>> pair = coalition([("alice", Level(1.0)), ("bob", Level(4.0))])
    >>> pair.joint_privacy, pair.best_member, round(pair.independent_privacy, 4)
    (0.5, 'alice', 0.4444)
    """
    best, level = min(members, key=lambda member: member[1])
    return Coalition(
        members=tuple(members),
        joint_privacy=min(level for _, level in members).privacy,
        best_member=best,
        best_privacy=level.privacy,
        independent_privacy=1 / (1 + sum(1 / level.noise for _, level in members)),
    )
