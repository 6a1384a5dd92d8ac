"""A new edition of a whole table: compared with the last one, row by row, by the keys.

    old ── is it the last edition? ──┐
                                     ├── came, went, changed ── rules ── chain: an edition
    new ── the same columns? drift? ─┘

The rules say what the noise of changed rows becomes; which rows changed is kept beside the chain.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Words
from cornerwave.editions import (
    Edition,
    Moved,
    Moves,
    Ranges,
    RowChanges,
    accepted_moves,
    hidden_after,
    updated_edition,
)
from cornerwave.engines import BatchSurveyor, batch_order, check_order, is_here
from cornerwave.engines.differences import Differing, DifferingRows, RowWords, compare
from cornerwave.engines.sorted_keys import SortedKeys, check_once
from cornerwave.errors import AlreadyRegistered, ColumnError, SourceChanged, SourceError, discreet
from cornerwave.ledger import Key, Ledger, work_folder
from cornerwave.noise import ChangedRows, Changes, changed_cells, returning_transitions, transitions
from cornerwave.sources import Progress, silent
from cornerwave.spine.missing import fill_missing
from cornerwave.spine.recipe import NoiseSecrets
from cornerwave.spine.rows import RowSecrets
from cornerwave.spine.survey import rank_draws
from cornerwave.vault._growing import Brought, record_edition
from cornerwave.vault._parts import WORK, KeptKeys

if TYPE_CHECKING:
    from cornerwave.vault._dataset import Dataset


def changes_name(edition: int) -> str:
    """Return what the changes of an edition are called beside the chain."""
    return f"changes:{edition}"


def update_table(
    dataset: "Dataset",
    new: Any,
    old: Any,
    ledger: Ledger,
    key: Key,
    own_key: Key,
    *,
    advancing: Collection[str] = (),
    progress: Progress = silent,
) -> Edition:
    """Record a new edition of a table, and return it."""
    frozen, last = dataset.frozen, dataset.editions[-1]
    dataset.check_open()
    accepted = accepted_moves(advancing, frozen.categories)
    if frozen.schema.key is None:
        raise ColumnError(
            f"{dataset.name!r} has no key column, so nobody can say which row of the new table is "
            "which of the old; append new rows, or register with a key"
        )
    source = replace(dataset.parts.batch(new), first=0)
    before = dataset.source if old is None else dataset.parts.of_last(old)
    if not (is_here(source) and is_here(before)):
        raise SourceError(
            "two editions are compared on one machine, which cannot read a frame of Spark; give "
            "both as files",
            use=("old",),
        )
    secrets = RowSecrets.of(key.derive)
    with (
        KeptKeys(dataset.home, key) as keys,
        work_folder(dataset.home / WORK) as folder,
        discreet(),
        SortedKeys(frozen.schema.key, folder) as came,
    ):
        order = batch_order(frozen.schema)
        compared = compare(before, source, frozen.schema, secrets, folder, order, progress)
        _check_old(dataset, str(compared.old))
        if str(compared.new) == last.whole:
            raise AlreadyRegistered(
                f"this is edition {last.number} of {dataset.name!r} already; nothing was changed"
            )
        check_order(order, frozen.schema, is_batch=True)
        changed = _Changed(dataset, secrets, NoiseSecrets.of(own_key.derive))
        ranges, surveyor = Ranges(frozen), BatchSurveyor(frozen.schema, frozen.scales, secrets)
        with DifferingRows(surveyor, folder, progress) as differing:
            differing.read_old(before, compared.alone[0])
            moved, newcomers = differing.survey_new(source, compared.alone[1], ranges.look)
            for found in differing.joined():
                changed.take(found)
                came.add(found.came.ids)
        if changed.came:
            keys.write(_new_keys(dataset, keys, came, changed))
            # else one may be that of a row that stayed
            check_once(source, frozen.schema, secrets, changed.returned)
        rows, moves = changed.rows(), changed.moves.found()
        edition = updated_edition(
            last,
            whole=str(compared.new),
            source=str(source.path) if source.path else None,
            changes=changed.counted(hides=hidden_after(frozen, rows.followed), moves=moves),
        )
        brought = Brought(surveyor, moved + newcomers, ranges, newcomers, accepted)
        beside = {changes_name(edition.number): rows.to_bytes()}
        return record_edition(dataset, edition, source, brought, keys, ledger, beside)


def _new_keys(
    dataset: "Dataset", keys: KeptKeys, came: SortedKeys, changed: "_Changed"
) -> Iterator[Words]:
    """Yield the keys of rows that came and are new; those of an earlier edition come back."""
    for hashes in came.ascending():
        seen = keys.seen(dataset, hashes)
        changed.came_back(hashes[seen])
        yield hashes[~seen]


def _check_old(dataset: "Dataset", found: str) -> None:
    """Raise SourceChanged unless this is the fingerprint of the last edition."""
    if found == dataset.editions[-1].whole:
        return
    known = [each.number for each in dataset.editions if each.whole == found]
    what = f"it is edition {known[-1]}" if known else "a value or a row differs"
    raise SourceChanged(
        f"the old table is not the last edition, {len(dataset.editions)}, of {dataset.name!r}: "
        f"{what}. Restore the last edition, or name its place",
        use=("old",),
    )


class _Changed:
    """What differs between two editions: counts, places, and what changed rows teach."""

    def __init__(self, dataset: "Dataset", secrets: RowSecrets, noise: NoiseSecrets) -> None:
        self._frozen, self._secrets, self._noise = dataset.frozen, secrets, noise
        self.changes = Changes({})
        self.moves = Moves(self._frozen.categories, self._frozen.schema.encoded)
        self.came = self.went = self.changed = 0
        self.returned = np.empty(0, dtype=np.uint64)
        self._columns: Counter[str] = Counter()
        self._hashes: list[Words] = [np.empty(0, dtype=np.uint64)]
        self._cells: list[Flags] = []
        self._back: list[Flags] = [np.empty(0, dtype=bool)]

    def take(self, found: Differing) -> None:
        """Take some rows that differ."""
        self.came += len(found.came)
        self.went += len(found.went)
        self.changed += len(found.new)
        if not len(found.new):
            return
        schema = self._frozen.schema
        differ = np.count_nonzero(found.old.words != found.new.words, axis=1)
        self._columns.update(
            dict(zip((*schema.perturbed, *schema.encoded), differ.tolist(), strict=True))
        )
        numbers = len(schema.perturbed)
        self.moves.take(found.old.words[numbers:], found.new.words[numbers:])
        old, new = self._filled(found.old), self._filled(found.new)
        shown = np.isnan(old) & ~np.isnan(new)  # after a gap: what was before it is not known
        cells, back = changed_cells(old, new) | shown, np.logical_or.reduce(shown)
        self.changes = self.changes + Changes.of(old[:, ~back], new[:, ~back])
        rows = cells.any(axis=0)
        self._keep(found.new.ids[rows, 0], cells[:, rows], back[rows])

    def came_back(self, hashes: Words) -> None:
        """Take rows of an earlier edition that come back: all of their values do."""
        vary = np.asarray(self._frozen.grid > 0)[:, None]
        self.returned = np.append(self.returned, hashes)
        self._keep(hashes, np.tile(vary, len(hashes)), np.ones(len(hashes), dtype=bool))

    def _keep(self, hashes: Words, cells: Flags, back: Flags) -> None:
        self._hashes.append(hashes)
        self._cells.append(cells)
        self._back.append(back)

    def _filled(self, rows: RowWords) -> Floats:
        """Return the numbers as they get their noise: on their scales, hidden gaps filled in."""
        numbers = rows.numbers(len(self._frozen.schema.perturbed))
        frozen = self._frozen
        scaled = frozen.scaled(numbers, rank_draws(self._secrets, rows.ids))
        return fill_missing(scaled, rows.ids, frozen.schema, frozen.draws, self._noise.missing)

    def rows(self) -> ChangedRows:
        """Return which rows changed, and the rules for their noise."""
        frozen = self._frozen
        columns = len(frozen.schema.perturbed)
        cells = np.concatenate([np.zeros((columns, 0), dtype=bool), *self._cells], axis=1)
        hashes, back = np.concatenate(self._hashes), np.concatenate(self._back)
        if not columns:
            return ChangedRows.of(hashes, cells, (), back=back)
        shape = frozen.covariance + frozen.excess
        returning = returning_transitions(cells[:, back], shape)
        rules = transitions(self.changes, shape)
        return ChangedRows.of(hashes, cells, rules, back=back, returning=returning)

    def counted(self, *, hides: Mapping[str, float], moves: Mapping[str, Moved]) -> RowChanges:
        """Return how many rows came, went and changed, with what is known of these."""
        return RowChanges(
            came=self.came,
            returned=len(self.returned),
            went=self.went,
            changed=self.changed,
            columns={name: count for name, count in self._columns.items() if count},
            hides=hides,
            moves=moves,
        )
