"""What the owner works with: a `Vault`, its `Dataset`s and their `Release`s.

_vault       open a vault; register a table
_dataset     a registered table: who holds what, and what may be released next
_release     a copy: made whole, recorded, then shown
_families    several tables of the same persons, registered and released together
_to_register a table on its way into the ledger
_parts       where the rows of all editions lie, and their keys
_other_rows  what copies need of the other rows of persons
_second_person what waits until another owner approves it
_elsewhere   what persons have in linked tables, when rows of one change
_editions    the next edition; _updates compares a changed table with the last one
"""

from cornerwave.vault._dataset import Dataset
from cornerwave.vault._families import LinkedDataset, LinkedRelease
from cornerwave.vault._linked_copies import kind_of
from cornerwave.vault._release import FRAME, Release, write_all, write_all_spark
from cornerwave.vault._second_person import (
    USED,
    WAITS,
    Proposal,
    below_in,
    checked_below,
    needed,
    proposals,
    propose,
    set_below,
)
from cornerwave.vault._to_register import Registration, dataset_id
from cornerwave.vault._vault import KEY_FILE, VAULT_NAME, Vault, is_vault, key_place, vault_place

__all__ = [
    "FRAME",
    "KEY_FILE",
    "USED",
    "VAULT_NAME",
    "WAITS",
    "Dataset",
    "LinkedDataset",
    "LinkedRelease",
    "Proposal",
    "Registration",
    "Release",
    "Vault",
    "below_in",
    "checked_below",
    "dataset_id",
    "is_vault",
    "key_place",
    "kind_of",
    "needed",
    "proposals",
    "propose",
    "set_below",
    "vault_place",
    "write_all",
    "write_all_spark",
]
