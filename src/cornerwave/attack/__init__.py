"""The adversary's bench: attacks on our own copies, and on those of schemes that fall.

    schemes -> copies ──┐
                        ├─> coalition (evidence) ─> an attack ─> Xhat ─> score (error, gain)
    knowledge ──────────┘

    llse        the best linear estimate from any set of copies, and its exact error
    nonlinear   the best estimate of any kind; one learned from rows that leaked
    filtering   spectral, PCA and Bayes filters against noise of the wrong shape
    generator   known rows -> noise -> the state of a Mersenne Twister (twister)
    slips       repeats, scaled noise, a re-sorted source, float bits
    bench       every attack against every scheme in one table

The adversary knows everything but the key and X: nothing here imports a key, a
ledger or a release.
"""

from cornerwave.attack.bench import Outcome, battery
from cornerwave.attack.coalition import ATTACKS, Attack, Evidence
from cornerwave.attack.knowledge import PAPER_SAMPLES, Knowledge, sample_rows, sample_size
from cornerwave.attack.llse import Combination, Llse, combination
from cornerwave.attack.nonlinear import learned, posterior_mean
from cornerwave.attack.schemes import (
    SCHEMES,
    Independent,
    MersenneTwister,
    Ours,
    PerColumn,
    Scaled,
    Scheme,
    SinglePrecision,
)
from cornerwave.attack.score import Measured, column_errors, error, gain

__all__ = [
    "ATTACKS",
    "PAPER_SAMPLES",
    "SCHEMES",
    "Attack",
    "Combination",
    "Evidence",
    "Independent",
    "Knowledge",
    "Llse",
    "Measured",
    "MersenneTwister",
    "Ours",
    "Outcome",
    "PerColumn",
    "Scaled",
    "Scheme",
    "SinglePrecision",
    "battery",
    "column_errors",
    "combination",
    "error",
    "gain",
    "learned",
    "posterior_mean",
    "sample_rows",
    "sample_size",
]
