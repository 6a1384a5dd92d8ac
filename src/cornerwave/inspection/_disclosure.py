"""Which columns reveal which, measured as at registration, in a trial on sampled rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Ints, Words
from cornerwave.choices import CATEGORY, DERIVED, DOES, DROPPED, PERTURBED, UNIT, Choices
from cornerwave.columns import (
    DAYS,
    Relative,
    decide,
    distances_in,
    is_category,
    is_number,
    plain_type,
    unit_of,
    value_type,
)
from cornerwave.errors import SourceError, collecting_warnings
from cornerwave.inspection._columns import RARE
from cornerwave.inspection._scales import RANK, can_be_ranked
from cornerwave.keyed import KEY_BYTES, expand
from cornerwave.levels import HALF, retention, worth
from cornerwave.noise import position_ids
from cornerwave.outlook import advice, outlooks
from cornerwave.reuse import TableMarks
from cornerwave.spine.freeze import freeze, pairs_worth_joining
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.rows import RowSecrets
from cornerwave.spine.sample import row_hashes
from cornerwave.spine.survey import JOINT_ROWS, Sampler, Survey, Surveyor

MOST_CELLS = 1 << 23
"""A sample has fewer rows if the table is wide: 64 MB of numbers."""
FEWER_CELLS = 1 << 17
"""So many cells are tried to see which categories to join, and which gaps to hide."""
KNOWN = bytes(KEY_BYTES)
"""Nothing is secret here: the key only makes the choice of rows repeatable."""


class SampledRows:
    """The rows of a table whose positions have the smallest hashes, in columns of plain types."""

    def __init__(self, schema: pa.Schema) -> None:
        self._most = min(JOINT_ROWS, MOST_CELLS // max(1, len(schema)))
        self._seen = 0
        self._hashes: Words = np.empty(0, dtype=np.uint64)
        usable = [part for part in schema if is_number(part.type) or is_category(part.type)]
        self._schema = pa.schema([pa.field(part.name, value_type(part.type)) for part in usable])
        self._rows = self._schema.empty_table()

    def add(self, table: pa.Table) -> None:
        """Look at the next rows."""
        hashes = row_hashes(position_ids(self._seen, table.num_rows), KNOWN)
        self._seen += table.num_rows
        full = len(self._hashes) == self._most
        # bottom-k: the rows of the k smallest hashes are a uniform sample, however rows arrive
        near = np.flatnonzero(hashes < self._hashes.max()) if full else np.arange(len(hashes))
        known = np.concatenate([self._hashes, hashes[near]])
        kept = np.sort(np.argpartition(known, min(self._most, len(known)) - 1)[: self._most])
        plain = table.select(self._schema.names).cast(self._schema)
        rows = pa.concat_tables([self._rows, plain.take(near)])
        self._hashes, self._rows = known[kept], rows.take(kept)

    @property
    def rows(self) -> pa.Table:
        """The rows, in the order of the table."""
        return self._rows


@dataclass(frozen=True)
class Disclosure:
    """What a trial registration showed.

    `sentences` state what columns reveal of each other and what to do, `details` the figures behind
    them, `together` are the categories to refresh
    as one, `hide_missing` the columns whose gaps reveal too much to be shown; `looks` states what a
    column's copies will look like; `frozen` is what was fixed.
    """

    sentences: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    hide_missing: tuple[str, ...] = ()
    looks: Mapping[str, str] = field(default_factory=dict)
    frozen: Frozen | None = field(default=None, repr=False, compare=False)
    trial: "_Trial | None" = field(default=None, repr=False, compare=False)

    def marks(self) -> TableMarks | None:
        """Return the marks of the columns that got noise in the trial."""
        return None if self.trial is None else self.trial.surveyor.marks(self.trial.survey)


def disclosure(
    rows: pa.Table,
    types: pa.Schema,
    proposed: Mapping[str, str],
    ranked: Sequence[str] = (),
    relative: Relative | None = None,
    present: Mapping[str, str] | None = None,
    follows: Mapping[str, str] | None = None,
    sums: Mapping[str, tuple[str, int | None]] | None = None,
) -> Disclosure:
    """Register some rows for trial, with what a draft proposes for each column.

    Numbers that are `ranked` are perturbed on their ranks, those `relative` to others as distances;
    they are `present` if a category lets them. Columns that others decide `follows` these,
    `sums` are of others, with so many decimals.
    """
    if not any(do in ("perturb", "category") for do in proposed.values()):
        return Disclosure()
    try:
        proposed = _usable(rows, proposed)
        few = _fewer(rows, _unit_in(proposed))
        relative = relative or {}
        scored = dict(zip(ranked, distances_in(few, ranked, relative), strict=True))
        ranked = [n for n, x in scored.items() if can_be_ranked(pa.chunked_array([x]), n)]
        given = (relative, present or {}, follows or {}, sums or {})
        apart = _Trial.of(few, types, proposed, ranked, *given)
        joined = apart.with_close_ones_together()
        shown = joined.with_gaps_hidden().on(rows)
    except SourceError as error:
        return Disclosure((f"registering this draft would be refused: {error}",))
    counted = replace(shown.frozen, people=None)  # persons are those of all rows, not of the trial
    what = advice(counted)
    return Disclosure(
        (*_saved(apart, joined), *_hiding(joined, shown), *what.lines()),
        what.details,
        shown.together,
        shown.choices.hide_missing,
        dict(_looks(shown.frozen)),
        shown.frozen,
        shown,
    )


def _fewer(rows: pa.Table, unit: str | None = None) -> pa.Table:
    """Return rows from all over the table, or of persons from all over it, fewer if it is wide."""
    most = FEWER_CELLS // max(1, rows.num_columns)
    if rows.num_rows <= most:
        return rows
    if unit is None:
        return rows.take(np.linspace(0, rows.num_rows - 1, most).astype(np.int64))
    person, persons = _persons_in(rows, unit)
    wanted = np.linspace(0, persons - 1, max(1, persons * most // rows.num_rows)).astype(np.int64)
    return rows.take(np.flatnonzero(np.isin(person, wanted)))


def _unit_in(proposed: Mapping[str, str]) -> str | None:
    return next((name for name, do in proposed.items() if do == DOES[UNIT]), None)


def _persons_in(rows: pa.Table, unit: str) -> tuple[Ints, int]:
    """Return the number of each row's person, and how many persons there are."""
    coded = pc.dictionary_encode(rows.column(unit).combine_chunks(), null_encoding="encode")
    return coded.indices.to_numpy().astype(np.int64), len(coded.dictionary)


def _usable(rows: pa.Table, proposed: Mapping[str, str]) -> Mapping[str, str]:
    """Return what is proposed; a unit of which few rows were sampled each is left out."""
    unit = _unit_in(proposed)
    if unit is None or rows.num_rows >= ROWS_OF_A_PERSON * _persons_in(rows, unit)[1]:
        return proposed
    return {**proposed, unit: DOES[DROPPED]}


ROWS_OF_A_PERSON = 1.5
"""So many rows of a person are sampled on average, or the trial is one of rows."""
SHOWN = 0.5
"""The privacy at which a draft shows what copies look like."""


def _looks(frozen: Frozen) -> Iterator[tuple[str, str]]:
    """Yield what the copies of each column look like at the privacy SHOWN, or the next below."""
    reached = [each for each in outlooks(frozen) if each.privacy <= SHOWN]
    if not reached:
        return
    at = reached[-1]
    for name in frozen.schema.perturbed:
        kind = _kind(plain_type(frozen.source_types.field(name).type))
        if name in at.within:
            yield (
                name,
                f"{kind} with noise; at privacy {at.privacy:g} a value can be estimated to within "
                f"{at.in_words(name)}",
            )
    redrawn = 1 - retention(at.level.noise)
    for group in frozen.schema.categories:
        right = at.right["+".join(group)]
        for name in group:
            yield (
                name,
                f"the same values; at privacy {at.privacy:g} about {redrawn:.0%} of the cells are "
                f"redrawn, and a guess is right {right:.0%} of the time",
            )


def _kind(type_: pa.DataType) -> str:
    if pa.types.is_integer(type_):
        return "whole numbers"
    return {None: "numbers", DAYS: "dates"}.get(unit_of(type_), "times")


_TRIED = (DOES[PERTURBED], DOES[CATEGORY], DOES[UNIT], DOES[DERIVED])


@dataclass(frozen=True)
class _Trial:
    """Some rows, registered without a vault."""

    rows: pa.Table
    types: pa.Schema
    choices: Choices
    surveyor: Surveyor
    survey: Survey
    frozen: Frozen

    @classmethod
    def of(
        cls,
        rows: pa.Table,
        types: pa.Schema,
        proposed: Mapping[str, str],
        ranked: Sequence[str],
        relative: Relative,
        present: Mapping[str, str],
        follows: Mapping[str, str],
        sums: Mapping[str, tuple[str, int | None]],
    ) -> "_Trial":
        """Register rows as proposed; columns to be decided are left out."""
        chosen = {do: tuple(n for n in proposed if proposed[n] == do) for do in proposed.values()}
        return cls._with(
            rows,
            types,
            Choices(
                drop=tuple(n for n, do in proposed.items() if do not in _TRIED),
                unit=tuple(filter(None, [_unit_in(proposed)])),
                perturb=chosen.get("perturb", ()),
                categorical=chosen.get("category", ()),
                min_count=RARE,
                transform={name: RANK for name in ranked if proposed[name] == "perturb"},
                relative_to={n: base for n, base in relative.items() if proposed[n] == "perturb"},
                follows={n: other for n, other in follows.items() if proposed[n] == "derive"},
                sum_of={n: of for n, (of, _) in sums.items() if proposed[n] == "derive"},
                decimals={n: many for n, (_, many) in sums.items() if many is not None},
                present_if={n: other for n, other in present.items() if proposed[n] == "perturb"},
            ),
        )

    @classmethod
    def _with(cls, rows: pa.Table, types: pa.Schema, choices: Choices) -> "_Trial":
        schema = decide(types, choices)
        ids, sampler = position_ids(0, rows.num_rows), Sampler(schema, _SECRETS)
        scales = sampler.scales(sampler.of(ids, rows) if sampler.columns else None)
        surveyor = Surveyor(schema, scales, _SECRETS)
        places = np.arange(rows.num_rows)
        survey = surveyor.of(ids, rows, places)
        with collecting_warnings():  # registration repeats what is worth knowing
            frozen = freeze(surveyor, survey, types)
        return cls(rows, types, choices, surveyor, survey, frozen)

    def on(self, rows: pa.Table) -> "_Trial":
        """Return the trial of all of these rows, with what was chosen."""
        if rows.num_rows == self.rows.num_rows:
            return self
        return self._with(rows, self.types, self.choices)

    @property
    def together(self) -> tuple[tuple[str, ...], ...]:
        return self.choices.together

    def with_close_ones_together(self) -> "_Trial":
        """Return the trial with close categories refreshed as one, if no more rows are unique."""
        groups = list(self.surveyor.schema.categories)
        for pair in pairs_worth_joining(self.surveyor, self.survey, self.frozen):
            parts = [names for names in groups if {*names} & {*pair}]
            merged = tuple(n for n in self.types.names if any(n in names for names in parts))
            if self._alone(merged) <= sum(map(self._alone, parts)):
                groups = [*(names for names in groups if names not in parts), merged]
        together = tuple(names for names in groups if len(names) > 1)
        choices = replace(self.choices, together=together)
        return self._with(self.rows, self.types, choices) if together else self

    def _alone(self, names: Sequence[str]) -> int:
        """Return how many rows have a combination of values that no other row has."""
        counted = self.rows.group_by([*names]).aggregate([([], "count_all")])
        return int(pc.sum(pc.equal(counted["count_all"], 1)).as_py())

    def with_gaps_hidden(self) -> "_Trial":
        """Return the trial without visible gaps, if they alone prevent half of the privacy.

        Otherwise it stays as it is.
        """
        schema, gaps = self.frozen.schema, self.frozen.missing
        if schema.nested:  # those of numbers of persons in households cannot be hidden
            gaps = tuple(name for name in gaps if name not in schema.perturbed)
        if self.reaches_half or not gaps:
            return self
        choices = replace(self.choices, hide_missing=gaps)
        hidden = self._with(self.rows, self.types, choices)
        return hidden if hidden.reaches_half else self

    @property
    def reaches_half(self) -> bool:
        """Whether some level hides half of every column."""
        return self.frozen.hidden.level_of(HALF) is not None


_SECRETS = RowSecrets.of(lambda purpose: expand(KNOWN, purpose))


def _saved(apart: _Trial, joined: _Trial) -> Iterator[str]:
    """Yield what refreshing categories together saves."""
    before, after = (each.frozen.hidden.level_of(HALF) for each in (apart, joined))
    if before is not None and after is not None and after.noise < before.noise:
        groups = "; ".join(" and ".join(names) for names in joined.together)
        yield (
            f"refreshed together ({groups}): at privacy 0.5 a copy is worth "
            f"{worth(after.noise):.0%} of the rows for a mean instead of {worth(before.noise):.0%}"
        )


def _hiding(shown: _Trial, hidden: _Trial) -> Iterator[str]:
    """Yield why gaps are drafted as hidden."""
    if names := hidden.choices.hide_missing:
        highest = shown.frozen.hidden.highest
        yield (
            f"gaps are drafted as hidden in {len(names)} of the columns (hide_missing): were they "
            f"visible, the highest privacy would be {highest:g}"
        )
