"""THE SPINE: rows in, copies out.

    ids, rows ──> numbers ── missing in secret? draw ── + noise ── grid ── same spread ──┐
                  categories ── refresh ─────────────────────────────────────────────────┤
                  key ── pseudonym ──────────────────────────────────────────────────────┤
                  kept columns ──────────────────────────────────────────────────────────┴──> copy
             └──> fingerprint: is this the registered table?

A copy is a pure function of the source's rows, the dataset's key and what its ledger line
states. What happens to some rows is this one function, without thread, file or ledger; engines
decide where it runs and where the copies go.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave import _core, sizes
from cornerwave.arrays import Codes, Floats, Ids, Ints, Memory, Words
from cornerwave.columns import Fingerprint, bases_first, cut_off, to_floats
from cornerwave.errors import SourceChanged, SourceError
from cornerwave.keyed import BlockFunction, Secrets, expand, room_for
from cornerwave.levels import retention
from cornerwave.noise import (
    HistoryReader,
    MovedCells,
    Past,
    PersonHistoryReader,
    PersonNoise,
    PersonReader,
    Reader,
    Reading,
    Refresher,
    RefreshRoom,
    add_noise_on_grid,
    lattice_index,
    lattice_path,
    rows_of_block,
)
from cornerwave.passes import Bounded
from cornerwave.spec import CopyMetadata, CopySpec
from cornerwave.spine.continued import Tail
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.histories import CHANGED, Histories, taken_from
from cornerwave.spine.look import describe, field_of, totals
from cornerwave.spine.missing import fill_missing
from cornerwave.spine.moved_histories import ShownMoves
from cornerwave.spine.person_gaps import FilledGaps
from cornerwave.spine.rows import (
    Group,
    RowSecrets,
    group_rows,
    pseudonyms,
    pseudonyms_of_units,
    row_times,
)
from cornerwave.spine.sample import rank_draws


@dataclass(frozen=True, repr=False)
class NoiseSecrets(Secrets):
    """What the noise of one dataset comes from; `persons`, `events` and `units` that of persons."""

    noise: bytes
    missing: bytes
    order: bytes
    pseudonyms: bytes
    persons: bytes
    events: bytes
    units: bytes

    @classmethod
    def of(
        cls, derive: Callable[[str], bytes], shared: Callable[[str], bytes] | None = None
    ) -> "NoiseSecrets":
        """Derive them from a dataset's key, each for one purpose.

        Linked tables derive those of persons from a key that they share.
        """
        of_persons = shared or derive
        return cls(
            noise=derive("noise"),
            missing=derive("missing"),
            order=derive("order"),
            pseudonyms=derive("pseudonyms"),
            persons=expand(of_persons("noise"), "persons"),
            events=of_persons("noise"),
            units=expand(of_persons("pseudonyms"), "units"),
        )


@dataclass(frozen=True)
class Fingerprints(Bounded):
    """The fingerprint of some rows, and that of what histories take from them, if it is needed."""

    table: Fingerprint = field(default_factory=Fingerprint.nothing)
    histories: Fingerprint = field(default_factory=Fingerprint.nothing)

    def __add__(self, other: "Fingerprints") -> "Fingerprints":
        return Fingerprints(self.table + other.table, self.histories + other.histories)


class Recipe:
    """How the copies of a dataset are made: what is frozen, what is wanted, and the secrets."""

    def __init__(
        self,
        dataset: str,
        frozen: Frozen,
        wanted: Sequence[CopySpec],
        *,
        rows: RowSecrets,
        noise: NoiseSecrets,
        edition: int = 1,
        batch: int | None = None,
        past: Past | None = None,
    ) -> None:
        """`frozen` has the rows and the fingerprint of the edition, or of the batch alone.

        `past` are the rows that editions up to this one have changed.
        """
        self.dataset, self.frozen, self.wanted = dataset, frozen, tuple(wanted)
        self.edition, self.batch, self.past = edition, batch, past
        self.histories: Histories | None = None
        """The categories of all persons: they are filled in if the table needs them."""
        self.histories_taken: Fingerprint | None = None
        """What they were taken from, if the table was not checked then: it is when this writes."""
        self.filled: FilledGaps | None = None
        """What fills the hidden gaps of persons: it is made if the table needs it."""
        self._pasts: list[HistoryReader] = []
        self.row_secrets, self._noise_secrets = rows, noise
        self._levels = sorted({each.level.noise for each in self.wanted})
        self._reading = Reading(lattice_path(), [lattice_index(v) for v in self._levels])
        columns = max(1, len(frozen.schema.perturbed))
        self._block_rows = min(rows_of_block(columns), group_rows(frozen.schema))
        # Memory costs as much to ask for as the noise that is made in it, and keys take time.
        # Nothing else is kept from call to call.
        self._readers: list[Reader] = []
        self._persons: list[PersonReader] = []
        self._refreshers: list[list[Refresher]] = []
        self._memory = Memory()

    @property
    def noise_secrets(self) -> NoiseSecrets:
        """What the noise comes from, for an engine that makes copies elsewhere."""
        return self._noise_secrets

    def copies(self, ids: Ids, table: pa.Table) -> tuple[Fingerprints, list[pa.Table]]:
        """Return what recognises the rows, and one table for each wanted copy.

        Raises SourceError for rows that cannot be those of the registered table.
        """
        try:
            group = Group.of(ids, table, self.frozen.schema, self.row_secrets)
            numbers = self.perturbed(group)
            codes = self.frozen.codes(group.encoded) if self.needs_histories else None
            categories = self.refreshed(group) if codes is None else self._replaced(group, codes)
            made = dict(zip(self._levels, zip(numbers, categories, strict=True), strict=True))
            shown = self._without_noise(group)
            tables = [self._copy(w, shown, *made[w.level.noise]) for w in self.wanted]
            return self._recognised(group, codes), tables
        except pa.ArrowException:  # its words may quote a cell
            raise SourceError("a column no longer holds values of its kind") from None

    def _recognised(self, group: Group, codes: Codes | None) -> Fingerprints:
        table, secret = group.fingerprint(self.row_secrets), self.row_secrets.fingerprint
        if codes is None or self.histories_taken is None:
            return Fingerprints(table)
        times = row_times(group.table, self.frozen.schema)
        return Fingerprints(table, taken_from(group.ids, group.units, times, codes, secret))

    def places(self, ids: Ids) -> Words:
        """Return the places of rows in shuffled copies: (n, 2) words to sort by, first word first.

        AES is a permutation, so no two ids have one place. The secret is the dataset's own:
        known rows of another dataset must not show the order of this one.
        """
        return BlockFunction(self._noise_secrets.order)(ids, room_for(len(ids))).reshape(-1, 2)

    def pseudonyms(self, ids: Ids) -> pa.Array:
        """Return what replaces the keys of rows in copies."""
        return pseudonyms(ids, self._noise_secrets.pseudonyms)

    def unit_pseudonyms(self, units: Ids, outers: Ids) -> dict[str, pa.Array]:
        """Return what replaces the units of rows in copies: the same for all rows of a unit.

        A person in a household is named by both, and has one pseudonym in all copies.
        """
        schema, secret = self.frozen.schema, self._noise_secrets.units
        of_outers = expand(secret, "outer")
        return {
            name: pseudonyms_of_units(units, secret)
            if name == schema.unit
            else pseudonyms_of_units(outers, of_outers)
            for name in schema.unit_pseudonyms
        }

    def check(self, recognised: Fingerprints) -> None:
        """Raise SourceChanged unless all rows are those of the registered table.

        And those that histories were taken from.
        """
        fingerprint, taken = recognised.table, self.histories_taken
        if str(fingerprint) == self.frozen.fingerprint:
            if taken is not None and str(taken) != str(recognised.histories):
                raise SourceChanged(CHANGED)
            return
        rows = fingerprint.rows
        if rows != self.frozen.rows:
            what = f"it has {rows:,} rows, but {self.frozen.rows:,} were registered"
        elif self.frozen.schema.key is None:
            what = "a value differs, or the order of the rows"
        else:
            what = "a value differs"
        raise SourceChanged(
            f"this is not the registered table: {what}. The same noise on other values would "
            "reveal the difference, so nothing was written. Restore the registered table"
        )

    def schema(self, wanted: CopySpec) -> pa.Schema:
        """Return the columns of a copy, in the source's order; numbers are floats or rounded.

        Refreshed text is dictionary-encoded on its way to the output.
        """
        return pa.schema(
            [field_of(column, self.frozen, wanted.finish) for column in self.frozen.schema.shown]
        )

    def metadata(self, wanted: CopySpec) -> CopyMetadata:
        """Return what a copy states about itself; nothing in it comes from single rows."""
        level, reading, family = wanted.level, self.frozen.reading, self.frozen.family
        return CopyMetadata(
            dataset=self.dataset,
            noise=level.noise,
            privacy=self.frozen.hidden.promised(level),
            retention=retention(level.noise),
            rows=self.frozen.rows,
            edition=self.edition,
            batch=self.batch,
            order=self.frozen.schema.order,
            noise_format=self.frozen.noise_format,
            unit=self.frozen.schema.unit,
            outer_unit=self.frozen.schema.outer_unit,
            time=self.frozen.schema.time,
            family=family.id if family else None,
            table=family.table if family else None,
            tables=family.tables if family else None,
            missing=(reading.missing if reading else None) or None,
            columns={
                wanted.finish.name_of(column.name): describe(column, self.frozen, wanted)
                for column in self.frozen.schema.shown
            },
        )

    def perturbed(self, group: Group) -> list[Floats]:
        """Return the numbers (N, rows) with noise on the grid, for each level, ascending."""
        frozen = self.frozen
        scaled = frozen.scaled(group.numbers, rank_draws(self.row_secrets, group.outers))
        x = np.ascontiguousarray(self._filled(group, scaled))
        copies = {index: self._memory.lend(x.shape) for index in self._reading.wanted}
        if frozen.persons is None:
            self._add_noise(group.ids, x, copies)
        else:
            self._add_persons_noise(frozen.persons, group, x, copies)
        if self.past is not None:
            self._carry_over(self.past, group, x, copies)
        return [copies[lattice_index(noise)] for noise in self._levels]

    def _filled(self, group: Group, x: Floats) -> Floats:
        """Return numbers with their hidden gaps filled."""
        frozen, secret = self.frozen, self._noise_secrets.missing
        if not self.needs_gaps_filled:
            return fill_missing(x, group.ids, frozen.schema, frozen.draws, secret)
        assert self.filled is not None
        return self.filled.put(x, group.ids, frozen.schema)

    @property
    def needs_gaps_filled(self) -> bool:
        """Whether what fills a hidden gap depends on other rows of the person."""
        return self.frozen.persons is not None and self.frozen.draws is not None

    def _add_noise(self, ids: Ids, x: Floats, copies: Mapping[int, Floats]) -> None:
        """Fill in the numbers with the noise of their rows."""
        frozen = self.frozen
        reader = self._readers.pop() if self._readers else self._new_reader()
        around = len(copies) * x.nbytes > sizes.CACHE_BYTES
        for start in range(0, x.shape[1] if len(x) else 0, self._block_rows):
            for index, white in reader.white(ids[start : start + self._block_rows]):
                copy = copies[index]
                # Y = x + L W(v) with L L' = S, x and the noise each rounded to the grid
                _core.add_on_grid(x, frozen.factor, white, frozen.grid, copy, start, around)
        self._readers.append(reader)

    def _add_persons_noise(
        self, noise: PersonNoise, group: Group, x: Floats, copies: Mapping[int, Floats]
    ) -> None:
        """Fill in the numbers with the noise of persons and of their rows."""
        times = row_times(group.table, self.frozen.schema)
        reader = self._persons.pop() if self._persons else self._new_person_reader(noise)
        for start in range(0, x.shape[1] if len(x) else 0, self._block_rows):
            some = slice(start, start + self._block_rows)
            when = None if times is None else times[some]
            outers = None if noise.outer is None else group.outers[some]
            for index, made in reader.noise(group.ids[some], group.units[some], when, outers):
                # Y = x + Phi(t) L_C P_u(v) + L_R P_i(v), rounded alike
                _core.put_on_grid(x, made, self.frozen.grid, copies[index], start)
        self._persons.append(reader)

    def _new_person_reader(self, noise: PersonNoise) -> PersonReader:
        secrets = self._noise_secrets
        return PersonReader(
            self._reading, secrets.noise, secrets.persons, noise=noise, rows=self._block_rows
        )

    def _carry_over(
        self, past: Past, group: Group, x: Floats, copies: Mapping[int, Floats]
    ) -> None:
        """Give rows that an edition changed the noise that this made of theirs."""
        rows, kinds = past.of(group.ids)
        times = row_times(group.table, self.frozen.schema)
        reader = self._pasts.pop() if self._pasts else self._new_past(past)
        for start in range(0, len(rows) if len(x) else 0, self._block_rows):
            some = slice(start, start + self._block_rows)
            here, changed = (
                rows[some],
                {edition: all_kinds[some] for edition, all_kinds in kinds.items()},
            )
            ids, when = group.ids[here], None if times is None else times[here]
            outers = None if group.nest is None else group.outers[here]
            made = (
                reader.noise_of(ids, group.units[here], when, changed, outers)
                if isinstance(reader, PersonHistoryReader)
                else reader.noise(ids, changed)
            )
            for index, noise in made:
                # instead of the noise of the first edition: both would show the change
                copies[index][:, here] = add_noise_on_grid(x[:, here], noise, self.frozen.grid)
        self._pasts.append(reader)

    def _new_past(self, past: Past) -> HistoryReader:
        frozen, secrets, rows = self.frozen, self._noise_secrets, self._block_rows
        if frozen.persons is not None:
            return PersonHistoryReader(
                self._reading,
                secrets.noise,
                secrets.persons,
                persons=frozen.persons,
                rules=past.rules,
                rows=rows,
                beside=past.beside,
            )
        return HistoryReader(
            self._reading, secrets.noise, factor=frozen.factor, rules=past.rules, rows=rows
        )

    def _new_reader(self) -> Reader:
        columns = len(self.frozen.schema.perturbed)
        return Reader(
            self._reading, self._noise_secrets.noise, columns=columns, rows=self._block_rows
        )

    def refreshed(self, group: Group) -> list[dict[str, pa.Array]]:
        """Return the refreshed category columns by name, for each level, ascending."""
        copies: list[dict[str, pa.Array]] = [{} for _ in self._levels]
        refreshers = self._refreshers.pop() if self._refreshers else self._new_refreshers()
        moved = self._moved_cells.of(group.ids)
        ids = np.ascontiguousarray(group.ids[moved])
        before = self._moved_cells.before(ids[:, 0])
        for refresher, categories in zip(refreshers, self.frozen.categories, strict=True):
            codes = categories.encode(group.columns_of(categories.columns))
            made = refresher.refreshed(codes, group.ids)
            if len(moved):
                made[:, moved] = self._moved_cells.shown(refresher, codes[moved], ids, before)
            for copy, refreshed in zip(copies, made, strict=True):
                copy.update(zip(categories.columns, categories.decode(refreshed), strict=True))
        self._refreshers.append(refreshers)
        return copies

    @property
    def needs_histories(self) -> bool:
        """Whether categories belong to persons, who are replaced by others."""
        return self.frozen.persons is not None and bool(self.frozen.categories)

    def _replaced(self, group: Group, own: Codes) -> list[dict[str, pa.Array]]:
        """Return the categories of rows, some with the history of another person."""
        assert self.histories is not None
        copies = []
        for donors, tail, shown in self._donors:
            codes = self.histories.replaced(group.ids, own, donors, tail, shown)
            columns = zip(self.frozen.categories, codes, strict=True)
            copies.append(
                {
                    name: values
                    for each, row in columns
                    for name, values in zip(
                        each.columns, each.decode(np.ascontiguousarray(row)), strict=True
                    )
                }
            )
        return copies

    @cached_property
    def _moved_cells(self) -> MovedCells:
        """The rows in which editions changed a category."""
        return MovedCells(self.past.moved if self.past else {}, self._noise_secrets.noise)

    @cached_property
    def _donors(self) -> list[tuple[Ints, Tail, ShownMoves]]:
        """The donors of all persons at each level, how longer histories go on, and what moved."""
        assert self.histories is not None
        key = self._noise_secrets.events
        exchanged = self.histories.exchanged(self._levels, key)
        tails = self.histories.tails(exchanged.donors, key)
        shown = self.histories.moves(exchanged, key)
        return list(zip(exchanged.donors, tails, shown, strict=True))

    def _new_refreshers(self) -> list[Refresher]:
        key, room = self._noise_secrets.noise, RefreshRoom()
        return [
            Refresher(key, place, noise=self._levels, bounds=each.bounds, room=room)
            for place, each in enumerate(self.frozen.categories)
        ]

    def _without_noise(self, group: Group) -> dict[str, pa.Array]:
        """Return what is the same in all copies: columns as they are, and pseudonyms."""
        schema = self.frozen.schema
        shown = {name: group.unchanged(name) for name in schema.unchanged}
        if schema.pseudonym is not None:
            shown[schema.pseudonym] = self.pseudonyms(group.ids)
        return shown | self.unit_pseudonyms(group.units, group.outers)

    def _copy(
        self,
        wanted: CopySpec,
        shown: Mapping[str, pa.Array],
        numbers: Floats,
        categories: Mapping[str, pa.Array],
    ) -> pa.Table:
        schema, types = self.frozen.schema, self.frozen.source_types
        gaps = self.frozen.missing
        spread = wanted.finish.drawn_together(schema.perturbed, numbers, self._memory.lend)
        made = {**shown, **categories}
        present = {each.column: each for each in self.frozen.presence}
        left = dict(zip(schema.perturbed, self.frozen.unscaled(spread), strict=True))
        # x' = b' + d', where d' is a distance from another column and b' that one as it is shown
        for name in [n for n in left if n not in schema.relative] + bases_first(schema.relative):
            values = left[name]
            if name in schema.relative:
                base = schema.relative[name]
                before = to_floats(made[base], base)
                values = before + values
                if name in self.frozen.ranges and name in wanted.finish.spread:
                    values = cut_off(values, before, self.frozen.ranges[name])
            made[name] = wanted.finish.apply(
                name, values, types.field(name).type, complete=name not in gaps
            )
            if name in present:  # where the copy's own category lets it be
                there = present[name].of(made[present[name].source])
                made[name] = pc.if_else(there, made[name], None)
        # f(the copy's own number or category): nothing that the copy does not show
        made |= {each.column: each.of(made[each.source]) for each in self.frozen.derived}
        for total in totals(self.frozen, wanted.finish):
            made[total.column] = total.made(made, types.field(total.column).type)
        arrays = [made[column.name] for column in schema.shown]
        fields = self.schema(wanted)
        try:
            return pa.table(arrays, names=fields.names).cast(fields)
        except ValueError:
            raise SourceError("a value is missing where none was, or is of another kind") from None
