"""The kinds of arrays that the whole package speaks of, each defined here once."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

Words = NDArray[np.uint64]
"""64-bit words, as ciphers and hashes take and give them."""

Ids = NDArray[np.uint64]
"""Row ids: shape (rows, 2), the low and the high half of 128 bits."""

Codes = NDArray[np.int32]
"""Categories by number; -1 is missing, and stays so."""
