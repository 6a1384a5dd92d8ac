"""What the owner works with: a `Vault`, its `Dataset`s and their `Release`s.

_vault       open a vault; register a table
_dataset     a registered table: who holds what, and what may be released next
_release     a copy: made whole, recorded, then shown
_parts       where the rows of all editions lie, and their keys
_editions    the next edition: appended rows, or a changed table
"""

from cornerwave.vault._dataset import Dataset, check_name
from cornerwave.vault._release import FRAME, Release, write_all, write_all_spark
from cornerwave.vault._vault import KEY_FILE, Vault, dataset_id, is_vault, key_place, vault_place

__all__ = [
    "FRAME",
    "KEY_FILE",
    "Dataset",
    "Release",
    "Vault",
    "check_name",
    "dataset_id",
    "is_vault",
    "key_place",
    "vault_place",
    "write_all",
    "write_all_spark",
]
