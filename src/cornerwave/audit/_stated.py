"""What copies state in their metadata, which an audit checks and does not trust."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.choices import CATEGORY, DERIVED, KEPT, KEY
from cornerwave.columns import SameSpread, is_category
from cornerwave.errors import LevelError, SourceError
from cornerwave.levels import Level
from cornerwave.outputs import metadata_of, stating
from cornerwave.sources import Source, open_source
from cornerwave.spec import ColumnMetadata, CopyMetadata


@dataclass(frozen=True)
class Stated:
    """The metadata of some copies, empty for one without any, and the privacy of each if given."""

    copies: tuple[CopyMetadata, ...]
    given: tuple[float, ...] | None = None

    @classmethod
    def of(cls, copies: Sequence[Source], privacy: Sequence[float] | None = None) -> "Stated":
        """Read the metadata of each copy; `privacy` replaces what it states, if given.

        Raises SourceError if metadata is damaged, LevelError if this privacy does not fit.
        """
        if privacy is not None and len(privacy) != len(copies):
            raise LevelError(
                f"got {len(privacy)} privacies for {len(copies)} copies; "
                "give one for each copy, in the order of the copies"
            )
        # what an auditor gives replaces what all copies state
        given = None if privacy is None else tuple(Level.of(privacy=p).privacy for p in privacy)
        read = tuple(_metadata_of(copy) for copy in copies)
        editions = sorted({each.edition for each in read if each.edition is not None})
        if len(editions) > 1:
            raise SourceError(
                f"these are copies of editions {', '.join(map(str, editions))} of a table that "
                "changed: audit those of one edition at a time, against the table of that edition"
            )
        return cls(read, given)

    @property
    def noise(self) -> tuple[float | None, ...]:
        """The noise that each copy states."""
        return tuple(None if each.noise is None else float(each.noise) for each in self.copies)

    @property
    def silent(self) -> tuple[bool, ...]:
        """Whether each copy states nothing of how its numbers were made."""
        return tuple(not each.columns for each in self.copies)

    @property
    def privacy(self) -> tuple[float | None, ...]:
        """The share of each number that each copy states to hide, by its privacy or its noise."""
        if self.given is not None:
            return self.given
        return tuple(map(_privacy_of, self.copies))

    @property
    def whole(self) -> tuple[float | None, ...]:
        """The share of every column that each copy states to hide from everything in it."""
        stated = [each.privacy for each in self.copies]
        return self.given or tuple(None if p is None else float(p) for p in stated)

    @property
    def units(self) -> list[str]:
        """The columns that name what rows belong to, the outer one first."""
        outer = next((each.outer_unit for each in self.copies if each.outer_unit), None)
        return [name for name in (outer, self.unit) if name is not None]

    @property
    def unit(self) -> str | None:
        """The column of the source whose values rows of one person share, if a copy states it."""
        return next((each.unit for each in self.copies if each.unit), None)

    @property
    def time(self) -> str | None:
        """The column of the source that states when a person's rows were, if noise follows it."""
        return next((each.time for each in self.copies if each.time), None)

    def promised(self, copy: int, names: Sequence[str]) -> float | None:
        """Return the share of a column, or of columns refreshed together, that a copy states to
        hide from everything in it. Noise alone states nothing about that.
        """
        about = self.column(copy, names[0])
        if self.given is not None:
            return self.given[copy]
        if about.role in (KEPT, KEY):
            return None
        return self.whole[copy] if about.hidden is None else float(about.hidden)

    def each(self, name: str) -> list[ColumnMetadata]:
        """Return what each copy that states something about a column states."""
        return [copy.columns[name] for copy in self.copies if name in copy.columns]

    def roles(self, name: str) -> set[str | None]:
        """Return the roles that copies state for a column."""
        return {about.role for about in self.each(name)}

    def column(self, copy: int, name: str) -> ColumnMetadata:
        """Return what a copy states about a column."""
        return self.copies[copy].column(name)

    def is_pseudonym(self, copy: int, name: str) -> bool:
        """Whether a copy states that a column holds pseudonyms of the source's keys."""
        return bool(self.column(copy, name).pseudonym)

    def derived(self, shared: Sequence[str]) -> dict[str, str]:
        """Return the columns that all copies state to follow from another one, and from which."""
        derived = {}
        for name in shared:
            sources = {about.follows for about in self.each(name) if about.role == DERIVED}
            source = sources.pop() if len(sources) == 1 else None
            if self.roles(name) == {DERIVED} and source is not None and source in shared:
                derived[name] = source
        return derived

    def totals(self, shared: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the columns that all copies state to be the sum of others, and of which."""
        totals = {}
        for name in shared:
            sums = {about.sum_of for about in self.each(name)}
            parts = sums.pop() if len(sums) == 1 else None
            if self.roles(name) == {DERIVED} and parts and {*parts} <= {*shared}:
                totals[name] = parts
        return totals

    def relative(self, names: Sequence[str]) -> dict[str, str]:
        """Return the columns that copies state to be relative to another one, and to which.

        Raises SourceError where copies do not state the same.
        """
        relative = {}
        for name in names:
            bases = {about.relative_to for about in self.each(name)}
            if len(bases) > 1:
                raise SourceError(
                    f"copies do not agree on whether {name!r} is relative to another column: they "
                    "are not copies of one dataset"
                )
            if base := next(iter(bases), None):
                relative[name] = base
        return relative

    def excess(self, names: Sequence[str]) -> Floats:
        """Return by how much the noise of numbers exceeds their covariance, as stated, (N, N)."""
        stated = [next((a.excess for a in self.each(name) if a.excess), {}) for name in names]
        rows = [[excess.get(name, 0.0) for name in names] for excess in stated]
        return np.array(rows, dtype=np.float64)

    def logarithmic(self, name: str) -> bool:
        """Whether a column was perturbed on the scale log(1+x)."""
        return any(about.transform == "log1p" for about in self.each(name))

    def spread(self, copy: int, name: str) -> SameSpread | None:
        """Return how a copy states that it drew a number together, if it did."""
        return self.column(copy, name).spread

    def lowest_logarithm(self, name: str) -> float:
        """Return where a value of -1 lies on the scale log(1+x): below all that copies can show.

        Doubles end there at log(2^-53), a column rounded to a step at half of it.
        """
        steps = [about.rounded for about in self.each(name) if about.rounded]
        # there 1 + x lies between 0 and half a step: its middle
        return math.log(min(steps) / 4) if steps else -53 * math.log(2)

    def on_ranks(self, name: str) -> bool:
        """Whether a column was perturbed on the scale of its ranks."""
        return any(about.transform == "rank" for about in self.each(name))

    def is_clipped(self, name: str) -> bool:
        """Whether a column was clipped to a range."""
        return any(about.clipped for about in self.each(name))

    def apart(self, name: str) -> str | None:
        """Return why a column is judged by itself, if it is; the copies' noise must be stated."""
        if None in self.noise:
            return None
        if self.on_ranks(name):
            return "perturbed on the scale of its ranks"
        return "clipped" if self.is_clipped(name) else None

    def not_comparable(self, name: str) -> str | None:
        """Return why copy minus source is not the noise of a column, if it is not."""
        if self.on_ranks(name):
            return f"{name} was perturbed on the scale of its ranks, and a copy states no noise"
        if self.is_clipped(name):
            return f"{name} was clipped, which truncates its noise"
        return None

    def categories(self, shared: Sequence[str], tables: Sequence[Source]) -> list[tuple[str, ...]]:
        """Return the categories among shared columns, by the source's type or as a copy states.

        Text in the source is a category, whatever a copy states. Columns that were
        refreshed together are one category.
        """
        groups: dict[tuple[str, ...], None] = {}
        for name in shared:
            typed = is_category(tables[0].schema.field(name).type)
            if typed or CATEGORY in self.roles(name):
                groups[self._together(name, shared)] = None
        return list(groups)

    def _together(self, name: str, shared: Sequence[str]) -> tuple[str, ...]:
        for about in self.each(name):
            group = about.together or ()
            if name in group and all(part in shared for part in group):
                return tuple(dict.fromkeys(group))
        return (name,)


def _privacy_of(copy: CopyMetadata) -> float | None:
    if copy.privacy is not None and 0 < copy.privacy < 1:
        return float(copy.privacy)
    # p = v / (1 + v)
    return None if copy.noise is None else copy.noise / (1 + copy.noise)


def _metadata_of(copy: Source) -> CopyMetadata:
    """Return what a copy states; its columns by the names that they have here."""
    stated = metadata_of(copy) or CopyMetadata()
    names = _names(stated, copy.schema.names)
    columns = {
        names.get(name, name): replace(
            about,
            together=tuple(names.get(n, n) for n in about.together or ()) or None,
            follows=about.follows and names.get(about.follows, about.follows),
            sum_of=tuple(names.get(n, n) for n in about.sum_of or ()) or None,
            present_if=about.present_if and names.get(about.present_if, about.present_if),
            relative_to=about.relative_to and names.get(about.relative_to, about.relative_to),
        )
        for name, about in stated.columns.items()
    }
    return replace(stated, columns=columns) if names else stated


def with_metadata(
    copies: Sequence[Any], metadata: Sequence[Mapping[str, object] | None] | None
) -> list[Source]:
    """Open copies, and let frames state what is given beside them. Raises SourceError."""
    opened = [open_source(copy) for copy in copies]
    if metadata is None:
        return opened
    if len(metadata) != len(copies):
        raise SourceError(
            f"got metadata of {len(metadata)} copies for {len(copies)}; give it for each copy, in "
            "their order, None for a file"
        )
    return [
        copy if about is None else _stating(copy, about)
        for copy, about in zip(opened, metadata, strict=True)
    ]


def _stating(copy: Source, about: Mapping[str, object]) -> Source:
    if copy.path is not None:
        raise SourceError(f"{copy.name} states how it was made; give None as its metadata")
    schema = stating(copy.schema, CopyMetadata.read(about, copy.name))
    return replace(copy, schema=schema)


def by_source_names(copy: Source, truth: Sequence[str]) -> Source:
    """Return a copy whose columns are called as in the source, where it states other names."""
    names = _names(metadata_of(copy) or CopyMetadata(), truth)
    names = {here: name for here, name in names.items() if here not in truth}
    back = {name: here for here, name in names.items()}
    if not names or len(back) < len(names) or back.keys() & set(copy.schema.names):
        return copy

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in copy.open([back.get(name, name) for name in columns]):
            yield batch.rename_columns(list(columns))

    fields = [part.with_name(names.get(part.name, part.name)) for part in copy.schema]
    return replace(copy, schema=pa.schema(fields, copy.schema.metadata), open=read)


def _names(stated: CopyMetadata, known: Sequence[str]) -> dict[str, str]:
    """Return the names in the source, of those known, that renamed columns state."""
    sources = {name: about.source for name, about in stated.columns.items()}
    return {name: source for name, source in sources.items() if source and source in known}
