"""The adversary's guess of each cell of a category, from one copy or several.

A cell is retained with probability q_i = 1 / sqrt(1 + v_i), else drawn from b. An adversary who
takes the copies for independent draws guesses the x with the greatest

    log pi_x  +  sum over copies of  log(q_i [y_i = x] + (1 - q_i) b(y_i))

which is the best guess from one copy, whatever the others are, and from independent ones. Only
what some copy shows, and the most frequent value, can be greatest. pi comes from the best copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Codes, Floats
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._guesses import ABSENT, CategoriesRead, CategoryCodes
from cornerwave.choices import MARGINAL, UNIFORM
from cornerwave.errors import SourceError
from cornerwave.levels import retention
from cornerwave.privacy import CategoryDistribution, guess
from cornerwave.sources import Progress


@dataclass(frozen=True)
class GuessedCells:
    """How often guesses of a category are right, as a share of `rows`.

    `blind`: of the most frequent value; `expected` of the best copy's guess by theory; `alone` is
    what the best copy's guess reached, `together` that of all copies, None without a truth.
    """

    columns: tuple[str, ...]
    rows: int
    blind: float
    expected: float
    alone: float | None
    together: float | None


def guess_cells(
    aligned: Aligned, noise: Sequence[float], progress: Progress, *, scored: bool
) -> tuple[GuessedCells, ...]:
    """Guess the categories that files share, in rows spread over the table.

    If `scored`, the source is the truth, and guesses are compared with it.
    """
    if not aligned.categories:
        return ()
    collected = CategoriesRead.of(aligned, progress)
    if not collected.rows:
        raise SourceError("the files have no rows")
    return tuple(_guessed(each, aligned, noise, scored=scored) for each in collected.shown)


def _guessed(
    shown: CategoryCodes, aligned: Aligned, noise: Sequence[float], *, scored: bool
) -> GuessedCells:
    known = (shown.codes != ABSENT).all(axis=0)
    truth, *copies = shown.codes[:, known]
    stated = {about.base for about in aligned.stated.each(shown.columns[0])}
    base = UNIFORM if UNIFORM in stated else MARGINAL
    best = int(np.argmin(noise))
    pi = _shares(copies[best], len(shown.values), noise[best], base)
    drawn = np.full(len(pi), 1 / len(pi)) if base == UNIFORM else pi
    held = np.bincount(truth, minlength=len(pi)) / max(len(truth), 1) if scored else pi
    scores: list[float | None] = [None, None]
    if scored and len(truth):
        sets = ([best], range(len(copies)))
        guesses = (_best(pi, drawn, [(copies[i], noise[i]) for i in which]) for which in sets)
        scores = [float((cells == truth).mean()) for cells in guesses]
    # counts as fine as shares need be: a distribution takes whole numbers
    distribution = CategoryDistribution(np.rint(held * (1 << 40)).astype(np.int64).tolist(), base)
    right = guess(distribution, [noise[best]])
    return GuessedCells(shown.columns, len(truth), right.blind, right.best, scores[0], scores[1])


def _shares(codes: Codes, values: int, noise: float, base: str) -> Floats:
    """Return the distribution of the truth, from that of a copy."""
    # P(Y = y) = q pi_y + (1 - q) / values for a uniform base, solved for pi
    share = np.bincount(codes, minlength=values) / max(len(codes), 1)
    if base == UNIFORM:
        q = retention(noise)
        share = np.maximum((share - (1 - q) / values) / q, 0.0)
    return np.asarray(share / max(float(share.sum()), 1e-300))


def _best(pi: Floats, drawn: Floats, copies: Sequence[tuple[Codes, float]]) -> Codes:
    """Return the most likely value of each cell, given the codes and the noise of copies."""
    floor = 1e-300
    best = np.full(len(copies[0][0]), int(pi.argmax()), dtype=np.int32)
    most = np.full(len(best), -np.inf)
    for candidate in (best.copy(), *(codes for codes, _ in copies)):
        score = np.log(np.maximum(pi[candidate], floor))
        for codes, noise in copies:
            q = retention(noise)
            chance = q * (codes == candidate) + (1 - q) * drawn[codes]
            score = score + np.log(np.maximum(chance, floor))
        best, most = np.where(score > most, candidate, best), np.maximum(score, most)
    return np.asarray(best, dtype=np.int32)
