"""What only the owner knows: who holds the copies, and what the original itself looks like."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit.exposure import Exposed, count_exposed
from cornerwave.coalition import Coalition
from cornerwave.dataset import Dataset, Held
from cornerwave.miner import reading
from cornerwave.miner.columns import Column
from cornerwave.report.copies import Copies
from cornerwave.report.mined import Mined, as_kept, mine
from cornerwave.report.tally import Tally, tally

MOST_RECIPIENTS = 12
"""So many recipients, those with the least noise, are paired."""


@dataclass(frozen=True)
class Original:
    """The holdings, the coalitions, the original's spread and figures, and who stands out."""

    holdings: tuple[Held, ...]
    coalitions: tuple[Coalition, ...]
    tally: Tally
    mined: Mined
    exposed: Exposed
    columns: tuple[str, ...]


def look_behind(dataset: Dataset, copies: Copies) -> Original:
    """Look at the original in the bins, and by the questions, that the copies gave."""
    columns = [*(column for column, _ in copies.axes.values()), *copies.categories]
    kept = as_kept(dataset.source, columns)
    return Original(
        holdings=tuple(dataset.holdings),
        coalitions=tuple(coalitions(dataset)),
        tally=tally(dataset.source, copies.axes, copies.categories, copies.labels),
        mined=mine(kept, copies.asked),
        exposed=_exposed(dataset, copies),
        columns=tuple(dataset.frozen.schema.perturbed),
    )


def coalitions(dataset: Dataset) -> Iterator[Coalition]:
    """Yield what each recipient, each pair and all of them can recover."""
    recipients = list(dict.fromkeys(holding.recipient for holding in dataset.holdings))
    for recipient in recipients:
        yield dataset.coalition([recipient])
    for pair in combinations(recipients[:MOST_RECIPIENTS], 2):
        yield dataset.coalition(pair)
    if len(recipients) > 2:
        yield dataset.coalition(recipients)


def _exposed(dataset: Dataset, copies: Copies) -> Exposed:
    frozen = dataset.frozen
    return count_exposed(
        (frozen.scaled(block) for block in _columns(dataset, frozen.schema.perturbed)),
        rows=frozen.rows,
        mean=frozen.mean,
        variance=np.diag(frozen.covariance),
        noise=[level.noise for level in copies.levels],
    )


def _columns(dataset: Dataset, names: Sequence[str]) -> Iterator[Floats]:
    """Yield blocks (columns, rows) of the original's numbers."""
    columns = [Column(name, is_number=True) for name in names]
    for block in reading.number_blocks(dataset.source, columns) if columns else ():
        yield np.ascontiguousarray(block.T)
