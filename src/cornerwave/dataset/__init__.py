"""A registered table, and the copies of it.

Dataset    who holds what, what may be released, what recipients know together
Release    a recipient and a level: a promise of a copy, made as often as it is asked for
Held       a line of the ledger: who holds which copy since when
KeptKeys   the keys of the rows that come with an edition
write_all  several releases in one pass; write_all_spark on a cluster
"""

from cornerwave.dataset._dataset import Dataset, check_name
from cornerwave.dataset._held import Held
from cornerwave.dataset._keys import WORK, KeptKeys
from cornerwave.dataset._recording import kept_beside
from cornerwave.dataset._release import FRAME, Release, write_all
from cornerwave.dataset._spark_release import FOLDER, write_all_spark

__all__ = [
    "FOLDER",
    "FRAME",
    "WORK",
    "Dataset",
    "Held",
    "KeptKeys",
    "Release",
    "check_name",
    "kept_beside",
    "write_all",
    "write_all_spark",
]
