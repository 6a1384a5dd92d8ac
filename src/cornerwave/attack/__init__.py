"""The adversary's tools: estimates of the original from copies, and their scores.

    copies, knowledge ─> an estimate ─> Xhat ─> score: error, gain

    the linear estimate   Knowledge, Llse, Combination, combination, whitening;
                          sample_rows, sample_size, PAPER_SAMPLES (measured knowledge)
    other estimates       posterior_mean (the best there is), left_by_posterior (what it leaves of
                          a column), learned (from leaked rows), JointPosterior (from rows of
                          others, all columns), measure_joint, attack_rows (what it leaves),
                          spectral, pca, bayes (filters for noise of the wrong shape)
    rows that are known   RowsAtRisk, measure_linkage (how often they are found, predicted from
                          sampled rows), ShownRows, find_rows (found in a copy)
    score                 error, column_errors, gain: each a Measured with its interval

The adversary knows everything except the key and X: nothing here imports a key, a
ledger or a release. `cornerwave.audit` runs these attacks on files. Schemes that fall to them,
and attacks on an owner's mistakes, are in the reproduction of the paper.
"""

from cornerwave.attack._estimators import (
    bayes,
    learned,
    left_by_posterior,
    pca,
    posterior_mean,
    spectral,
)
from cornerwave.attack._found_rows import ShownRows, find_rows
from cornerwave.attack._joint_posterior import (
    LEAST_KNOWN,
    KnownCells,
    KnownRows,
    attack_rows,
    measure_joint,
)
from cornerwave.attack._linkage import measure_linkage
from cornerwave.attack._llse import (
    NEGLIGIBLE,
    PAPER_SAMPLES,
    Knowledge,
    Llse,
    Measured,
    column_errors,
    combination,
    error,
    gain,
    sample_rows,
    sample_size,
    whitening,
)
from cornerwave.attack._rows_at_risk import RowsAtRisk

__all__ = [
    "LEAST_KNOWN",
    "NEGLIGIBLE",
    "PAPER_SAMPLES",
    "Knowledge",
    "KnownCells",
    "KnownRows",
    "Llse",
    "Measured",
    "RowsAtRisk",
    "ShownRows",
    "attack_rows",
    "bayes",
    "column_errors",
    "combination",
    "error",
    "find_rows",
    "gain",
    "learned",
    "left_by_posterior",
    "measure_joint",
    "measure_linkage",
    "pca",
    "posterior_mean",
    "sample_rows",
    "sample_size",
    "spectral",
    "whitening",
]
