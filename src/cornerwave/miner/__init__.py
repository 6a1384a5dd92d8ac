"""What a recipient runs on a copy: unbiased estimates about the original, with intervals.

    copy ──read──> blocks ──add up──> moments, counts ──undo the noise──> estimates

    Copy                open a copy and ask it; everything else is what it answers with
    CopyColumn          what was done to one column (LOG1P, RANK, MIXED: scales)
    Estimate, Estimates a value, or an array of them, with standard errors
    Regression          coefficients and fit of a linear regression
    Distribution        the reconstructed histogram of a numeric column
    LinkedCopy          copies of linked tables: one of them, or two joined by person (JoinedCopy)
    open_copy, fetch, Profile    a copy from a service, with the profile file that its owner gave
    number_blocks, code_blocks, find_labels    the blocks and category labels of any source

The package needs the copy and its metadata, and imports no key, ledger or original.
"""

from cornerwave.miner._copy import Copy
from cornerwave.miner._distribution import Distribution
from cornerwave.miner._estimates import Estimate, Estimates, code_blocks, find_labels, number_blocks
from cornerwave.miner._fetch import Profile, fetch, open_copy
from cornerwave.miner._joined import JoinedCopy, LinkedCopy
from cornerwave.miner._metadata import LOG1P, MIXED, RANK, CopyColumn
from cornerwave.miner._regression import Regression

__all__ = [
    "LOG1P",
    "MIXED",
    "RANK",
    "Copy",
    "CopyColumn",
    "Distribution",
    "Estimate",
    "Estimates",
    "JoinedCopy",
    "LinkedCopy",
    "Profile",
    "Regression",
    "code_blocks",
    "fetch",
    "find_labels",
    "number_blocks",
    "open_copy",
]
