"""A draft that is tried: some rows, registered without a vault, and what would raise the privacy.

If half of every column cannot be hidden, the draft hides gaps, or leaves columns out: that of which
least is hidden, or all of which no noise hides half, or the one that reveals most of it. Whichever
raises the highest privacy most goes first, until half is reached.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Ints
from cornerwave.choices import CATEGORY, DERIVED, DOES, DROPPED, PERTURBED, UNIT, Choices
from cornerwave.columns import Relative, decide
from cornerwave.errors import SourceError, collecting_warnings
from cornerwave.inspection._columns import RARE
from cornerwave.inspection._scales import RANK
from cornerwave.keyed import KEY_BYTES, expand
from cornerwave.levels import HALF, THOUSANDTHS
from cornerwave.noise import position_ids
from cornerwave.spine.freeze import freeze, pairs_worth_joining
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.rows import RowSecrets
from cornerwave.spine.survey import Sampler, Survey, Surveyor

KNOWN = bytes(KEY_BYTES)
"""Nothing is secret here: the key only makes the choice of rows repeatable."""
FEWER_CELLS = 1 << 17
"""So many cells are tried to see which categories to join, and what to hide or leave out."""
MOST_STEPS, MOST_LEFT_OUT = 4, 0.5
"""Half of the privacy is looked for in so many steps, leaving out this share of the columns."""
BETTER = 0.01
"""A step that raises the highest privacy by less is chance."""
ROWS_OF_A_PERSON = 1.5
"""So many rows of a person are sampled on average, or the trial is one of rows."""

_TRIED = (DOES[PERTURBED], DOES[CATEGORY], DOES[UNIT], DOES[DERIVED])


@dataclass(frozen=True)
class Trial:
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
        time: str | None = None,
    ) -> "Trial":
        """Register rows as proposed; columns to be decided are left out."""
        chosen = {do: tuple(n for n in proposed if proposed[n] == do) for do in proposed.values()}
        return cls._with(
            rows,
            types,
            Choices(
                drop=tuple(n for n, do in proposed.items() if do not in _TRIED),
                unit=tuple(filter(None, [unit_in(proposed)])),
                time=time if unit_in(proposed) else None,
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
    def _with(cls, rows: pa.Table, types: pa.Schema, choices: Choices) -> "Trial":
        schema = decide(types, choices)
        ids, sampler = position_ids(0, rows.num_rows), Sampler(schema, _SECRETS)
        scales = sampler.scales(sampler.of(ids, rows) if sampler.columns else None)
        surveyor = Surveyor(schema, scales, _SECRETS)
        places = np.arange(rows.num_rows)
        survey = surveyor.of(ids, rows, places)
        with collecting_warnings():  # registration repeats what is worth knowing
            frozen = freeze(surveyor, survey, types)
        return cls(rows, types, choices, surveyor, survey, frozen)

    def on(self, rows: pa.Table) -> "Trial":
        """Return the trial of all of these rows, with what was chosen."""
        if rows.num_rows == self.rows.num_rows:
            return self
        return self._with(rows, self.types, self.choices)

    @property
    def together(self) -> tuple[tuple[str, ...], ...]:
        return self.choices.together

    def with_close_ones_together(self) -> "Trial":
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

    def with_half_reached(self, *, linked: bool = False) -> "Trial":
        """Return the trial with gaps hidden and columns left out, so that half is reached.

        It stays as it is if that would take too much of it. In `linked` tables gaps of numbers
        cannot be hidden.
        """
        trial, least = self, MOST_LEFT_OUT * len(self._noisy)
        for _ in range(MOST_STEPS):
            if trial.reaches_half:
                return trial
            hiding = trial._hiding(linked=linked)
            if hiding is not None and hiding.reaches_half:
                return hiding
            tried = [hiding, *map(trial._tried, trial._leaving_out(least))]
            best = max(filter(None, tried), key=lambda each: each._reach, default=None)
            if best is None or best._reach < trial._reach + BETTER:
                return self
            trial = best
        return trial if trial.reaches_half else self

    def _hiding(self, *, linked: bool) -> "Trial | None":
        """Return the trial without visible gaps; None if there are none that can be hidden."""
        schema, hidden = self.frozen.schema, self.choices.hide_missing
        gaps = tuple(name for name in self.frozen.missing if name not in hidden)
        if linked or schema.nested:
            gaps = tuple(name for name in gaps if name not in schema.perturbed)
        if not gaps:
            return None
        return self._tried(replace(self.choices, hide_missing=(*hidden, *gaps)))

    def _leaving_out(self, least: float) -> Iterator[Choices]:
        """Yield the choices without some columns, so that there are at least so many."""
        hidden, noisy = self.frozen.hidden, self._noisy
        remedies = [each for each in hidden.remedies if each.action in ("drop", "hide")]
        best = max(remedies, key=lambda each: each.highest, default=None)
        below = [n for n, most in hidden.ceilings.items() if most < HALF / THOUSANDTHS]
        for names in (below or [hidden.worst], best.columns if best is not None else ()):
            some = {name for each in names for name in each.split("+")} & noisy
            if some and len(noisy - some) >= least:
                yield self._without(some)

    @property
    def _noisy(self) -> set[str]:
        schema = self.frozen.schema
        return {*schema.perturbed, *(name for names in schema.categories for name in names)}

    @property
    def _reach(self) -> float:
        """The highest privacy that can be had; beyond 1 if half can, the more the less it takes."""
        half = self.frozen.hidden.level_of(HALF)
        return self.frozen.hidden.highest if half is None else 1 + 1 / half.noise

    def _without(self, names: Collection[str]) -> Choices:
        """Return the choices without some columns, and without what refers to these."""
        chosen = self.choices
        # what copies compute from these is left out with them
        sources = {n: {of} for n, of in chosen.follows.items()}
        sources |= {n: {*parts} for n, parts in self.frozen.schema.totals.items()}
        names = {*names} | {n for n, of in sources.items() if of & {*names}}

        def less(columns: Sequence[str]) -> tuple[str, ...]:
            return tuple(name for name in columns if name not in names)

        def known(others: Mapping[str, str]) -> dict[str, str]:
            return {n: of for n, of in others.items() if not {n, of} & {*names}}

        return replace(
            chosen,
            drop=(*chosen.drop, *sorted(names)),
            perturb=less(chosen.perturb),
            categorical=less(chosen.categorical),
            hide_missing=less(chosen.hide_missing),
            together=tuple(few for each in chosen.together if len(few := less(each)) > 1),
            follows={n: of for n, of in chosen.follows.items() if n not in names},
            sum_of={n: of for n, of in chosen.sum_of.items() if n not in names},
            decimals={n: many for n, many in chosen.decimals.items() if n not in names},
            transform={n: how for n, how in chosen.transform.items() if n not in names},
            relative_to=known(chosen.relative_to),
            present_if=known(chosen.present_if),
        )

    def _tried(self, choices: Choices) -> "Trial | None":
        """Return the trial with other choices; None if these cannot be registered."""
        try:
            return self._with(self.rows, self.types, choices)
        except SourceError:
            return None

    @property
    def reaches_half(self) -> bool:
        """Whether some level hides half of every column."""
        return self.frozen.hidden.level_of(HALF) is not None


_SECRETS = RowSecrets.of(lambda purpose: expand(KNOWN, purpose))


def fewer(rows: pa.Table, unit: str | None = None) -> pa.Table:
    """Return rows from all over the table, or of persons from all over it, fewer if it is wide."""
    most = FEWER_CELLS // max(1, rows.num_columns)
    if rows.num_rows <= most:
        return rows
    if unit is None:
        return rows.take(np.linspace(0, rows.num_rows - 1, most).astype(np.int64))
    person, persons = _persons_in(rows, unit)
    wanted = np.linspace(0, persons - 1, max(1, persons * most // rows.num_rows)).astype(np.int64)
    return rows.take(np.flatnonzero(np.isin(person, wanted)))


def unit_in(proposed: Mapping[str, str]) -> str | None:
    return next((name for name, do in proposed.items() if do == DOES[UNIT]), None)


def _persons_in(rows: pa.Table, unit: str) -> tuple[Ints, int]:
    """Return the number of each row's person, and how many persons there are."""
    coded = pc.dictionary_encode(rows.column(unit).combine_chunks(), null_encoding="encode")
    return coded.indices.to_numpy().astype(np.int64), len(coded.dictionary)


def usable(rows: pa.Table, proposed: Mapping[str, str]) -> Mapping[str, str]:
    """Return what is proposed; a unit of which few rows were sampled each is left out."""
    unit = unit_in(proposed)
    if unit is None or rows.num_rows >= ROWS_OF_A_PERSON * _persons_in(rows, unit)[1]:
        return proposed
    return {**proposed, unit: DOES[DROPPED]}
