"""Beyond the paper: Figure 2 under attacks that are not linear.

    posterior   E[X | copies] where the law of X is known as a sample of its rows
    learned     gradient boosting on all copies, trained on rows whose truth leaked

The learned attack is held to a single holder of the least noisy copy who makes the
noisier ones of its own, by adding noise: it has the same features without pooling.
Given that copy, the pooled ones are one more such draw, so that the errors of a few
draws say how far the pooled error may lie from theirs: a t test.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from cornerwave.arrays import Floats, Ints
from cornerwave.attack import NEGLIGIBLE, Knowledge, column_errors, learned, posterior_mean
from cornerwave.experiments.requests import Requests, asked
from cornerwave.experiments.result import Columns, Drawing, Result
from cornerwave.experiments.setting import Setting
from cornerwave.experiments.statement import Statement
from cornerwave.experiments.style import INDEPENDENT, OURS, figure
from cornerwave.experiments.tables import Table
from cornerwave.moments import Moments, factor

COPIES = (1, 5, 10, 20, 30)
ROUNDS = 30
DRAWS = 3
"""How often the single holder makes its noisier copies, and learns from them."""

CONFIDENCE = 0.99
LARGE = 0.05
"""What pooling independent noise must gain at least, for the attack to be one."""

HOLDERS = ("ours", "alone", "independent")


@dataclass(frozen=True, eq=False)
class Rows:
    """Which rows are attacked, which stand for the law of X, and which leaked."""

    attacked: Ints
    reference: Ints
    leaked: Ints

    @classmethod
    def of(cls, setting: Setting) -> "Rows":
        """Choose rows at random, none twice."""
        total, effort = len(setting.table.rows), setting.effort
        order = np.random.default_rng([setting.seed, 8]).permutation(total)
        sizes = (
            min(effort.attacked_rows, total // 2),
            min(effort.reference_rows, total // 4),
            min(effort.leaked_rows, total // 4),
        )
        attacked, reference, leaked, _ = np.split(order, np.cumsum(sizes))
        return cls(attacked, reference, leaked)


@dataclass(frozen=True, eq=False)
class Attacked:
    """Errors (counts, N) by attack and holder: pooled ours, one holder alone, independent.

    `spread` (N,) is the standard deviation of what the single holder learns, over its draws.
    """

    counts: tuple[int, ...]
    errors: dict[tuple[str, str], Floats]
    spread: Floats


def self_made(copies: Sequence[Floats], noise: Floats, K: Floats, *, seed: int) -> list[Floats]:
    """Return copies at the same levels, all made from the least noisy one by adding noise."""
    rng, lower = np.random.default_rng([seed, 9]), factor(K).lower
    order = np.argsort(noise)
    copy, made = copies[int(order[0])], {}
    for i, step in zip(order, np.diff(noise[order], prepend=noise[order[0]]), strict=True):
        copy = copy + np.sqrt(step) * rng.standard_normal(copy.shape) @ lower.T
        made[int(i)] = copy
    return [made[i] for i in range(len(noise))]


def measure(setting: Setting, requests: Requests) -> Attacked:
    """Attack the copies of every holder with both attacks."""
    scene = Scene.of(setting, requests)
    counts = tuple(m for m in COPIES if m <= len(requests.noise))
    errors: dict[tuple[str, str], list[Floats]] = {}
    spreads = []
    for m in counts:
        draws = np.array([scene.learned(scene.alone(m, draw)) for draw in range(DRAWS)])
        spreads.append(draws.var(axis=0, ddof=1))
        found = {
            ("posterior", "ours"): scene.posterior(requests.ours[:m], requests.across_ours),
            ("posterior", "alone"): scene.posterior(scene.alone(m, 0), requests.across_ours),
            ("posterior", "independent"): scene.posterior(
                requests.independent[:m], requests.across_independent
            ),
            ("learned", "ours"): scene.learned(requests.ours[:m]),
            ("learned", "alone"): draws.mean(axis=0),
            ("learned", "independent"): scene.learned(requests.independent[:m]),
        }
        for key, error in found.items():
            errors.setdefault(key, []).append(error)
        setting.tick(0.5 / len(counts))
    # One copy leaves nothing to draw, and its zero would belittle the spread.
    spread = np.sqrt(np.mean(spreads[1:], axis=0))
    return Attacked(counts, {key: np.array(rows) for key, rows in errors.items()}, spread)


@dataclass(frozen=True, eq=False)
class Scene:
    """A table with its copies and the rows that play a part; errors are (N,) shares."""

    X: Floats
    requests: Requests
    rows: Rows
    moments: Moments
    seed: int

    @classmethod
    def of(cls, setting: Setting, requests: Requests) -> "Scene":
        """Choose the rows and measure the table."""
        X = setting.table.rows
        return cls(X, requests, Rows.of(setting), Moments.of(X), setting.seed)

    def alone(self, m: int, draw: int) -> list[Floats]:
        """Return m copies as the holder of the least noisy one makes them."""
        requests, K = self.requests, self.moments.covariance
        seed = DRAWS * self.seed + draw
        return self_made(requests.ours[:m], requests.noise[:m], K, seed=seed)

    def posterior(self, copies: Sequence[Floats], across: Floats) -> Floats:
        """Return the error of the posterior mean."""
        m = len(copies)
        known = Knowledge(self.moments.mean, self.moments.covariance, across[:m, :m])
        attacked = [copy[self.rows.attacked] for copy in copies]
        reference = self.X[self.rows.reference]
        return self._errors(posterior_mean(attacked, known=known, reference=reference))

    def learned(self, copies: Sequence[Floats]) -> Floats:
        """Return the error of gradient boosting, trained on the leaked rows."""
        leaked = len(self.rows.leaked)
        both = np.concatenate([self.rows.leaked, self.rows.attacked])
        guess = learned(
            [copy[both] for copy in copies],
            leaked=np.arange(leaked),
            truth=self.X[self.rows.leaked],
            unsafe_seed=self.seed,
            rounds=ROUNDS,
        )
        return self._errors(guess[leaked:])

    def _errors(self, guess: Floats) -> Floats:
        variance = np.diag(self.moments.covariance)
        scored = column_errors(self.X[self.rows.attacked], guess, variance=variance)
        return np.array([error.value for error in scored])


def state(attacked: Attacked) -> tuple[Statement, ...]:
    """Judge the promise for every adversary, with independent noise as the control."""
    counts, columns = attacked.errors["learned", "ours"].shape
    quantile = stats.t.ppf(
        1 - (1 - CONFIDENCE) / ((counts - 1) * columns), (counts - 1) * (DRAWS - 1)
    )
    allowed = quantile * attacked.spread * np.sqrt(1 + 1 / DRAWS)
    return (
        _stands(attacked, "posterior", "posterior mean", np.full(columns, NEGLIGIBLE)),
        _stands(attacked, "learned", "learned attack", allowed),
    )


def _stands(attacked: Attacked, attack: str, name: str, allowed: Floats) -> Statement:
    pooled, alone, independent = (attacked.errors[attack, holder] for holder in HOLDERS)
    gain = (alone - pooled).max(axis=0)
    control = (alone - independent)[-1]
    last = attacked.counts[-1]
    gains = ", ".join(f"{g:.4f} ({a:.4f})" for g, a in zip(gain, allowed, strict=True))
    return Statement.judged(
        source="Beyond the paper",
        claim=f"{name}: pooling our copies gains nothing over the least noisy one.",
        holds=bool((gain <= allowed).all() and (control > np.maximum(allowed, LARGE)).all()),
        measured=f"largest gain per column, as a share of the variance (allowed by chance): "
        f"{gains}; at M = {last} the error is {pooled[-1].mean():.3f} from ours, "
        f"{alone[-1].mean():.3f} from one copy, {independent[-1].mean():.3f} from independent "
        "noise",
    )


def draw(table: Table, attacked: Attacked) -> Figure:
    """Draw the errors per column: a colour for each scheme, a line for each attack."""
    drawn = figure(height=3.7)
    panels = drawn.subplots(1, len(table.columns), squeeze=False, sharey=True)[0]
    for i, axes in enumerate(panels):
        for attack, line in (("posterior", "-"), ("learned", "--")):
            for holder, colour in (("ours", OURS), ("independent", INDEPENDENT)):
                errors = attacked.errors[attack, holder][:, i]
                label = f"{holder} pooled, {attack}"
                axes.plot(attacked.counts, errors, line, color=colour, label=label)
            axes.plot(
                attacked.counts,
                attacked.errors[attack, "alone"][:, i],
                "o" if attack == "posterior" else "s",
                markerfacecolor="white",
                markeredgecolor=OURS,
                markersize=5,
                label=f"one copy of ours, {attack}",
            )
        axes.set(title=table.columns[i], xlabel="number of copies M")
    panels[0].set_ylabel("estimation error\n(share of the variance)")
    panels[0].set_ylim(bottom=0)
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=2)
    return drawn


def columns_of(table: Table, attacked: Attacked) -> Columns:
    """Return the errors as columns."""
    numbers: dict[str, Sequence[float]] = {"copies": attacked.counts}
    for (attack, holder), errors in attacked.errors.items():
        for name, values in zip(table.columns, errors.T, strict=True):
            numbers[f"{attack}_{holder}_{name}"] = values.tolist()
    return numbers


def run(setting: Setting) -> Result:
    """Measure, state and draw."""
    attacked, rows = measure(setting, asked(setting)), Rows.of(setting)
    caption = (
        "The errors of Figure 2 under two attacks that are not linear. Posterior: the best "
        f"estimate there is, with {len(rows.reference):,} rows as the law of the table. Learned: "
        f"gradient boosting on {len(rows.leaked):,} leaked rows; its single holder makes the "
        f"noisier copies of its own (mean of {DRAWS} draws)."
    )
    drawing = Drawing("beyond-attacks", caption, lambda: draw(setting.table, attacked))
    numbers = {"beyond-attacks": columns_of(setting.table, attacked)}
    return Result("Attacks that are not linear", "", state(attacked), (drawing,), numbers)
