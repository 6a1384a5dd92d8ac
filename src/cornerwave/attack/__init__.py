"""The adversary's tools: estimates of the original from copies, and schemes that fall to them.

    schemes -> copies ──┐
                        ├─> an estimate or an attack ─> Xhat ─> score: error, gain
    knowledge ──────────┘

    the linear estimate   Knowledge, Llse, Combination, combination, whitening;
                          sample_rows, sample_size, PAPER_SAMPLES (measured knowledge)
    other estimates       posterior_mean (the best there is), left_by_posterior (what it leaves of
                          a column), learned (from leaked rows), JointPosterior (from rows of
                          others, all columns), measure_joint, attack_rows (what it leaves),
                          spectral, pca, bayes (filters for noise of the wrong shape)
    mistakes of an owner  average (fresh noise for each request), solve_scaled (one noise,
                          scaled), undo_resort (noise by position), read_float_bits,
                          strip_twister (a generator that can be predicted)
    schemes               SCHEMES: Independent, Scaled, PerColumn, MersenneTwister,
                          SinglePrecision, which must fall, and Ours
    score                 error, column_errors, gain: each a Measured with its interval

The adversary knows everything except the key and X: nothing here imports a key, a
ledger or a release. `cornerwave.audit` runs these attacks on files.
"""

from cornerwave.attack._estimators import (
    bayes,
    learned,
    left_by_posterior,
    pca,
    posterior_mean,
    spectral,
)
from cornerwave.attack._joint_posterior import (
    LEAST_KNOWN,
    JointPosterior,
    KnownCells,
    KnownRows,
    attack_rows,
    measure_joint,
)
from cornerwave.attack._llse import (
    PAPER_SAMPLES,
    Combination,
    Knowledge,
    Llse,
    combination,
    sample_rows,
    sample_size,
    whitening,
)
from cornerwave.attack._schemes import (
    SCHEMES,
    Independent,
    MersenneTwister,
    Ours,
    PerColumn,
    Scaled,
    Scheme,
    SinglePrecision,
)
from cornerwave.attack._score import NEGLIGIBLE, Measured, column_errors, error, gain
from cornerwave.attack._slips import average, read_float_bits, solve_scaled, undo_resort
from cornerwave.attack._twister import strip_twister

__all__ = [
    "LEAST_KNOWN",
    "NEGLIGIBLE",
    "PAPER_SAMPLES",
    "SCHEMES",
    "Combination",
    "Independent",
    "JointPosterior",
    "Knowledge",
    "KnownCells",
    "KnownRows",
    "Llse",
    "Measured",
    "MersenneTwister",
    "Ours",
    "PerColumn",
    "Scaled",
    "Scheme",
    "SinglePrecision",
    "attack_rows",
    "average",
    "bayes",
    "column_errors",
    "combination",
    "error",
    "gain",
    "learned",
    "left_by_posterior",
    "measure_joint",
    "pca",
    "posterior_mean",
    "read_float_bits",
    "sample_rows",
    "sample_size",
    "solve_scaled",
    "spectral",
    "strip_twister",
    "undo_resort",
    "whitening",
]
