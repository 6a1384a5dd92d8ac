"""The adversary's own view: copies in, an estimate of the original out.

    copies ── one pass: what can be learned from them (mu, K, the noise they share)
           ── a second pass: estimate, block by block ──> file, errors

The levels are known, from the copies' metadata or given. The rest comes from the copies
themselves, with S_ij = Cov(Y_i, Y_j):

    K = S_aa / (1 + v_a)  of the least noisy copy a,      1 + Sigma_ij = tr(K^-1 S_ij) / N

llse and bayes stream. learned, spectral and pca hold the table in memory.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats, Ints
from cornerwave.attack import filtering, nonlinear
from cornerwave.attack.knowledge import Knowledge
from cornerwave.audit.alignment import Aligned
from cornerwave.audit.statistics import covariance_of, means, whitening
from cornerwave.errors import ColumnError, LevelError, SourceError
from cornerwave.levels import checked_noise
from cornerwave.table import CopyFile, Progress, check_output

Estimate = Callable[[list[Floats]], Floats]

REFERENCE_ROWS = 4096
"""Rows of the truth that `bayes` knows the distribution from."""

LEAKED_SHARE = 0.1
"""The share of rows whose truth leaked, for `learned`; errors are those of the rest."""

IN_MEMORY = ("learned", "spectral", "pca")


@dataclass(frozen=True)
class Attacked:
    """What the adversary got; errors (N,) are shares of the variance, None without a truth."""

    copies: tuple[str, ...]
    noise: tuple[float, ...]
    weights: tuple[float | None, ...]
    columns: tuple[str, ...]
    rows: int
    best: str
    alone: Floats | None
    together: Floats | None


def attack(
    copies: Sequence[Any],
    *,
    noise: Sequence[float] | None = None,
    truth: Any = None,
    key: str | None = None,
    method: str = "llse",
    out: Path | None = None,
    progress: Progress = lambda rows: None,
) -> Attacked:
    """Estimate the original from copies; write the estimate to `out`, score it with `truth`.

    Raises LevelError if a copy's noise is unknown, SourceError if the rows do not fit.
    """
    if truth is None and method in ("bayes", "learned"):
        raise SourceError(f"{method} learns from rows of the original: name it with --truth")
    if out is not None:
        check_output(out)
    aligned = Aligned.of(copies[0] if truth is None else truth, copies, key=key)
    if not aligned.columns:
        raise ColumnError("the copies share no number to estimate; audit judges their categories")
    levels = _levels(aligned, noise)
    known = learn(aligned, levels)
    best = [int(np.argmin(levels))]
    held = _Held(aligned, in_memory=method in IN_MEMORY)
    schooled = _Schooled.of(held, method) if truth is not None else None
    everybody, one = (_estimator(method, known, w, schooled) for w in (range(len(levels)), best))
    score = _Score(known, schooled)
    with _output(out, aligned.columns, method) as write:
        for block in held.blocks():
            estimate = everybody(block[1:])
            write(aligned.unscaled(estimate))
            if truth is not None:
                score.add(block[0], one([block[1 + best[0]]]), estimate)
            else:
                score.rows += len(estimate)
            progress(len(estimate))
    alone, together = (None, None) if truth is None else score.errors()
    weights = known.worth.weights if method == "llse" else [None] * len(levels)
    return Attacked(
        copies=aligned.names,
        noise=levels,
        weights=tuple(None if w is None else float(w) for w in weights),
        columns=aligned.columns,
        rows=score.rows,
        best=aligned.names[best[0]],
        alone=alone,
        together=together,
    )


def learn(aligned: Aligned, noise: Sequence[float]) -> Knowledge:
    """Return mu, K and the noise that copies share, from the copies alone."""
    N, M = len(aligned.columns), len(noise)
    sums: Any = 0.0
    shift: Floats | None = None
    for block in aligned.blocks_of(aligned.copies):
        rows = np.vstack(block)
        shift = means(rows) if shift is None else shift
        rows = np.vstack([rows - shift[:, None], np.ones(rows.shape[1])])
        rows = rows[:, ~np.isnan(rows).any(axis=0)]
        sums = sums + rows @ rows.T
    if shift is None or sums[-1, -1] < 2:
        raise SourceError("the copies share no two rows without a missing value")
    S = covariance_of(sums).reshape(M, N, M, N).transpose(0, 2, 1, 3)
    best = int(np.argmin(noise))
    K = S[best, best] / (1 + noise[best])
    A = whitening(K)
    across = np.trace(A.T @ S @ A, axis1=2, axis2=3) / max(A.shape[1], 1) - 1
    np.fill_diagonal(across, noise)
    centre = (shift + sums[-1, :-1] / sums[-1, -1]).reshape(M, N)[best]
    return Knowledge(centre, K, _possible((across + across.T) / 2))


def _possible(across: Floats) -> Floats:
    """Return the nearest covariance: chance can put estimates outside of what can be."""
    values, vectors = np.linalg.eigh(across)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _levels(aligned: Aligned, noise: Sequence[float] | None) -> tuple[float, ...]:
    if noise:
        if len(noise) != len(aligned.copies):
            raise LevelError(
                f"{len(aligned.copies)} copies, but --noise was given {len(noise)} times; "
                "give it once for each copy, in their order"
            )
        return tuple(checked_noise(v) for v in noise)
    for name, stated in zip(aligned.names, aligned.stated.noise, strict=True):
        if stated is None:
            raise LevelError(f"{name} does not state its noise; give one --noise V for each copy")
    return tuple(v for v in aligned.stated.noise if v is not None)


class _Held:
    """Blocks of rows (n, N) of the source and each copy; the whole table as one if in memory."""

    def __init__(self, aligned: Aligned, *, in_memory: bool) -> None:
        self._aligned = aligned
        self._whole = [list(self._streamed())] if in_memory else None

    def blocks(self) -> Iterator[list[Floats]]:
        if self._whole is None:
            yield from self._streamed()
            return
        [parts] = self._whole
        yield [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]

    def _streamed(self) -> Iterator[list[Floats]]:
        for block in self._aligned.blocks():
            yield [np.ascontiguousarray(part.T) for part in block]


@dataclass(frozen=True)
class _Schooled:
    """Rows of the truth that the adversary knows: a reference, or those that leaked."""

    reference: Floats
    leaked: Ints
    truth: Floats

    @classmethod
    def of(cls, held: _Held, method: str) -> "_Schooled | None":
        if method == "bayes":
            return cls(_sample(held), np.zeros(0, dtype=np.int64), np.zeros((0, 0)))
        if method != "learned":
            return None
        [whole] = held.blocks()
        complete = np.flatnonzero(~np.isnan(whole[0]).any(axis=1))
        leaked = complete[:: round(1 / LEAKED_SHARE)]
        return cls(np.zeros((0, 0)), leaked, whole[0][leaked])


def _sample(held: _Held) -> Floats:
    """Return rows of the truth, evenly spread over the table."""
    kept, every = np.empty((0, 0)), 1
    for block in held.blocks():
        rows = block[0][~np.isnan(block[0]).any(axis=1)][::every]
        kept = np.concatenate([kept, rows]) if kept.size else rows
        while len(kept) > 2 * REFERENCE_ROWS:
            kept, every = kept[::2], 2 * every
    return kept


def _estimator(
    method: str, known: Knowledge, which: Sequence[int], schooled: _Schooled | None
) -> Estimate:
    known = known.of_copies(which)
    if method == "llse":
        return known.llse.estimate
    if schooled is not None and method == "bayes":
        reference = schooled.reference
        return lambda copies: nonlinear.posterior_mean(copies, known=known, reference=reference)
    if schooled is not None and method == "learned":
        leaked, truth = schooled.leaked, schooled.truth
        return lambda c: nonlinear.learned(c, leaked=leaked, truth=truth, unsafe_seed=0)
    filtered = filtering.spectral if method == "spectral" else filtering.pca
    worth = known.worth
    variance = max(worth.noise, 1e-12) * np.diag(known.covariance)
    return lambda copies: filtered(worth.of(copies), variance=variance)


class _Score:
    """Squared errors of the best copy's and of everybody's estimate, summed over blocks."""

    def __init__(self, known: Knowledge, schooled: _Schooled | None) -> None:
        self.rows = 0
        self._centre = known.mean
        self._leaked = schooled.leaked if schooled is not None else np.zeros(0, dtype=np.int64)
        self._sums = np.zeros((5, len(known.mean)))

    def add(self, truth: Floats, alone: Floats, together: Floats) -> None:
        """Add a block; rows that leaked do not count."""
        self.rows += len(truth)
        X, one, all_ = (np.delete(part, self._leaked, axis=0) for part in (truth, alone, together))
        away = X - self._centre
        squares = [away, away**2, (one - X) ** 2, (all_ - X) ** 2, 1.0 + 0 * X]
        self._sums += [np.nansum(part, axis=0) for part in squares]

    def errors(self) -> tuple[Floats, Floats]:
        """Return both errors as shares of each column's variance."""
        total, square, alone, together, count = self._sums
        variance = square - total**2 / np.maximum(count, 1)
        variance = np.where(variance > 0, variance, 1.0)
        return alone / variance, together / variance


class _output:  # noqa: N801  (reads as a verb in its with statement)
    """Write estimates to a file that appears whole or not at all; to nowhere without a path."""

    def __init__(self, path: Path | None, columns: Sequence[str], method: str) -> None:
        self._schema = pa.schema([(name, pa.float64()) for name in columns])
        about = {"estimate": method, "columns": list(columns)}
        self._file = None if path is None else CopyFile(path, self._schema, about)

    def __enter__(self) -> Callable[[Floats], None]:
        return self._write

    def _write(self, estimate: Floats) -> None:
        if self._file is not None:
            arrays = [pa.array(column, from_pandas=True) for column in estimate.T]
            self._file.write(pa.table(arrays, schema=self._schema))

    def __exit__(self, fault: type[BaseException] | None, *_: object) -> None:
        if self._file is None:
            return
        try:
            if fault is None:
                self._file.finish()
                self._file.publish()
        finally:
            self._file.discard()
