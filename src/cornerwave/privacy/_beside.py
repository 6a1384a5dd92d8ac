"""What copies of linked tables show of persons beside a table: means over their rows there.

The noise of a person is one vector over all tables, so the mean of table s and a function f of the
rows of table t, with mean hats Phi_s and Phi_f, have noise of covariance Phi_f L_t L_s' Phi_s', and
the mean of m rows has R / m beside its own. A person who has no row there shows that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats, Ints, Words
from cornerwave.noise import PersonNoise


@dataclass(frozen=True)
class Beside:
    """What a linked table shows of each of some persons: (k, persons) each.

    `numbers` and `drawn` are means of numbers and of the indicators of categories, `shown` those of
    what has no noise. `phi` are mean hats, `weights` those of R at each knot (knots, persons).
    """

    persons: Words
    numbers: Floats
    drawn: Floats
    shown: Floats
    phi: Floats
    weights: Floats
    noise: PersonNoise

    def by_row(self, persons: Words, sizes: Ints) -> "Beside":
        """Return the same for each row of other persons, who have so many rows.

        0 of one who is not there, which is shown.
        """
        place = np.minimum(np.searchsorted(self.persons, persons), len(self.persons) - 1)
        at, there = np.repeat(place, sizes), np.repeat(self.persons[place] == persons, sizes)

        def of_rows(values: Floats) -> Floats:
            return np.where(there, values[:, at], 0.0)

        shown = of_rows(self.shown)
        return Beside(
            persons=np.repeat(persons, sizes),
            numbers=of_rows(self.numbers),
            drawn=of_rows(self.drawn),
            shown=shown if there.all() else np.concatenate([shown, there[None]]),
            phi=of_rows(self.phi),
            weights=of_rows(self.weights),
            noise=self.noise,
        )

    @property
    def parts(self) -> tuple[Floats, Floats, Floats]:
        """All of what it shows, by kind."""
        return self.numbers, self.drawn, self.shown


def noise_beside(
    others: Sequence[Beside], rows: Ints, phi: Floats, person: Floats
) -> tuple[Floats, Floats]:
    """Return the noise of numbers beside some rows of persons, and with that of the rows.

    `phi` (functions, knots, all rows) and `person` are those of the rows' own table: (n, functions,
    m) is the covariance with its n columns, (m, m) that of the numbers beside.
    """
    count = len(rows)
    with_own, among = [], []
    for one in others:
        # E[Phi_i Phi_j'] over the rows, and Cov = E[Phi_i L_C L_C' Phi_j']: the path of a person is
        # the same in all tables
        levels = np.einsum("fkr,lr->fkl", phi[:, :, rows], one.phi[:, rows]) / count
        with_own.append(
            np.einsum("fkl,knq,lmq->nfm", levels, person, one.noise.person, optimize=True)
        )
        line = []
        for other in others:
            # the same among means of rows of linked tables
            both = one.phi[:, rows] @ other.phi[:, rows].T / count
            noise = np.einsum(
                "kl,knq,lmq->nm", both, one.noise.person, other.noise.person, optimize=True
            )
            # R is drawn row by row, so it is shared within one table alone
            if one is other:
                share = one.weights[:, rows].mean(axis=1)
                noise = noise + np.einsum("k,knm->nm", share, one.noise.within)
            line.append(noise)
        among.append(line)
    return np.concatenate(with_own, axis=2), np.block(among)
