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
from cornerwave.columns import listed, macs
from cornerwave.editions import (
    UPDATED,
    Edition,
    Moved,
    Moves,
    Ranges,
    RowChanges,
    RowsReplaced,
    accepted_moves,
    hidden_after,
    moved_of_persons,
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
from cornerwave.spine.moved_histories import HistoryStep, related
from cornerwave.spine.person_values import PersonValues
from cornerwave.spine.recipe import NoiseSecrets
from cornerwave.spine.rows import RowSecrets
from cornerwave.spine.sample import rank_draws
from cornerwave.vault._editions import Brought, outer_constant, person_constant, record_edition
from cornerwave.vault._elsewhere import Elsewhere, elsewhere
from cornerwave.vault._other_rows import histories_name
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
    names = [name(n) for n in updated for name in (changes_name, moves_name)]
    kept = ledger.attachments(entry, names)
    rows = {n: ChangedRows.read(c) for n in updated if (c := kept.get(changes_name(n)))}
    cells = {n: MovedRows.read(c) for n in updated if (c := kept.get(moves_name(n)))}
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
        others = elsewhere(dataset, secrets)
        changed = _Changed(dataset, secrets, NoiseSecrets.of(own_key.derive), others)
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
        rows = changed.rows()
        moves = changed.moves.moved()
        kept = {changes_name(last.number + 1): rows.to_bytes()}
        if frozen.persons is not None and frozen.categories:
            moves, more = _persons_moved(dataset, before, source, str(compared.new))
            kept |= more
        edition = updated_edition(
            last,
            whole=str(compared.new),
            source=str(source.path) if source.path else None,
            changes=changed.counted(
                hides=hidden_after(frozen, rows.followed, rows.beside), moves=moves
            ),
        )
        constants, of_outers = (_constants(source, frozen, secrets, outer=o) for o in (False, True))
        survey = replace(moved + newcomers, constants=constants, outer_constants=of_outers)
        brought = Brought(surveyor, survey, ranges, newcomers, changed.replaced, accepted)
        if frozen.persons is None:
            moved_rows = changed.moves.rows(moves_key(changed.noise.noise, edition.number))
            kept[moves_name(edition.number)] = moved_rows.to_bytes()
        return record_edition(dataset, edition, source, brought, keys, ledger, kept)


def _persons_moved(
    dataset: "Dataset", old: Source, new: Source, whole: str
) -> tuple[dict[str, Moved], dict[str, bytes]]:
    """Return how categories of persons moved, and what is kept of their histories."""
    frozen, number = dataset.frozen, len(dataset.editions) + 1
    change, rows = dataset.other_rows.changed(old, new, whole)
    step, [part] = rows.steps[-1], rows.parts
    _check_not_repeated(dataset, step)
    words, units, came, _, codes = part
    owners = (rows.outers[0] if rows.outers else units)[:, 0]
    _, first = np.unique(units[came == 0, 0], return_index=True)
    blocks = related(codes[:, came == 0][:, first])
    of_rows = owners[np.searchsorted(words, step.words)]
    moves = moved_of_persons(step, of_rows, frozen.categories, blocks)
    return moves, {histories_name(number): dataset.other_rows.content(change, number)}


def _check_not_repeated(dataset: "Dataset", step: HistoryStep) -> None:
    """Raise ColumnError if a category changed that a linked table has, too."""
    family, categories = dataset.frozen.family, dataset.frozen.categories
    own = {n for c, m in zip(categories, step.moved, strict=True) if m.any() for n in c.columns}
    for table in family.tables if family else ():
        both = own & set(dataset.sibling(table).frozen.schema.encoded)
        if both and family and table != family.table:
            raise ColumnError(
                f"{listed(sorted(both))} changed, and table {table!r} has the same: copies would "
                "show two values of one person. Restore these cells, or register the tables anew"
            )


def _constants(
    source: Source, frozen: Frozen, secrets: RowSecrets, *, outer: bool
) -> PersonValues | None:
    """Return the values of a table in columns that were constant in each person, or household."""
    names = outer_constant(frozen) if outer else person_constant(frozen)
    types = frozen.source_types
    engine = engine_for(source, frozen.schema, types, secrets, keep_keys=None)
    return constants_of(engine, names, frozen.schema, secrets, outer=outer)


def _check_persons_can_change(dataset: "Dataset") -> None:
    """Raise ColumnError for a table of persons whose rows have to stay as they are."""
    frozen = dataset.frozen
    if frozen.schema.unit is None:
        return
    hiding = [n for n in frozen.schema.perturbed if frozen.schema.column(n).hide_missing]
    if hiding:
        raise ColumnError(
            f"{dataset.name!r} hides which values of {listed(hiding)} are missing: what fills "
            "a gap follows the person's other rows, and if these changed, it would, and show that "
            "it is none. Append new rows, or register with visible gaps"
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

    def __init__(
        self, dataset: "Dataset", secrets: RowSecrets, noise: NoiseSecrets, others: Elsewhere
    ) -> None:
        self._others = others
        self._frozen, self._secrets, self.noise = dataset.frozen, secrets, noise
        self.changes = Changes({})
        past = dataset.past(len(dataset.editions))
        self.moves = Moves(
            self._frozen.categories if self._frozen.persons is None else (),
            self._frozen.schema.encoded,
            secrets.texts,
            MovedCells(past.moved if past else {}, noise.noise),
        )
        self.came = self.went = self.changed = 0
        self.returned = np.empty(0, dtype=np.uint64)
        self.replaced = RowsReplaced()
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
        if self._frozen.persons is not None:
            self.replaced += RowsReplaced(
                *map(self._hashes_of, (went, differing.old, differing.new))
            )
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
        known = self._elsewhere(differing.new)
        wide = [np.vstack([own, known])[:, ~back] for own in (old, new)]
        self.changes = self.changes + Changes.of(*wide)
        rows = cells.any(axis=0)
        self._keep(differing.new.ids[rows, 0], cells[:, rows], back[rows])

    def _elsewhere(self, rows: RowWords) -> Floats:
        """Return what the persons of rows have in linked tables (numbers, rows)."""
        schema = self._frozen.schema
        if schema.unit is None:
            return np.zeros((0, len(rows)))
        place = len(schema.perturbed) + schema.encoded.index(schema.unit)
        return self._others.of(rows.words[place])

    def _hashes_of(self, rows: RowWords) -> Words:
        """Return the hashes by which rows are sampled."""
        return macs(rows.ids, rows.words, self._secrets.fingerprint)[1]

    def _check_persons(self, differing: Differing) -> None:
        """Raise ColumnError for rows that went to another person, or to another time."""
        schema = self._frozen.schema
        names = [*schema.perturbed, *schema.encoded]
        for name in filter(None, (*schema.units, schema.time)):
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
        loadings = self._others.loadings
        shape = frozen.shape_beside(loadings)
        still = np.zeros((len(loadings), np.count_nonzero(back)), dtype=bool)
        returning = returning_transitions(np.vstack([cells[:, back], still]), shape)
        rules = transitions(self.changes, shape)
        if frozen.persons is not None:
            paths = frozen.persons.paths
            rules, returning = (
                tuple(for_persons(rule, paths) for rule in each) for each in (rules, returning)
            )
        return ChangedRows.of(hashes, cells, rules, back=back, returning=returning, beside=loadings)

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
