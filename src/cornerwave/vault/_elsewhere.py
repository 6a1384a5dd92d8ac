"""What persons have in linked tables, when rows of one of these change.

New values depend on what the person has elsewhere, and copies of the other tables show that: of a
value that correlates 0.9 with one of another table 0.37 would be left, instead of 0.5, if its new
noise did not. So the rules of changed rows (noise/_transition.py) count the person's numbers in the
other tables, the mean of their rows there, among those of the old row:

    y = A (x, g) + e        W_e = A (W_{e-1}, L_g P_u) + H Z_{e-1} + B P_e

L_g P_u is the noise that these numbers have in copies of the other tables: persons share a path.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cornerwave.arrays import Floats, Words, places_among
from cornerwave.columns import Fingerprint
from cornerwave.editions import UPDATED
from cornerwave.errors import ColumnError, SourceChanged
from cornerwave.spine.rows import Group, RowSecrets, numbered, row_ids
from cornerwave.spine.sample import rank_draws

if TYPE_CHECKING:
    from cornerwave.vault._dataset import Dataset


@dataclass(frozen=True)
class Elsewhere:
    """Numbers of persons in linked tables (numbers, persons), by the word of the person's name.

    `loadings` (numbers, paths) are those of their noise on the paths of persons.
    """

    loadings: Floats
    words: Words
    numbers: Floats

    @classmethod
    def nothing(cls) -> "Elsewhere":
        """Return that of a table that is linked with no other."""
        return cls(np.zeros((0, 0)), np.empty(0, dtype=np.uint64), np.zeros((0, 0)))

    def of(self, words: Words) -> Floats:
        """Return the numbers of the persons of rows (numbers, rows), else the mean."""
        if not len(self.loadings):
            return np.zeros((0, len(words)))
        mean = np.nan_to_num(np.nanmean(self.numbers, axis=1, keepdims=True))
        numbers = np.where(np.isnan(self.numbers), mean, self.numbers)
        place = places_among(self.words, words)
        return np.where(place < 0, mean, numbers[:, place])


def elsewhere(dataset: "Dataset", secrets: RowSecrets) -> Elsewhere:
    """Return what the persons of a table have in those that it is linked with.

    Raises ColumnError if numbers of one of these were changed, SourceChanged if one is another.
    """
    family = dataset.frozen.family
    if family is None or dataset.frozen.persons is None:
        return Elsewhere.nothing()
    siblings = {name: dataset.sibling(name) for name in family.tables if name != family.table}
    persons = {name: each for name, each in siblings.items() if each.frozen.persons is not None}
    _check_unchanged(dataset, persons)
    parts = [_of_table(each, secrets, dataset) for each in persons.values()]
    words = np.unique(np.concatenate([part.words for part in parts]))
    numbers = [np.full((len(part.loadings), len(words)), np.nan) for part in parts]
    for part, own in zip(parts, numbers, strict=True):
        own[:, np.searchsorted(words, part.words)] = part.numbers
    return Elsewhere(
        np.concatenate([part.loadings for part in parts]), words, np.concatenate(numbers)
    )


def _check_unchanged(dataset: "Dataset", persons: Mapping[str, "Dataset"]) -> None:
    """Raise ColumnError if an edition of another table changed numbers of rows that are there."""
    for name, each in persons.items():
        changed = [e.changes.columns for e in each.editions if e.kind == UPDATED and e.changes]
        if set(each.frozen.schema.perturbed) & {
            column for columns in changed for column in columns
        }:
            raise ColumnError(
                f"numbers of table {name!r} were changed in an earlier edition, and of linked "
                f"tables those of one alone can change. Append rows to {dataset.name!r}, or "
                "register the tables anew"
            )


def _of_table(table: "Dataset", secrets: RowSecrets, other: "Dataset") -> Elsewhere:
    """Return the mean numbers of the persons of a table, but for those that both have."""
    frozen, schema = table.frozen, table.frozen.schema
    assert frozen.persons is not None
    names = [name for name in schema.perturbed if name not in other.frozen.schema.perturbed]
    columns = [schema.perturbed.index(name) for name in names]
    place, fingerprint = schema.encoded.index(schema.unit or ""), Fingerprint.nothing()
    words, numbers = [np.empty(0, dtype=np.uint64)], [np.zeros((len(columns), 0))]
    for start, rows in numbered(table.source, schema):
        ids = row_ids(start, rows, schema, secrets)
        group = Group.of(ids, rows, schema, secrets)
        fingerprint += group.fingerprint(secrets)
        scaled = frozen.scaled(group.numbers, rank_draws(secrets, group.outers))
        words.append(group.cells[place].copy())
        numbers.append(scaled[columns])
    if str(fingerprint) != table.editions[-1].whole:
        raise SourceChanged(
            f"the table of {table.name!r} is not its last edition; restore it: new values depend "
            "on what persons have there"
        )
    known, person = np.unique(np.concatenate(words), return_inverse=True)
    x = np.concatenate(numbers, axis=1)
    here = ~np.isnan(x)
    counts = np.array([np.bincount(person[own], minlength=len(known)) for own in here])
    sums = [
        np.bincount(person[own], values[own], minlength=len(known))
        for values, own in zip(x, here, strict=True)
    ]
    counts, total = counts.reshape(len(columns), -1), np.reshape(sums, (len(columns), -1))
    means = np.where(counts > 0, total / np.maximum(counts, 1), np.nan)
    return Elsewhere(frozen.persons.person.mean(axis=0)[columns], known, means)
