"""Which columns reveal which, measured as at registration, in a trial on sampled rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Words
from cornerwave.columns import (
    DAYS,
    Relative,
    distances_in,
    is_category,
    is_number,
    listed,
    plain_type,
    unit_of,
    value_type,
)
from cornerwave.errors import SourceError
from cornerwave.inspection._scales import can_be_ranked
from cornerwave.inspection._trial import KNOWN, Trial, fewer, unit_in, usable
from cornerwave.levels import HALF, retention, worth
from cornerwave.noise import position_ids
from cornerwave.outlook import advice, outlooks
from cornerwave.reuse import TableMarks
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.sample import row_hashes
from cornerwave.spine.survey import JOINT_ROWS

MOST_CELLS = 1 << 23
"""A sample has fewer rows if the table is wide: 64 MB of numbers."""


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
    column's copies will look like; `left_out` are the columns without which privacy 0.5 can be
    had; `frozen` is what was fixed.
    """

    sentences: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    hide_missing: tuple[str, ...] = ()
    looks: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    frozen: Frozen | None = field(default=None, repr=False, compare=False)
    trial: Trial | None = field(default=None, repr=False, compare=False)

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
    time: str | None = None,
    *,
    linked: bool = False,
) -> Disclosure:
    """Register some rows for trial, with what a draft proposes for each column.

    Numbers that are `ranked` are perturbed on their ranks, those `relative` to others as distances;
    they are `present` if a category lets them. Columns that others decide `follows` these,
    `sums` are of others, with so many decimals. In `linked` tables gaps of numbers stay visible.
    """
    if not any(do in ("perturb", "category") for do in proposed.values()):
        return Disclosure()
    try:
        proposed = usable(rows, proposed)
        few = fewer(rows, unit_in(proposed))
        relative = relative or {}
        scored = dict(zip(ranked, distances_in(few, ranked, relative), strict=True))
        ranked = [n for n, x in scored.items() if can_be_ranked(pa.chunked_array([x]), n)]
        given = (relative, present or {}, follows or {}, sums or {})
        apart = Trial.of(few, types, proposed, ranked, *given, time=time)
        joined = apart.with_close_ones_together()
        found = joined.with_half_reached(linked=linked)
        shown = found.on(rows)
        if found.reaches_half and not shown.reaches_half:  # chance of the few
            shown = shown.with_half_reached(linked=linked)
    except SourceError as error:
        return Disclosure((f"registering this draft would be refused: {error}",))
    counted = replace(shown.frozen, people=None)  # persons are those of all rows, not of the trial
    what = advice(counted)
    return Disclosure(
        (*_saved(apart, joined), *_reaching(joined, shown), *what.lines()),
        what.details,
        shown.together,
        shown.choices.hide_missing,
        dict(_looks(shown.frozen)),
        tuple(name for name in shown.choices.drop if name not in joined.choices.drop),
        shown.frozen,
        shown,
    )


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


def _saved(apart: Trial, joined: Trial) -> Iterator[str]:
    """Yield what refreshing categories together saves."""
    before, after = (each.frozen.hidden.level_of(HALF) for each in (apart, joined))
    if before is not None and after is not None and after.noise < before.noise:
        groups = "; ".join(" and ".join(names) for names in joined.together)
        yield (
            f"refreshed together ({groups}): at privacy 0.5 a copy is worth "
            f"{worth(after.noise):.0%} of the rows for a mean instead of {worth(before.noise):.0%}"
        )


def _reaching(before: Trial, after: Trial) -> Iterator[str]:
    """Yield why gaps are drafted as hidden, and why columns are left out."""
    highest = before.frozen.hidden.highest
    if names := after.choices.hide_missing:
        yield (
            f"gaps are drafted as hidden in {len(names)} of the columns (hide_missing): were they "
            f"visible, the highest privacy would be {highest:g}"
        )
    if left_out := [name for name in after.choices.drop if name not in before.choices.drop]:
        of, it = before.frozen.hidden.worst, "it" if len(left_out) == 1 else "them"
        yield (
            f"{listed(left_out)} drafted to be left out: with {it} the highest privacy would be "
            f"{highest:g}, as no more of {of!r} can be hidden"
        )
