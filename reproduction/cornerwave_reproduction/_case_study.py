"""The case study: two values, two recipients, and what they recover.

    X = [9, 11], mean 10, variance 1;  Alice holds Y(1), Bob Y(4)

    mean error = (1 - s)^2 mean((x - mu)^2) + w' Sigma w,   s = sum w

exactly, for weights w on the copies; and sampled with Bob's copy made first and
Alice's generated on demand.
"""

from dataclasses import dataclass

import numpy as np

from cornerwave.algorithms import corner_wave, on_demand
from cornerwave.arrays import Floats
from cornerwave.attack import combination
from cornerwave_reproduction._part import Result, Setting, Statement, bound
from cornerwave_reproduction._requests import spread_of_error
from cornerwave_reproduction._schemes import Independent, Scaled

VALUES, MEAN = np.array([9.0, 11.0]), 10.0
ALICE, BOB = 1.0, 4.0
EXACT = 1e-9


@dataclass(frozen=True)
class Case:
    """Which copies of which scheme are pooled, their noise's covariance, the paper's error."""

    claim: str
    error: float
    scheme: str
    copies: tuple[int, ...]
    across: Floats


CASES = (
    Case("Alice alone (noise 1) has error 0.5.", 0.5, "ours", (0,), np.array([[ALICE]])),
    Case("Bob alone (noise 4) has error 0.8.", 0.8, "ours", (1,), np.array([[BOB]])),
    Case(
        "With independent noise, Alice and Bob together have error 4/9, less than either.",
        4 / 9,
        "independent",
        (0, 1),
        np.diag([ALICE, BOB]),
    ),
    Case(
        "With linearly dependent noise, Alice and Bob together have error 0: they solve for X.",
        0.0,
        "scaled",
        (0, 1),
        Scaled().across([ALICE, BOB]),
    ),
    Case(
        "With the corner wave, Alice and Bob together have error 0.5, as Alice alone.",
        0.5,
        "ours",
        (0, 1),
        corner_wave([ALICE, BOB]),
    ),
)


def exact_error(across: Floats) -> float:
    """Return the mean error over the two values, for the best linear estimate."""
    weights = combination(across).weights
    bias = (1 - weights.sum()) ** 2 * ((VALUES - MEAN) ** 2).mean()
    return float(bias + weights @ across @ weights)


def copies_of(rows: int, *, seed: int) -> dict[str, list[Floats]]:
    """Return Alice's and Bob's copy of the two values, repeated, by each scheme."""
    X, K, noise = np.resize(VALUES, rows), np.array([[1.0]]), [ALICE, BOB]
    [bob] = on_demand(X, noise=[BOB], covariance=K, unsafe_seed=seed)
    [alice] = on_demand(X, noise=[ALICE], given={BOB: bob}, covariance=K, unsafe_seed=seed)
    # The other schemes measure K; the sample variance of [9, 11, ...] is 1 up to 1 / rows.
    others = {
        scheme.name: [
            copy[:, 0] for copy in scheme.copies(X[:, None], noise=noise, unsafe_seed=seed)
        ]
        for scheme in (Independent(), Scaled())
    }
    return {"ours": [alice, bob], **others}


def sampled_error(copies: list[Floats], across: Floats) -> float:
    """Return the measured mean error of the best linear estimate for noise `across`."""
    weights = combination(across).weights
    away = sum(w * (copy - MEAN) for w, copy in zip(weights, copies, strict=True))
    truth = np.resize(VALUES, len(copies[0]))
    return float(((MEAN + away - truth) ** 2).mean())


def state(case: Case, copies: dict[str, list[Floats]]) -> Statement:
    """Judge one error of the case study, exactly and as sampled."""
    held = [copies[case.scheme][i] for i in case.copies]
    exact, sampled = exact_error(case.across), sampled_error(held, case.across)
    # 1e-4 is for the measured K and the grid of the copies; the rest is the sampling error.
    allowed = bound(len(CASES)) * spread_of_error(case.across, rows=len(held[0])) + 1e-4
    return Statement.judged(
        source="Case study",
        claim=case.claim,
        holds=abs(exact - case.error) < EXACT and abs(sampled - case.error) <= allowed,
        measured=f"exactly {exact:.6f}; sampled {sampled:.4f} over {len(held[0]):,} values",
    )


def run(setting: Setting) -> Result:
    """Judge every error of the case study."""
    copies = copies_of(2 * setting.effort.timed_rows, seed=setting.seed)
    text = (
        "One attribute with mean 10 and variance 1, the values 9 and 11. Alice is trusted with "
        "noise 1, Bob with noise 4. Bob's copy was made first, Alice's on demand."
    )
    statements = tuple(state(case, copies) for case in CASES)
    return Result("The case study", text, statements)
