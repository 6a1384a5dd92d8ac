"""A new state of the whole table: compared with the last one, row by row, by the keys.

    old ── is it the last edition? ──┐
                                     ├── came, went, changed ── rules ── chain: an edition
    new ── the same columns? drift? ─┘

The rules state what the noise of changed rows becomes; which rows changed is kept beside the chain.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Words
from cornerwave.columns import listed
from cornerwave.editions import (
    UPDATED,
    Edition,
    Moved,
    Moves,
    Ranges,
    RowChanges,
    accepted_moves,
    hidden_after,
    updated_edition,
)
from cornerwave.engines import (
    BatchSurveyor,
    batch_order,
    check_order,
    constants_of,
    engine_for,
    is_here,
)
from cornerwave.engines.differences import Differing, DifferingRows, RowWords, compare
from cornerwave.engines.sorted_keys import SortedKeys, check_once
from cornerwave.errors import AlreadyRegistered, ColumnError, SourceChanged, SourceError, discreet
from cornerwave.ledger import Entry, Key, Ledger, work_folder
from cornerwave.noise import (
    ChangedRows,
    Changes,
    MovedCells,
    MovedRows,
    Past,
    changed_cells,
    for_persons,
    moves_key,
    returning_transitions,
    transitions,
)
from cornerwave.sources import Progress, Source, silent
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.missing import fill_missing
from cornerwave.spine.person_sample import PersonValues
from cornerwave.spine.recipe import NoiseSecrets
from cornerwave.spine.rows import RowSecrets
from cornerwave.spine.sample import rank_draws
from cornerwave.vault._editions import Brought, record_edition
from cornerwave.vault._parts import WORK, KeptKeys

if TYPE_CHECKING:
    from cornerwave.vault._dataset import Dataset


def changes_name(edition: int) -> str:
    """Return what the changes of an edition are called beside the chain."""
    return f"changes:{edition}"


def moves_name(edition: int) -> str:
    """Return what the rows in which an edition changed a category are called beside the chain."""
    return f"moves:{edition}"


def read_past(ledger: Ledger, entry: Entry, editions: Sequence[Edition]) -> Past | None:
    """Return which rows these editions changed, if any did. Raises LedgerDamaged."""
    updated = [each.number for each in editions if each.kind == UPDATED]
    changed, moved = (
        {n: ledger.attachment(entry, name(n)) for n in updated}
        for name in (changes_name, moves_name)
    )
    rows = {n: ChangedRows.read(content) for n, content in changed.items() if content}
    cells = {n: MovedRows.read(content) for n, content in moved.items() if content}
    return Past(rows, cells) if updated else None


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
    _check_persons_can_change(dataset)
    if frozen.schema.key is None:
        raise ColumnError(
            f"{dataset.name!r} has no key column, so rows of the new table cannot be matched with "
            "those of the old; append new rows, or register with a key"
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
            for differs in differing.joined():
                changed.take(differs)
                came.add(differs.came.ids)
        if changed.came:
            keys.write(_new_keys(dataset, keys, came, changed))
            # else one may be that of a row that stayed
            check_once(source, frozen.schema, secrets, changed.returned)
        rows, moves = changed.rows(), changed.moves.moved()
        edition = updated_edition(
            last,
            whole=str(compared.new),
            source=str(source.path) if source.path else None,
            changes=changed.counted(hides=hidden_after(frozen, rows.followed), moves=moves),
        )
        survey = replace(moved + newcomers, constants=_constants(source, frozen, secrets))
        brought = Brought(surveyor, survey, ranges, newcomers, accepted)
        moved_rows = changed.moves.rows(moves_key(changed.noise.noise, edition.number))
        beside = {
            changes_name(edition.number): rows.to_bytes(),
            moves_name(edition.number): moved_rows.to_bytes(),
        }
        return record_edition(dataset, edition, source, brought, keys, ledger, beside)


def _constants(source: Source, frozen: Frozen, secrets: RowSecrets) -> PersonValues | None:
    """Return the values of a table in columns that were constant in each person."""
    constant = frozen.persons.named(frozen.schema.perturbed) if frozen.persons else ()
    types = frozen.source_types
    engine = engine_for(source, frozen.schema, types, secrets, keep_keys=None)
    return constants_of(engine, constant, frozen.schema, secrets)


def _check_persons_can_change(dataset: "Dataset") -> None:
    """Raise ColumnError for a table of persons whose rows have to stay as they are."""
    frozen = dataset.frozen
    if frozen.schema.unit is None:
        return
    if frozen.family is not None:
        raise ColumnError(
            f"{dataset.name!r} is linked with other tables: new rows can be appended, but rows "
            "that are there cannot be changed, since other tables may repeat their noise. Append"
        )
    if frozen.schema.nested:
        raise ColumnError(
            f"{dataset.name!r} has two units, {listed(frozen.schema.nested)}: new rows can be "
            "appended, but rows that are there cannot be changed. Append, or register the table "
            "anew"
        )
    hiding = [n for n in frozen.schema.perturbed if frozen.schema.column(n).hide_missing]
    if hiding:
        raise ColumnError(
            f"{dataset.name!r} hides which values of {listed(hiding)} are missing: what fills "
            "a gap follows the person's other rows, and if these changed, it would, and show that "
            "it is none. Append new rows, or register with visible gaps"
        )
    if frozen.categories:
        names = [name for group in frozen.categories for name in group.columns]
        raise ColumnError(
            f"{dataset.name!r} has categories of persons ({listed(names)}): a person's history is "
            "replaced by that of another one in the table, and if rows that are there changed, "
            "copies would show who was replaced. Append new rows, or register without categories"
        )


def _new_keys(
    dataset: "Dataset", keys: KeptKeys, came: SortedKeys, changed: "_Changed"
) -> Iterator[Words]:
    """Yield the keys of rows that came and are new; those of an earlier edition come back."""
    for hashes in came.ascending():
        seen = keys.seen(dataset, hashes)
        changed.came_back(hashes[seen])
        yield hashes[~seen]


def _check_old(dataset: "Dataset", fingerprint: str) -> None:
    """Raise SourceChanged unless this is the fingerprint of the last edition."""
    if fingerprint == dataset.editions[-1].whole:
        return
    known = [each.number for each in dataset.editions if each.whole == fingerprint]
    what = f"it is edition {known[-1]}" if known else "a value or a row differs"
    raise SourceChanged(
        f"the old table is not the last edition, {len(dataset.editions)}, of {dataset.name!r}: "
        f"{what}. Restore the last edition, or name its place",
        use=("old",),
    )


class _Changed:
    """What differs between two editions: counts, places, and what changed rows teach."""

    def __init__(self, dataset: "Dataset", secrets: RowSecrets, noise: NoiseSecrets) -> None:
        self._frozen, self._secrets, self.noise = dataset.frozen, secrets, noise
        self.changes = Changes({})
        past = dataset.past(len(dataset.editions))
        self.moves = Moves(
            self._frozen.categories,
            self._frozen.schema.encoded,
            secrets.texts,
            MovedCells(past.moved if past else {}, noise.noise),
        )
        self.came = self.went = self.changed = 0
        self.returned = np.empty(0, dtype=np.uint64)
        self._columns: Counter[str] = Counter()
        self._hashes: list[Words] = [np.empty(0, dtype=np.uint64)]
        self._cells: list[Flags] = []
        self._back: list[Flags] = [np.empty(0, dtype=bool)]

    def take(self, differing: Differing) -> None:
        """Take some rows that differ."""
        self.came += len(differing.came)
        self.went += len(differing.went)
        self.changed += len(differing.new)
        schema = self._frozen.schema
        numbers = len(schema.perturbed)
        came, went = differing.came, differing.went
        self.moves.take_came(came.ids[:, 0], came.words[numbers:])
        self.moves.take_went(went.ids[:, 0], went.words[numbers:])
        if not len(differing.new):
            return
        self._check_persons(differing)
        differ = np.count_nonzero(differing.old.words != differing.new.words, axis=1)
        self._columns.update(
            dict(zip((*schema.perturbed, *schema.encoded), differ.tolist(), strict=True))
        )
        self.moves.take(
            differing.new.ids[:, 0], differing.old.words[numbers:], differing.new.words[numbers:]
        )
        old, new = self._filled(differing.old), self._filled(differing.new)
        shown = np.isnan(old) & ~np.isnan(new)  # after a gap: what was before it is not known
        cells, back = changed_cells(old, new) | shown, np.logical_or.reduce(shown)
        self.changes = self.changes + Changes.of(old[:, ~back], new[:, ~back])
        rows = cells.any(axis=0)
        self._keep(differing.new.ids[rows, 0], cells[:, rows], back[rows])

    def _check_persons(self, differing: Differing) -> None:
        """Raise ColumnError for rows that went to another person, or to another time."""
        schema = self._frozen.schema
        names = [*schema.perturbed, *schema.encoded]
        for name in filter(None, (schema.unit, schema.time)):
            place = names.index(name) if name in names else None
            if place is None:
                continue
            moved = differing.old.words[place] != differing.new.words[place]
            if moved.any():
                raise ColumnError(
                    f"{name!r} changed in {np.count_nonzero(moved):,} rows: a row keeps its person "
                    "and its time, on which its noise depends. Restore them, or leave these rows "
                    "out"
                )

    def came_back(self, hashes: Words) -> None:
        """Take rows of an earlier edition that come back: all of their values do."""
        vary = np.asarray(self._frozen.grid > 0)[:, None]
        if self._frozen.persons is not None:  # what is constant in a person has one noise
            vary[list(self._frozen.persons.constant)] = False
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
        return fill_missing(scaled, rows.ids, frozen.schema, frozen.draws, self.noise.missing)

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
        if frozen.persons is not None:
            rules, returning = (tuple(map(for_persons, each)) for each in (rules, returning))
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
