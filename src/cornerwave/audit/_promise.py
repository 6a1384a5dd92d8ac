"""Does a copy hide what it states?

A copy that states privacy p promises that the best linear estimate from all of it leaves
at least the share p of every column hidden. For numbers alone, honest noise v K leaves

    v / (1 + v)    of each column, with a standard error of   v sqrt((4 v + 2) / T) / (1 + v)^2

for any distribution of X: given X, chance is in the noise only. With missing values the
complete rows are a sample too, and their error is measured, from group to group. Estimates
are fitted to other rows than they are tested on: they err, if at all, to the copy's favour.

What numbers, categories, kept columns and gaps say together is judged in _whole, on some of
the rows: this check is the sharper one for numbers, since it sees all of them.
"""

from collections.abc import Iterator

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit._chance import Check, t_limit, z_limit
from cornerwave.audit._evidence import NumberEvidence
from cornerwave.audit._gain import Alone, measure_alone


def promise(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare what each copy alone leaves hidden of each number with what it states."""
    found = evidence.attacked
    known = [(i, p) for i, p in enumerate(evidence.privacy) if p is not None]
    if found.complete != evidence.complete:
        known = []  # rows were completed: what they hide is judged in _whole, as the files have it
    each = alpha / max(len(known) * found.columns, 1)
    for i, stated in known:
        left = measure_alone(found, i)
        limit = z_limit(2 * each)
        if found.complete < found.rows:
            limit = t_limit(2 * each, left.groups - 1)
        score = (stated - left.hidden) / np.maximum(_error(evidence, stated, left), 1e-300)
        at = int(score.argmax())
        note = (
            f"states that {stated:.3f} of {evidence.columns[at]} stays hidden, "
            f"but {left.hidden[at]:.3f} does"
        )
        yield Check.of((i,), max(float(score[at]), 0.0), limit, note)


def _error(evidence: NumberEvidence, stated: float, left: Alone) -> Floats:
    """Return the standard error of the hidden shares, (N,)."""
    found, v = evidence.attacked, stated / (1 - stated)
    by_noise = v * np.sqrt((4 * v + 2) / found.complete) / (1 + v) ** 2
    if found.complete == found.rows:
        return np.full(found.columns, by_noise)
    return np.asarray(np.maximum(left.error, by_noise))
