"""Beyond the paper: Figure 2 under nonlinear attacks.

    posterior   E[X | copies], with a sample of rows as the distribution of X
    learned     gradient boosting on all copies, trained on rows whose truth leaked

Our pooled copies are compared with one holder of the least noisy copy, who simulates the
noisier ones by adding noise ("alone"): the same features without pooling. Given the least
noisy copy, the pooled ones are one more such draw, so a few draws show how far the pooled
error may be from theirs by chance: a t test.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from cornerwave.arrays import Floats, Ints
from cornerwave.attack import Knowledge, column_errors, learned, posterior_mean
from cornerwave.moments import Moments
from cornerwave.noise import factor
from cornerwave_reproduction._drawing import HOLLOW, INDEPENDENT, OURS, Drawing, figure, legend
from cornerwave_reproduction._input_table import InputTable
from cornerwave_reproduction._part import Columns, Result, Setting, Statement
from cornerwave_reproduction._requests import Issued, Requests, requested

COPIES = (1, 5, 10, 20, 30)
ROUNDS = 30
DRAWS = 3
"""How often the single holder simulates the noisier copies and learns from them."""

SIGNIFICANCE = 0.01
LARGE = 0.05
"""What pooling independent noise must gain at least, or the attack is too weak to judge by."""

EXACT = 1e-9
"""Posterior means agree to rounding: both depend on the same least noisy copy only."""

HOLDERS = ("ours", "alone", "independent")


@dataclass(frozen=True, eq=False)
class AttackErrors:
    """Errors (counts, N) by attack and holder: ours pooled, one holder alone, independent.

    `spread` (N,) is the standard deviation of what the single holder learns, over its draws.
    """

    counts: tuple[int, ...]
    errors: dict[tuple[str, str], Floats]
    spread: Floats


@dataclass(frozen=True, eq=False)
class Scene:
    """A table, its copies, and the positions of the rows of each role; errors are (N,) shares."""

    X: Floats
    requests: Requests
    moments: Moments
    seed: int
    attacked: Ints
    reference: Ints
    leaked: Ints

    @classmethod
    def of(cls, setting: Setting, requests: Requests) -> "Scene":
        """Draw the rows of each role at random, none twice."""
        X, effort, total = setting.table.rows, setting.effort, len(setting.table.rows)
        order = np.random.default_rng([setting.seed, 8]).permutation(total)
        sizes = (
            min(effort.attacked_rows, total // 2),
            min(effort.reference_rows, total // 4),
            min(effort.leaked_rows, total // 4),
        )
        attacked, reference, leaked, _ = np.split(order, np.cumsum(sizes))
        return cls(X, requests, Moments.of(X), setting.seed, attacked, reference, leaked)

    def alone(self, m: int, draw: int) -> Issued:
        """Return m copies as the holder of the least noisy one simulates them."""
        ours, K = self.requests.ours.first(m), self.moments.covariance
        seed = DRAWS * self.seed + draw
        return Issued(self_made(ours.copies, self.requests.noise[:m], K, seed=seed), ours.across)

    def posterior(self, issued: Issued) -> Floats:
        """Return the error of the posterior mean."""
        known = Knowledge(self.moments.mean, self.moments.covariance, issued.across)
        copies = [copy[self.attacked] for copy in issued.copies]
        return self._errors(posterior_mean(copies, known=known, reference=self.X[self.reference]))

    def learned(self, issued: Issued) -> Floats:
        """Return the error of gradient boosting, trained on the leaked rows."""
        both, leaked = np.concatenate([self.leaked, self.attacked]), len(self.leaked)
        guess = learned(
            [copy[both] for copy in issued.copies],
            leaked=np.arange(leaked),
            truth=self.X[self.leaked],
            unsafe_seed=self.seed,
            rounds=ROUNDS,
        )
        return self._errors(guess[leaked:])

    def _errors(self, guess: Floats) -> Floats:
        variance = np.diag(self.moments.covariance)
        scored = column_errors(self.X[self.attacked], guess, variance=variance)
        return np.array([error.value for error in scored])


def self_made(copies: Sequence[Floats], noise: Floats, K: Floats, *, seed: int) -> list[Floats]:
    """Return copies at the same levels, all made from the least noisy one by adding noise."""
    rng, lower = np.random.default_rng([seed, 9]), factor(K).lower
    order = np.argsort(noise)
    copy, made = copies[int(order[0])], {}
    for i, step in zip(order, np.diff(noise[order], prepend=noise[order[0]]), strict=True):
        copy = copy + np.sqrt(step) * rng.standard_normal(copy.shape) @ lower.T
        made[int(i)] = copy
    return [made[i] for i in range(len(noise))]


def measure(scene: Scene, tick: Callable[[float], None]) -> AttackErrors:
    """Attack the copies of every holder with both attacks."""
    requests = scene.requests
    counts = tuple(m for m in COPIES if m <= len(requests.noise))
    errors: dict[tuple[str, str], list[Floats]] = {}
    spreads = []
    for m in counts:
        ours, independent = requests.ours.first(m), requests.independent.first(m)
        draws = np.array([scene.learned(scene.alone(m, draw)) for draw in range(DRAWS)])
        spreads.append(draws.var(axis=0, ddof=1))
        found = {
            ("posterior", "ours"): scene.posterior(ours),
            ("posterior", "alone"): scene.posterior(scene.alone(m, 0)),
            ("posterior", "independent"): scene.posterior(independent),
            ("learned", "ours"): scene.learned(ours),
            ("learned", "alone"): draws.mean(axis=0),
            ("learned", "independent"): scene.learned(independent),
        }
        for key, error in found.items():
            errors.setdefault(key, []).append(error)
        tick(0.5 / len(counts))
    # With one copy there is nothing to draw; its variance of zero would bias the spread.
    spread = np.sqrt(np.mean(spreads[1:], axis=0))
    return AttackErrors(counts, {key: np.array(rows) for key, rows in errors.items()}, spread)


def state(attacked: AttackErrors) -> tuple[Statement, ...]:
    """Judge the promise against every adversary, with independent noise as the control."""
    counts, columns = attacked.errors["learned", "ours"].shape
    # One error against the mean of DRAWS others, spread pooled over the counts beyond one copy.
    quantile = stats.t.ppf(1 - SIGNIFICANCE / ((counts - 1) * columns), (counts - 1) * (DRAWS - 1))
    allowed = quantile * attacked.spread * np.sqrt(1 + 1 / DRAWS)
    return (
        _no_gain(attacked, "posterior", "Posterior mean", np.full(columns, EXACT)),
        _no_gain(attacked, "learned", "Learned attack", allowed),
    )


def _no_gain(attacked: AttackErrors, attack: str, name: str, allowed: Floats) -> Statement:
    pooled, alone, independent = (attacked.errors[attack, holder] for holder in HOLDERS)
    gain = (alone - pooled).max(axis=0)
    control = (alone - independent)[-1]
    gains = ", ".join(f"{g:.4f} ({a:.4f})" for g, a in zip(gain, allowed, strict=True))
    return Statement.judged(
        source="Beyond the paper",
        claim=f"{name}: pooling our copies gains nothing over the least noisy one.",
        holds=bool((gain <= allowed).all() and (control > np.maximum(allowed, LARGE)).all()),
        measured=f"largest gain per column, as a share of the variance (possible by chance): "
        f"{gains}; at M = {attacked.counts[-1]} the error is {pooled[-1].mean():.3f} from ours, "
        f"{alone[-1].mean():.3f} from one copy, {independent[-1].mean():.3f} from independent "
        "noise",
    )


def draw(table: InputTable, attacked: AttackErrors) -> Figure:
    """Draw the errors per column: a colour for each scheme, a line for each attack."""
    drawn = figure(height=3.7)
    panels = drawn.subplots(1, len(table.columns), squeeze=False, sharey=True)[0]
    counts, errors = attacked.counts, attacked.errors
    for i, axes in enumerate(panels):
        for attack, line, mark in (("posterior", "-", "o"), ("learned", "--", "s")):
            for holder, colour in (("ours", OURS), ("independent", INDEPENDENT)):
                label = f"{holder} pooled, {attack}"
                axes.plot(counts, errors[attack, holder][:, i], line, color=colour, label=label)
            label = f"one copy of ours, {attack}"
            axes.plot(counts, errors[attack, "alone"][:, i], mark, label=label, **HOLLOW)
        axes.set(title=table.columns[i], xlabel="number of copies M")
    panels[0].set_ylabel("estimation error\n(share of the variance)")
    panels[0].set_ylim(bottom=0)
    legend(drawn, panels[0], ncols=2)
    return drawn


def columns_of(table: InputTable, attacked: AttackErrors) -> Columns:
    """Return the errors as columns."""
    numbers: dict[str, Sequence[float]] = {"copies": attacked.counts}
    for (attack, holder), errors in attacked.errors.items():
        numbers |= table.named(f"{attack}_{holder}", errors)
    return numbers


def run(setting: Setting) -> Result:
    """Measure, state and draw."""
    scene = Scene.of(setting, requested(setting))
    attacked = measure(scene, setting.tick)
    caption = (
        "The errors of Figure 2 under two nonlinear attacks. Posterior: the best estimate of any "
        f"kind, with {len(scene.reference):,} rows as the distribution of the table. Learned: "
        f"gradient boosting on {len(scene.leaked):,} leaked rows; the holder of one copy "
        f"simulates the noisier copies (mean of {DRAWS} draws)."
    )
    drawing = Drawing("beyond-attacks", caption, lambda: draw(setting.table, attacked))
    numbers = {"beyond-attacks": columns_of(setting.table, attacked)}
    return Result("Nonlinear attacks", "", state(attacked), (drawing,), numbers)
