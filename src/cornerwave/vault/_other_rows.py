"""What a copy needs of the other rows of persons: their histories, and what hides their gaps.

Copies replace persons by others of the whole table, as these were when their rows came. Of a table
that was updated, what its rows were is put back from what is kept beside the chain.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cornerwave.columns import Fingerprint
from cornerwave.editions import UPDATED, Edition, Portion
from cornerwave.engines import found_gaps, history_rows
from cornerwave.ledger import Key, Ledger
from cornerwave.noise import moves_key
from cornerwave.sources import Source
from cornerwave.spine.changed_histories import ChangedHistories, came_with, gone_by, put_back
from cornerwave.spine.histories import Histories, HistoryRows
from cornerwave.spine.recipe import NoiseSecrets, Recipe
from cornerwave.spine.rows import RowSecrets

if TYPE_CHECKING:
    from cornerwave.vault._dataset import Dataset


def histories_name(edition: int) -> str:
    """Return what the rows whose categories an edition of persons changed are called."""
    return f"histories:{edition}"


class OtherRows:
    """The rows of persons of a dataset, read when a copy needs them."""

    def __init__(self, dataset: "Dataset", ledger: Ledger, key: Key) -> None:
        """`key` is the vault's."""
        self._dataset, self._ledger = dataset, ledger
        self._secrets = RowSecrets.of(key.derive)
        self._noise = NoiseSecrets.of(key.of_dataset(dataset.id).derive).noise
        self._kept: dict[int, HistoryRows] = {}
        self._keeps = False

    def keep(self, keep: bool) -> None:
        """Keep histories once they are read, or no longer: each of linked tables needs them."""
        self._keeps = keep
        self._kept.clear()

    def add(self, recipe: Recipe, rows: Portion) -> None:
        """Give a recipe what it needs of the other rows of persons."""
        self._add_histories(recipe, rows)
        frozen = self._dataset.frozen
        if recipe.needs_gaps_filled and (draws := frozen.draws) is not None:
            editions = self._dataset.editions[: rows.edition]
            source = self._source(editions)
            ends = [each.rows for each in editions]
            found = found_gaps(source, frozen, self._secrets, ends, editions[-1].whole)
            missing = recipe.noise_secrets.missing
            recipe.filled = found.filled(frozen.schema, draws, missing)

    def _add_histories(self, recipe: Recipe, rows: Portion) -> None:
        """Give a recipe the categories of all persons, of the whole table, if it needs them."""
        if not recipe.needs_histories:
            return
        family = self._dataset.frozen.family
        # a batch's release, or that of one of several tables, does not read all the rows again
        is_read_again = rows.batch is None and family is None
        own = self.histories(rows.edition, checked=not is_read_again)
        siblings = {name: self._dataset.sibling(name) for name in (family.tables if family else ())}
        tables = [
            own if family and name == family.table else sibling.other_rows.histories()
            for name, sibling in siblings.items()
            if sibling.frozen.persons is not None
        ]
        secret, categories = recipe.noise_secrets.missing, recipe.frozen.categories
        recipe.histories = Histories.of(own, categories, secret, tables)
        recipe.histories_taken = own.taken if is_read_again else None

    def histories(self, edition: int | None = None, *, checked: bool = True) -> HistoryRows:
        """Return the categories of all rows of persons up to an edition, as they came.

        Unless `checked`, the table may be another one than was registered.
        """
        editions = self._dataset.editions[:edition]
        if (number := len(editions)) in self._kept:
            return self._kept[number]
        found = put_back(
            self._here(self._source(editions), editions, checked=checked), self.changes(editions)
        )
        if self._keeps:
            self._kept[number] = found
        return found

    def changed(self, old: Source, new: Source, whole: str) -> tuple[ChangedHistories, HistoryRows]:
        """Return what a new state of the table, of fingerprint `whole`, changes of histories.

        And all rows as they came, with that. `old` has those of the last edition.
        """
        editions = self._dataset.editions
        changes, edition = self.changes(editions), len(editions)
        before = self._here(old, editions, checked=True)
        # the new state is all of one edition, until it is known with which its rows came
        ends = [*[0] * edition, Fingerprint.read(whole).rows]
        after = history_rows(new, self._dataset.frozen, self._secrets, ends, whole)
        change = ChangedHistories.of(before, after, gone_by(changes), edition)
        every = {**changes, edition + 1: change}
        return change, put_back(came_with(after, every), every)

    def content(self, change: ChangedHistories, edition: int) -> bytes:
        """Return what is kept of changed histories beside the chain."""
        return change.to_bytes(moves_key(self._noise, edition))

    def _source(self, editions: Sequence[Edition]) -> Source:
        portion = self._dataset.portion(edition=len(editions))
        return self._dataset.parts.of(portion)

    def _here(self, source: Source, editions: Sequence[Edition], *, checked: bool) -> HistoryRows:
        """Return the rows of the last of some editions, with the edition that each came with."""
        last = editions[-1]
        # rows of an updated table have no places by which to know their edition
        ends = [0 if each.number < last.begins else each.rows for each in editions]
        frozen, whole = self._dataset.frozen, last.whole if checked else None
        found = history_rows(source, frozen, self._secrets, ends, whole)
        return came_with(found, self.changes(editions))

    def changes(self, editions: Sequence[Edition]) -> dict[int, ChangedHistories]:
        """Return what each of some editions changed, by its number."""
        entry, found = self._dataset.entry, {}
        for each in editions:
            name = histories_name(each.number)
            if each.kind == UPDATED and (content := self._ledger.attachment(entry, name)):
                key = moves_key(self._noise, each.number)
                found[each.number] = ChangedHistories.read(content, key)
        return found
