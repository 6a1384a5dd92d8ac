"""The parent of Spark's Python processes, which has our code already.

A task that is killed takes its process with it; the next one need not import everything again.
"""

from pyspark.daemon import manager

import cornerwave.engines._jobs  # noqa: F401

if __name__ == "__main__":
    manager()
