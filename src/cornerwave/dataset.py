"""A registered table, and the copies of it.

release   the level's place in the ledger, and with it the whole copy, not yet made
make      one pass over the source, by the spine; nothing is seen of a copy that is refused
confirm   the ledger says who holds it; then the copy appears
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa

from cornerwave.coalition import Coalition, Law
from cornerwave.errors import (
    LevelError,
    NoSuchRecipient,
    OutputError,
    SourceChanged,
    SourceError,
    VaultError,
    discreet,
)
from cornerwave.frozen import Frozen
from cornerwave.levels import Level
from cornerwave.release import Order, Wanted, make_copies
from cornerwave.table import (
    CopyFile,
    Finish,
    Progress,
    Source,
    check_output,
    names_of,
    open_source,
    plain_schema,
    silent,
)
from cornerwave.vault.key import Key
from cornerwave.vault.ledger import Entry, Holding, Ledger


class Dataset:
    """A registered table, and the copies of it."""

    def __init__(
        self, entry: Entry, ledger: Ledger, key: Key, source: Source | None = None
    ) -> None:
        self.name = entry.name
        self.id = entry.id
        self.registered_at = entry.registered_at
        self._entry = entry
        self._ledger = ledger
        self._key = key
        self._source = source

    @cached_property
    def frozen(self) -> Frozen:
        """What registration fixed: columns, moments, grid."""
        return Frozen.from_json(self._entry.frozen)

    @property
    def noise(self) -> tuple[float, ...]:
        """All levels that were ever released, in the order of their first release."""
        return self._ledger.noise(self.id)

    @property
    def holdings(self) -> list[Holding]:
        """Who holds which level since when, least noise first."""
        return self._ledger.holdings(self.id)

    @property
    def source(self) -> Source:
        """The registered table. Raises SourceError if it is not where it was."""
        if self._source is None:
            if self._entry.source is None:
                raise SourceError(
                    f"{self.name!r} was registered from a frame in memory; give it again: "
                    "vault.dataset(name, source=frame), or --source FILE"
                )
            self._source = reopen(self._entry.source, self._entry)
        return self._source

    def _source_places(self) -> list[Path]:
        """Return where the table lies, and where it lay at registration."""
        known = (self._entry.source, self._source and self._source.path)
        return [Path(place).resolve() for place in known if place]

    def release(
        self,
        *,
        to: str,
        privacy: float | None = None,
        noise: float | None = None,
        round: Iterable[str] = (),
        clip: Mapping[str, tuple[float | None, float | None]] | None = None,
    ) -> "Release":
        """Release a copy to a recipient, at exactly one of `privacy` and `noise`.

        After the noise, columns in `round` get the source's type back, and those in
        `clip` are kept between two bounds.

        The level gets its place in the ledger at once; what is returned makes the copy,
        as often as it is asked to, and always the same one. Before anybody can see it,
        the ledger says who holds it.
        """
        level = Level.of(noise=noise, privacy=privacy)
        [release] = self.release_many(
            {to: level}, finish=Finish(frozenset(names_of(round)), clip or {})
        )
        return release

    def release_many(
        self,
        levels: Mapping[str, Level] | Sequence[tuple[str, Level]],
        *,
        finish: Finish | None = None,
    ) -> list["Release"]:
        """Release copies to several recipients; `write_all` makes them in one pass.

        `levels` maps recipients to levels, or lists (recipient, level) pairs.
        """
        finish = finish or Finish()
        finish.check(self.frozen.schema)
        pairs = list(levels.items() if isinstance(levels, Mapping) else levels)
        if not pairs:
            raise LevelError("no copy was asked for: name a recipient and a level")
        for recipient, _ in pairs:
            check_name(recipient, what="a recipient's name")
        noise = self._ledger.reserve(self.id, [level for _, level in pairs])
        return [Release(self, recipient, level, finish, noise) for recipient, level in pairs]

    def coalition(self, recipients: Sequence[str]) -> Coalition:
        """Say what these recipients can recover together. Raises NoSuchRecipient."""
        holdings = self.holdings
        known = {holding.recipient for holding in holdings}
        if not recipients:
            raise NoSuchRecipient("name at least one recipient")
        if unknown := sorted(set(recipients) - known):
            have = f"it has {', '.join(sorted(known))}" if known else "it was released to nobody"
            raise NoSuchRecipient(f"{self.name!r} was not released to {unknown[0]!r}; {have}")
        members = [
            (holding.recipient, holding.level)
            for holding in holdings
            if holding.recipient in recipients
        ]
        laws = {
            "+".join(categories.columns): Law(categories.counts, categories.base)
            for categories in self.frozen.categories
        }
        return Coalition.of(members, laws)

    def __repr__(self) -> str:
        return f"Dataset({self.name!r})"


@dataclass(frozen=True)
class Release:
    """One copy for one recipient: it writes to a file, yields batches, or becomes a frame."""

    dataset: Dataset
    recipient: str
    level: Level
    finish: Finish
    noise: tuple[float, ...] = field(repr=False)

    def write(
        self,
        path: str | Path,
        *,
        force: bool = False,
        threads: int | None = None,
        progress: Progress = silent,
    ) -> Path:
        """Write the copy to a file; its ending (csv, csv.gz, parquet, arrow) says how.

        Raises OutputExists unless `force`, SourceChanged if the table is not the
        registered one; then nothing appears.
        """
        [written] = write_all([(self, path)], force=force, threads=threads, progress=progress)
        return written

    def to_arrow(self) -> pa.Table:
        """Return the whole copy as an Arrow table."""
        sink = _Collected()
        with _releasing([self]):
            _make([self], [sink])
            _confirm([self])
        copy = pa.concat_tables(sink.groups)
        return copy.cast(plain_schema(copy.schema))

    def to_frame(self) -> Any:
        """Return the copy as the kind of frame that was registered; as Arrow for a file."""
        kind: Any = self.dataset.source.frame_kind or nw.Implementation.PYARROW
        return nw.from_arrow(self.to_arrow(), backend=kind).to_native()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the copy as Arrow batches, in little memory.

        The whole copy is made and checked in a hidden file first: nobody sees a row
        of a copy that would have been refused.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = self.write(Path(folder) / "copy.arrow")
            with pa.memory_map(str(path)) as file:
                reader = pa.ipc.open_file(file)
                for index in range(reader.num_record_batches):
                    yield reader.get_batch(index)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Hand the copy to any library that speaks Arrow."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def write_all(
    copies: Sequence[tuple[Release, str | Path]],
    *,
    force: bool = False,
    threads: int | None = None,
    progress: Progress = silent,
) -> list[Path]:
    """Write several releases of one dataset to files, in one pass over its source."""
    if not copies:
        return []
    releases = [release for release, _ in copies]
    paths = [Path(path).absolute() for _, path in copies]
    with _releasing(releases):
        _check_places(releases[0].dataset, paths)
        for path in paths:
            check_output(path, force=force)
        order = _order(releases)
        with ExitStack() as hidden:
            files = []
            for path, wanted in zip(paths, order.wanted, strict=True):
                files.append(CopyFile(path, order.copy_schema(wanted), order.metadata(wanted)))
                hidden.callback(files[-1].discard)
            _make(releases, files, threads=threads, progress=progress)
            for file in files:
                file.finish()
            _confirm(releases)
            for file in files:
                file.publish()
    return paths


def _check_places(dataset: Dataset, paths: Sequence[Path]) -> None:
    """Raise OutputError if two copies would meet in one file, or one in the source."""
    places = {path.resolve() for path in paths}
    if len(places) < len(paths):
        raise OutputError("two copies are to be written to one file; name a file for each")
    for source in dataset._source_places():
        for place in places:
            if source in (place, *place.parents):
                raise OutputError(
                    f"{place} is (part of) the registered table itself; write the copy elsewhere"
                )


@contextmanager
def _releasing(releases: Sequence[Release]) -> Iterator[None]:
    """Leave no trace in the ledger of a release that is refused."""
    if len({release.dataset.id for release in releases}) > 1:
        raise OutputError("copies are made in one pass over one dataset; write the others apart")
    try:
        with discreet():
            yield
    except Exception:
        dataset = releases[0].dataset
        dataset._ledger.take_back(dataset.id, [release.level for release in releases])
        raise


def _confirm(releases: Sequence[Release]) -> None:
    dataset = releases[0].dataset
    copies = [(release.recipient, release.level) for release in releases]
    dataset._ledger.confirm(dataset.id, _joint_noise(releases), copies)


def _joint_noise(releases: Sequence[Release]) -> tuple[float, ...]:
    """Return the order of levels that covers all releases: each has a beginning of it."""
    longest = max((release.noise for release in releases), key=len)
    if any(longest[: len(release.noise)] != release.noise for release in releases):
        raise VaultError("the order of levels has changed meanwhile; release once more")
    return longest


class _Collected:
    """A sink in memory."""

    def __init__(self) -> None:
        self.groups: list[pa.Table] = []

    def write(self, group: pa.Table) -> None:
        self.groups.append(group)


def _make(
    releases: Sequence[Release],
    sinks: Sequence[Any],
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> None:
    dataset = releases[0].dataset
    make_copies(
        dataset.source,
        _order(releases),
        sinks,
        key=dataset._key,
        threads=threads,
        progress=progress,
    )


def _order(releases: Sequence[Release]) -> Order:
    first = releases[0]
    return Order(
        dataset=first.dataset.id,
        frozen=first.dataset.frozen,
        noise=_joint_noise(releases),
        wanted=tuple(Wanted(release.level, release.finish) for release in releases),
    )


def reopen(source: Any, entry: Entry) -> Source:
    """Open the table of a dataset again. Raises SourceError or SourceChanged."""
    frozen = Frozen.from_json(entry.frozen)
    types = {column.name: column.type for column in frozen.source_types}
    try:
        opened = open_source(source, types)
    except SourceError as error:
        raise SourceError(f"the table of {entry.name!r} cannot be read: {error}") from None
    if missing := [name for name in frozen.schema.used if name not in opened.schema.names]:
        raise SourceChanged(
            f"not the table that was registered: column {missing[0]!r} is gone. Restore the table"
        )
    return opened


def check_name(name: str, *, what: str) -> None:
    """Raise VaultError unless a name can stand in the ledger and in a line."""
    if not name or len(name) > 255 or not name.isprintable() or name.strip() != name:
        raise VaultError(f"{what} is 1 to 255 printable characters without space at its ends")
