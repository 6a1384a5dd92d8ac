"""What the recipient of a copy runs: unbiased answers about the original, with intervals.

    copy ──read──> blocks ──add up──> moments, counts ──undo the noise──> estimates

Knows the copy and its metadata, and imports no key, ledger or original.
"""

from cornerwave.miner.columns import Column
from cornerwave.miner.copy import Copy
from cornerwave.miner.distribution import Distribution
from cornerwave.miner.estimate import Estimate, Estimates
from cornerwave.miner.regression import Regression

__all__ = ["Column", "Copy", "Distribution", "Estimate", "Estimates", "Regression"]
