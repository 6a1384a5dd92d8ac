"""Test workers share the machine's cores: one thread each for what learns."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
