"""What copies of an edition and of the next leave hidden of rows that changed between them.

Of many rows that changed in the same columns, the covariance H of their values before and after
is measured, and that of their noise follows from the rule: v S. What copies of both leave hidden
of each value, of the mean of the two and of the change is then exact.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.coalition import hidden_in_history, history_functions
from cornerwave.editions import HALF
from cornerwave.frozen import Frozen
from cornerwave.history import Changes, Transition, noise_across
from cornerwave.levels import Level

ROWS_PER_COLUMN = 10
"""Changed rows for each column, at least, to measure what they have in common."""


def pairs_name(edition: int) -> str:
    """Return what the pairs of an edition are called beside the chain."""
    return f"pairs:{edition}"


@dataclass(frozen=True)
class Pair:
    """Rows that changed in the same columns: H (2N, 2N), and their rule."""

    rows: int
    history: Floats
    rule: Transition

    def hidden(self, shape: Floats, held: Sequence[tuple[int, float]]) -> dict[str, float]:
        """Return the least share of what is asked about that copies leave hidden.

        `held` are copies: 0 before the change or 1 after it, each with its noise.
        """
        columns = len(shape)
        noise = noise_across(shape, [self.rule])
        least = {}
        for name, weights in history_functions(2, columns).items():
            own = [w for w in weights if np.abs(w).sum(axis=0)[list(self.rule.columns)].any()]
            shares = hidden_in_history(np.array(own), held, history=self.history, noise=noise)
            least[name] = float(np.clip(shares.min(), 0.0, 1.0))
        return least


def measured_pairs(changes: Changes, rules: Sequence[Transition]) -> list[Pair]:
    """Return the pairs of rows that are many enough."""
    found = []
    for columns, part in changes.kinds.items():
        number = len(part.top) // 2
        own = [rule for rule in rules[1:] if rule.columns == columns]
        if part.rows >= ROWS_PER_COLUMN * number:
            found.append(Pair(part.rows, _history(part.covariance, number), (own or rules[:1])[0]))
    return found


def _history(moments: Floats, columns: int) -> Floats:
    """Return the covariance of (x, y) from that of (x, y - x)."""
    turned = np.eye(2 * columns)
    turned[columns:, :columns] = np.eye(columns)
    return np.asarray(turned @ moments @ turned.T)


def stays_hidden(frozen: Frozen, pairs: Iterable[Pair]) -> dict[str, float]:
    """Return what copies of both editions at privacy 0.5 leave hidden of changed rows."""
    level = frozen.hidden.level_of(HALF) or Level(1.0)
    return least_hidden(frozen, pairs, [(0, level.noise), (1, level.noise)])


def least_hidden(
    frozen: Frozen, pairs: Iterable[Pair], held: Sequence[tuple[int, float]]
) -> dict[str, float]:
    """Return what copies leave hidden, at least, of each value, of the mean and of the change."""
    shape = frozen.covariance + frozen.excess
    least: dict[str, float] = {}
    for pair in pairs:
        for name, share in pair.hidden(shape, held).items():
            least[name] = round(min(least.get(name, 1.0), share), 4)
    return least


def pairs_bytes(pairs: Iterable[Pair]) -> bytes:
    """Return what is kept beside the chain."""
    kept = [
        {"rows": p.rows, "history": p.history.tolist(), "rule": p.rule.to_json()} for p in pairs
    ]
    return json.dumps(kept).encode()


def read_pairs(content: bytes) -> list[Pair]:
    """Return what `pairs_bytes` wrote."""

    def pair(kept: Mapping[str, object]) -> Pair:
        history = np.array(kept["history"], dtype=np.float64)
        return Pair(int(str(kept["rows"])), history, Transition.from_json(kept["rule"]))  # type: ignore[arg-type]

    return [pair(kept) for kept in json.loads(content)]
