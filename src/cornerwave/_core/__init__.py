"""The compiled kernels: what is hot, or must be the same to the bit on every machine.

white_noise     row ids -> the cipher's blocks; its words -> white noise on the path
copies          white noise -> noise shaped like K -> copies on their grid
refresh         the events of categories
hashes          SipHash of texts, NH of rows
exact_sums      exact sums and products of a table's values
matrices        factors of small matrices

C++ (the .cpp files beside this one), compiled at installation once for each instruction set: all
give the same bits, and the widest that the processor has is taken, or the one that the environment
variable CORNERWAVE_INSTRUCTIONS names (portable, avx2, avx512). Functions, arguments and shapes are
in `__init__.pyi`. To add a kernel: a function and a line of `bind` in the file of its subject, its
signature there, and a call in the self-test of tests/test_core.py.
"""

import os
from importlib import import_module
from types import ModuleType


def _chosen() -> ModuleType:
    try:
        portable = import_module("cornerwave._core._portable")
    except ImportError as error:
        raise ImportError(
            "Cornerwave's compiled kernels are missing or are those of another Python: install "
            "the package again (pip install . or, in a clone, make setup)"
        ) from error
    runnable: list[str] = portable.runnable()
    wanted = "_" + os.environ.get("CORNERWAVE_INSTRUCTIONS", runnable[-1].removeprefix("_"))
    if wanted not in runnable:
        known = ", ".join(name.removeprefix("_") for name in runnable)
        raise ImportError(
            f"CORNERWAVE_INSTRUCTIONS is {wanted.removeprefix('_')!r}, but this processor has "
            f"{known}: choose one of these, or unset the variable"
        )
    return import_module(f"cornerwave._core.{wanted}")


_kernels = _chosen()
instructions = _kernels.__name__.rpartition("._")[2]
globals().update(
    {name: kernel for name, kernel in vars(_kernels).items() if not name.startswith("_")}
)
