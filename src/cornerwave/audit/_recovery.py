"""The adversary's own view: copies in, an estimate of the original out.

    copies ── one pass: what can be learned from them (mu, K, the noise they share)
           ── a second pass: estimate, block by block ──> file, errors

The levels are known, from the copies' metadata or given. The rest comes from the copies
themselves, with S_ij = Cov(Y_i, Y_j):

    K = S_aa / (1 + v_a)  of the least noisy copy a,      1 + Sigma_ij = tr(K^-1 S_ij) / N

`llse` and `bayes` stream. `learned`, `spectral` and `pca` hold the table in memory. `bayes`
weighs thousands of known rows for every row: unless its estimates are written, it attacks some
of the rows, evenly spread, and otherwise warns how long all of them take. Categories are guessed
cell by cell (_guesses).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave import attack
from cornerwave import document as doc
from cornerwave.arrays import Floats, Ints
from cornerwave.attack import Knowledge
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._blocks import AlignedRows
from cornerwave.audit._chance import refuse_overflow
from cornerwave.audit._guessed_cells import GuessedCells, guess_cells
from cornerwave.audit._stated import with_metadata
from cornerwave.audit._sums import covariance_of, means
from cornerwave.columns import chain, distance_name, to_values
from cornerwave.errors import ColumnError, LevelError, SourceError, spelled, warn
from cornerwave.levels import checked_noise
from cornerwave.outputs import CopyFile, check_place
from cornerwave.passes import Bounded, Pass
from cornerwave.sources import Progress, format_of
from cornerwave.spec import CopyMetadata

REFERENCE_ROWS = 4096
"""Rows of the truth from which `bayes` knows the distribution: so many, or up to twice that."""

MOST_ATTACKED = 1 << 16
"""Rows that `bayes` attacks if its estimates are not written: the mean of as many squares of normal
errors has a standard error of sqrt(2 / n), 0.6 % of it."""

WORTH_SAYING = 60.0
"""Seconds beyond which `bayes` warns how long it takes."""

LEAKED_SHARE = 0.1
"""The share of rows whose truth leaked, for `learned`; errors are those of the rest."""

KNOWS_ROWS = ("bayes", "learned")
IN_MEMORY = ("learned", "spectral", "pca")

Blocks = Callable[[], Iterator[list[Floats]]]
"""Starts a pass over blocks of rows (n, N) of the source and of each copy."""


@dataclass(frozen=True)
class Recovered:
    """What the adversary got; errors (N,) are shares of the variance, None without a truth.

    `attacked` of the `rows` were estimated; `categories` is how often guesses are right.
    """

    copies: tuple[str, ...]
    noise: tuple[float, ...]
    weights: tuple[float | None, ...]
    columns: tuple[str, ...]
    rows: int
    attacked: int
    best: str
    alone: Floats | None
    together: Floats | None
    categories: tuple[GuessedCells, ...]


@refuse_overflow()
def attack_copies(
    copies: Sequence[Any],
    *,
    noise: Sequence[float] | None = None,
    truth: Any = None,
    key: str | None = None,
    method: str = "llse",
    metadata: Sequence[Mapping[str, object] | None] | None = None,
    out: Path | None = None,
    progress: Progress = lambda rows: None,
) -> Recovered:
    """Estimate the original from copies; write the estimate to `out`, score it with `truth`.

    method: llse, bayes, learned, spectral or pca. `metadata` is what each copy states, where it is
    a frame that cannot hold it; one that states nothing is taken for a raw one.
    Raises LevelError if a copy's noise is unknown, SourceError if the files are not copies of the
    same rows.
    """
    if truth is None and method in KNOWS_ROWS:
        raise SourceError(f"{method} learns from rows of the original; give the original as truth")
    if out is not None:
        format_of(out)
        check_place(out)
    held = with_metadata(copies, metadata) if metadata else copies
    aligned = Aligned.of(held[0] if truth is None else truth, held, key=key)
    levels = _levels(aligned, noise)
    categories = guess_cells(aligned, levels, progress, scored=truth is not None)
    best = int(np.argmin(levels))
    recovered = Recovered(
        copies=aligned.names,
        noise=levels,
        weights=(None,) * len(levels),
        columns=_called(aligned),
        rows=max((guessed.rows for guessed in categories), default=0),
        attacked=0,
        best=aligned.names[best],
        alone=None,
        together=None,
        categories=categories,
    )
    if aligned.columns:
        return _estimate(recovered, aligned, method, out, progress, scored=truth is not None)
    if out is not None:
        raise ColumnError("the copies share no number to estimate, so there is nothing to write")
    return recovered


def _estimate(
    recovered: Recovered,
    aligned: Aligned,
    method: str,
    out: Path | None,
    progress: Progress,
    *,
    scored: bool,
) -> Recovered:
    """Estimate the numbers; write and score the estimates."""
    levels, best = recovered.noise, int(np.argmin(recovered.noise))
    known, rows = learn(aligned, levels)
    blocks = _blocks(aligned, in_memory=method in IN_MEMORY)
    # rows of the truth that some methods know; their errors do not count
    leak = _leaked(blocks, method)
    together, alone = (
        _estimator(method, known.of_copies(which), leak) for which in (range(len(levels)), [best])
    )
    # rounded up: at most MOST_ATTACKED rows
    every = -(-rows // MOST_ATTACKED) if method == "bayes" and out is None else 1
    errors, attacked = _Errors(known.mean, leak.places), 0
    with _output(
        out, list(_estimated(aligned, np.empty((0, len(aligned.columns))))), method
    ) as write:
        for X, *held in _thinned(blocks(), every, progress):
            started = monotonic()
            estimate = together(held)
            write(_estimated(aligned, estimate))
            if scored:
                errors.add(X, alone([held[best]]), estimate)
            if attacked == 0:
                _say_how_long(method, (monotonic() - started) * rows / every / len(estimate))
            attacked += len(estimate)
    weights = known.worth.weights.tolist() if method == "llse" else recovered.weights
    alone_left, together_left = errors.shares() if scored else (None, None)
    return replace(
        recovered,
        weights=tuple(weights),
        rows=rows,
        attacked=attacked,
        alone=alone_left,
        together=together_left,
    )


def _called(aligned: Aligned) -> tuple[str, ...]:
    """Return what is estimated: some columns are distances from others."""
    relative = aligned.relative
    return tuple(
        distance_name(name, relative[name]) if name in relative else name
        for name in aligned.columns
    )


def _estimated(aligned: Aligned, estimate: Floats) -> dict[str, Floats]:
    """Return estimates (n, N) by column: a distance with its base added, if that is known."""
    columns = dict(zip(aligned.columns, aligned.unscaled(estimate).T, strict=True))
    values, relative = to_values(columns, aligned.relative), aligned.relative
    whole = [{*chain(name, relative)} <= columns.keys() for name in columns]
    called = zip(columns, _called(aligned), whole, strict=True)
    return {
        name if known else distance: values[name] if known else columns[name]
        for name, distance, known in called
    }


def _thinned(
    blocks: Iterator[list[Floats]], every: int, progress: Progress
) -> Iterator[list[Floats]]:
    """Yield every so-and-so-many row of blocks (n, N), through all of them."""
    seen = 0
    for block in blocks:
        part = [table[-seen % every :: every] for table in block]
        seen += len(block[0])
        if len(part[0]):
            yield part
        progress(len(block[0]))


def _say_how_long(method: str, seconds: float) -> None:
    if seconds > WORTH_SAYING:
        warn(
            f"{method} takes about {seconds / 60:.0f} minutes to estimate every row",
            stacklevel=4,
        )


@dataclass(frozen=True)
class Products(Bounded):
    """Sums of products of [Y_1 .. Y_M, 1] over some rows, about a shift; parts add up."""

    rows: int
    sums: Floats

    def __add__(self, other: "Products") -> "Products":
        return Products(self.rows + other.rows, self.sums + other.sums)


@dataclass(frozen=True)
class CopyMoments:
    """Mean (M N,) and covariance (M N, M N) of all copies' columns, over `complete` rows."""

    rows: int
    complete: int
    mean: Floats
    covariance: Floats


@dataclass(frozen=True)
class ProductsPass(Pass[AlignedRows, Products, CopyMoments]):
    """Sums the products of the columns of all copies, over the rows that miss none."""

    shift: Floats

    def nothing(self) -> Products:
        """Return the sums over no rows."""
        return Products(0, np.zeros((len(self.shift) + 1,) * 2))

    def of(self, block: AlignedRows, known: Products) -> Products:
        """Return the sums over some rows."""
        away = np.vstack(block.scaled) - self.shift[:, None]
        rows = np.vstack([away, np.ones(block.rows)])
        rows = rows[:, ~np.isnan(rows).any(axis=0)]
        return Products(block.rows, rows @ rows.T)

    def finish(self, total: Products) -> CopyMoments:
        """Return the moments of all rows. Raises SourceError if fewer than two are complete."""
        if (count := total.sums[-1, -1]) < 2:
            raise SourceError(
                "fewer than two rows have a value in every shared column of every copy"
            )
        mean = self.shift + total.sums[-1, :-1] / count
        return CopyMoments(total.rows, int(count), mean, covariance_of(total.sums))


def learn(aligned: Aligned, noise: Sequence[float]) -> tuple[Knowledge, int]:
    """Return mu, K and the noise that copies share, from the copies alone, and the rows."""
    N, M, best = len(aligned.columns), len(noise), int(np.argmin(noise))
    moments = aligned.run(lambda rows: ProductsPass(means(np.vstack(rows.scaled))), aligned.copies)
    S = moments.covariance.reshape(M, N, M, N).transpose(0, 2, 1, 3)
    K = S[best, best] / (1 + noise[best])  # Cov(Y) = (1 + v) K
    A = attack.whitening(K)
    # 1 + Sigma_ij = tr(K^-1 S_ij) / N
    across = np.trace(A.T @ S @ A, axis1=2, axis2=3) / max(A.shape[1], 1) - 1
    np.fill_diagonal(across, noise)
    shared = _nearest_covariance((across + across.T) / 2)
    return Knowledge(moments.mean.reshape(M, N)[best], K, shared), moments.rows


def _nearest_covariance(across: Floats) -> Floats:
    """Return the nearest semidefinite matrix: estimates may by chance not be one."""
    # in Frobenius norm: negative eigenvalues become 0
    values, vectors = np.linalg.eigh(across)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _levels(aligned: Aligned, noise: Sequence[float] | None) -> tuple[float, ...]:
    if noise:
        if len(noise) != len(aligned.copies):
            raise LevelError(
                f"got {len(noise)} noise levels for {len(aligned.copies)} copies; "
                "give one for each copy, in the order of the copies"
            )
        return tuple(checked_noise(v) for v in noise)
    for name, stated in zip(aligned.names, aligned.stated.noise, strict=True):
        if stated is None:
            raise LevelError(
                f"{name} does not state its noise; give the noise of every copy", use=("noise",)
            )
    return tuple(v for v in aligned.stated.noise if v is not None)


def _blocks(aligned: Aligned, *, in_memory: bool) -> Blocks:
    def stream() -> Iterator[list[Floats]]:
        for block in aligned.blocks():
            yield [np.ascontiguousarray(part.T) for part in block]

    if not in_memory:
        return stream
    whole = [np.concatenate(parts) for parts in zip(*stream(), strict=True)]
    return lambda: iter([whole])


@dataclass(frozen=True)
class _Leak:
    """Rows of the truth that the adversary knows; `places` are those left out of the errors."""

    rows: Floats
    places: Ints


def _leaked(blocks: Blocks, method: str) -> _Leak:
    if method == "bayes":
        return _Leak(_reference(blocks), np.zeros(0, dtype=np.int64))
    if method != "learned":
        return _Leak(np.zeros((0, 0)), np.zeros(0, dtype=np.int64))
    [whole] = blocks()
    complete = np.flatnonzero(~np.isnan(whole[0]).any(axis=1))
    # evenly spread, as if a tenth of the people disclosed their rows
    places = complete[:: round(1 / LEAKED_SHARE)]
    return _Leak(whole[0][places], places)


def _reference(blocks: Blocks) -> Floats:
    """Return rows of the truth, evenly spread over the table."""
    kept, every = np.empty((0, 0)), 1
    for block in blocks():
        rows = block[0][~np.isnan(block[0]).any(axis=1)][::every]
        kept = np.concatenate([kept, rows]) if kept.size else rows
        # every second of them: still evenly spread
        while len(kept) > 2 * REFERENCE_ROWS:
            kept, every = kept[::2], 2 * every
    return kept


def _estimator(method: str, known: Knowledge, leak: _Leak) -> Callable[[list[Floats]], Floats]:
    if method == "llse":
        return known.llse.estimate
    if method == "bayes":
        return lambda Y: attack.posterior_mean(Y, known=known, reference=leak.rows)
    if method == "learned":
        return lambda Y: attack.learned(Y, leaked=leak.places, truth=leak.rows, unsafe_seed=0)
    filtered = attack.spectral if method == "spectral" else attack.pca
    # filters know the noise of each column, v K_jj
    variance = max(known.worth.noise, 1e-12) * np.diag(known.covariance)
    return lambda Y: filtered(known.worth.of(Y), variance=variance)


class _Errors:
    """Squared errors of the best copy's and of everybody's estimate, summed over blocks."""

    def __init__(self, centre: Floats, leaked: Ints) -> None:
        self._centre, self._leaked = centre, leaked
        self._sums = np.zeros((5, len(centre)))

    def add(self, truth: Floats, alone: Floats, together: Floats) -> None:
        """Add a block; rows that leaked do not count."""
        X, one, all_ = (np.delete(part, self._leaked, axis=0) for part in (truth, alone, together))
        away = X - self._centre
        squares = [away, away**2, (one - X) ** 2, (all_ - X) ** 2, 1.0 + 0 * X]
        self._sums += [np.nansum(part, axis=0) for part in squares]

    def shares(self) -> tuple[Floats, Floats]:
        """Return both errors as shares of each column's variance."""
        total, square, alone, together, count = self._sums
        # n Var(X) by the same rows as the errors
        variance = square - total**2 / np.maximum(count, 1)
        variance = np.where(variance > 0, variance, 1.0)
        return alone / variance, together / variance


@contextmanager
def _output(
    path: Path | None, columns: Sequence[str], method: str
) -> Iterator[Callable[[Mapping[str, Floats]], None]]:
    """Give a function that writes estimates to a file, which appears whole or not at all."""
    if path is None:
        yield lambda estimate: None
        return
    schema = pa.schema([(name, pa.float64()) for name in columns])
    with CopyFile(path, schema, CopyMetadata(estimate=method), force=True) as file:

        def write(estimate: Mapping[str, Floats]) -> None:
            arrays = [pa.array(column, from_pandas=True) for column in estimate.values()]
            file.write(pa.table(arrays, schema=schema))

        yield write
        file.finish()
        file.publish()


# --------------------------------------------------------------------------------------------------
# What was recovered, as a document.


def attack_document(recovered: Recovered, method: str) -> doc.Document:
    """Return how well each column was estimated or guessed."""
    copies = doc.count(len(recovered.copies), "copy", "copies")
    attacked = (
        f", {recovered.attacked:,} of them attacked"
        if 0 < recovered.attacked < recovered.rows
        else ""
    )
    return doc.Document(
        title="",
        verdict=f"Estimated {recovered.rows:,} rows{attacked}, from {copies} by {method}.",
        sections=[*_recovered_sections(recovered)],
    )


def _recovered_sections(recovered: Recovered) -> Iterator[doc.Section]:
    weights = [
        (name, f"{v:.6g}", "–" if weight is None else f"{weight:.4f}")
        for name, v, weight in zip(
            recovered.copies, recovered.noise, recovered.weights, strict=True
        )
    ]
    yield doc.Section("Copies", [doc.DataTable(("copy", "noise", "weight"), weights)])
    if recovered.together is not None and recovered.alone is not None:
        header = ("column", f"{recovered.best} alone", "all together")
        errors = [
            (spelled(name), f"{alone:.4f}", f"{together:.4f}")
            for name, alone, together in zip(
                recovered.columns, recovered.alone, recovered.together, strict=True
            )
        ]
        yield doc.Section("Error, share of variance", [doc.DataTable(header, errors)])
    if recovered.categories:
        yield doc.Section("Guesses of categories that are right", [_guessed_table(recovered)])


def _guessed_table(recovered: Recovered) -> doc.DataTable:
    """Return how often guesses are right: without a copy, as expected, and as scored by a truth."""
    scored = recovered.categories[0].alone is not None
    header = ("category", "without a copy", "expected")
    rows = []
    for guess in recovered.categories:
        shares = [guess.blind, guess.expected]
        shares += [guess.alone or 0.0, guess.together or 0.0] if scored else []
        rows.append((spelled("+".join(guess.columns)), *(f"{share:.1%}" for share in shares)))
    return doc.DataTable(
        header + ((f"{recovered.best} alone", "all together") if scored else ()), rows
    )
