"""A copy for a recipient: made whole, recorded, then shown.

make      one pass over the source, by the recipe; nothing shows of a copy that is refused
hold      the ledger states who holds it, and all that made its bytes; then the copy appears
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from cornerwave.editions import Portion
from cornerwave.engines.local import make_copies
from cornerwave.errors import OutputError, SourceError, discreet
from cornerwave.kinds import JsonObject
from cornerwave.ledger import NO_TERMS, Records, Terms
from cornerwave.levels import Level
from cornerwave.outputs import (
    Destination,
    RowDestination,
    copy_at,
    folder_at,
    plain_schema,
    stating,
)
from cornerwave.sources import (
    METADATA_KEY,
    Place,
    Progress,
    Source,
    holds,
    place_of,
    resolved,
    silent,
)
from cornerwave.spec import CopyMetadata, CopySpec
from cornerwave.spine.recipe import Recipe
from cornerwave.vault._second_person import Wanted, use_approvals

if TYPE_CHECKING:
    from cornerwave.vault._dataset import Dataset

FRAME = "frame"
"""The format of a copy that was handed over in memory."""


@dataclass(frozen=True)
class Release:
    """One copy for one recipient: it writes to a file, yields batches, or becomes a frame."""

    dataset: "Dataset"
    recipient: str
    spec: CopySpec
    rows: Portion
    """The edition, or the batch, whose rows the copy shows."""
    terms: Terms = NO_TERMS
    """What the recipient has it for, by which contract, and until when."""

    @property
    def level(self) -> Level:
        """The level of its noise."""
        return self.spec.level

    @property
    def privacy(self) -> float:
        """The share of the variance of every column that the whole copy hides."""
        return self.dataset.privacy_of(self.level)

    def write(
        self,
        path: str | Place,
        *,
        force: bool = False,
        threads: int | None = None,
        progress: Progress = silent,
    ) -> Place:
        """Write the copy to a file; its ending (csv, csv.gz, parquet, arrow, xlsx, dta, sav)
        decides how.

        A file has a path, or an address in a store such as s3://BUCKET/FILE.

        Raises OutputExists unless `force`, SourceChanged if the table is not the
        registered one; then nothing appears.
        """
        [written] = write_all([(self, path)], force=force, threads=threads, progress=progress)
        return written

    def write_spark(self, path: str | Place, *, spark: Any = None, force: bool = False) -> Place:
        """Write the copy to a new directory of Parquet files, on the cluster of a Spark session.

        All machines see the directory, or it is a folder in a store, s3://BUCKET/FOLDER.

        A dataset of a Spark frame brings its session; for Parquet that all machines of the
        cluster see, give one as `spark`. Raises OutputExists unless `force`, SourceChanged if
        the table is not the registered one; then nothing appears.
        """
        [written] = write_all_spark([(self, path)], spark=spark, force=force)
        return written

    def make(self, path: Path, *, progress: Progress = silent) -> None:
        """Write the copy to a new file that nobody else may see: nothing is recorded.

        Before a byte of it leaves, `hold` must have recorded who gets it.
        """
        make_all([(self, path)], progress=progress)

    def written_as(self, format_: str) -> CopySpec:
        """Return all that makes the copy's bytes in a format, apart from its dataset."""
        return replace(self.spec, format=format_)

    def hold(self, format_: str) -> None:
        """Record that the recipient is about to hold the copy in this format."""
        _hold([self], [format_])

    @property
    def metadata(self) -> JsonObject:
        """What the copy states about itself, for frames that cannot hold it, such as polars'."""
        return _metadata(_recipe([self]), self).to_json()

    def to_arrow(self) -> pa.Table:
        """Return the whole copy as an Arrow table, whose schema states how it was made."""
        check_approved([self])
        with discreet():
            recipe, collected = _recipe([self]), _Collected()
            self.dataset.other_rows.add(recipe, self.rows)
            make_copies(self.dataset.parts.of(self.rows), recipe, [collected])
            self.dataset.remember_source()
            _hold([self], [FRAME])
        copy = pa.concat_tables(collected.groups)
        return copy.cast(stating(plain_schema(copy.schema), _metadata(recipe, self)))

    def to_frame(self) -> Any:
        """Return the copy as the kind of frame that was registered; as Arrow for a file.

        The attributes of a pandas frame state how it was made. Other frames cannot: who opens or
        audits one is given `metadata` beside it.
        """
        import narwhals as nw

        kind: Any = self.dataset.source.frame_kind or nw.Implementation.PYARROW
        table = self.to_arrow()
        frame = nw.from_arrow(table, backend=kind).to_native()
        if kind is nw.Implementation.PANDAS:
            frame.attrs[METADATA_KEY.decode()] = table.schema.metadata[METADATA_KEY].decode()
        return frame

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the copy as Arrow batches, in little memory.

        The whole copy is made and checked in a hidden file first: nobody sees a row
        of a copy that would have been refused.
        """
        with self.dataset.work_folder() as folder:
            path = self.write(folder / "copy.arrow")
            with pa.OSFile(str(path)) as file:
                reader = pa.ipc.open_file(file)
                for index in range(reader.num_record_batches):
                    yield reader.get_batch(index)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Hand the copy to any library that speaks Arrow."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def write_all(
    copies: Sequence[tuple[Release, str | Place]],
    *,
    force: bool = False,
    threads: int | None = None,
    progress: Progress = silent,
) -> list[Place]:
    """Write several releases of one dataset to files, in one pass over its source."""
    make = partial(make_copies, threads=threads, progress=progress)
    return _write_copies(copies, copy_at, make, force=force)


def make_all(copies: Sequence[tuple[Release, Path]], *, progress: Progress = silent) -> None:
    """Write copies to files that nobody but the owner may see: nothing is recorded."""
    _write_copies(copies, copy_at, partial(make_copies, progress=progress), recorded=False)


def write_all_spark(
    copies: Sequence[tuple[Release, str | Place]],
    *,
    spark: Any = None,
    force: bool = False,
    progress: Progress = silent,
) -> list[Place]:
    """Write several releases of one dataset to directories, in one pass over its source.

    The cluster is that of the dataset's frame, or that of the session given as `spark`.
    """
    from cornerwave.engines.spark import copies_on_spark  # few owners need it

    make = partial(copies_on_spark, spark=spark, progress=progress)
    return _write_copies(copies, folder_at, make, force=force)


Kind = TypeVar("Kind", bound=Destination)


def _write_copies(
    copies: Sequence[tuple[Release, str | Place]],
    kind: Callable[..., Kind],
    make: Callable[[Source, Recipe, Sequence[Kind]], None],
    *,
    force: bool = False,
    recorded: bool = True,
) -> list[Place]:
    """Write copies, each to a destination of this kind, whole or not at all.

    `make` fills the destinations, and raises SourceChanged if the table is not the registered one.
    Unless `recorded`, nobody else may see the copies.
    """
    if not copies:
        return []
    if recorded:
        check_approved([release for release, _ in copies])
    with discreet(), _made(copies, kind, make, force=force) as destinations:
        if recorded:
            _hold([release for release, _ in copies], [each.format for each in destinations])
        for each in destinations:
            each.publish()
        return [each.place for each in destinations]


@contextmanager
def _made(
    copies: Sequence[tuple[Release, str | Place]],
    kind: Callable[..., Kind],
    make: Callable[[Source, Recipe, Sequence[Kind]], None],
    *,
    force: bool,
) -> Iterator[list[Kind]]:
    """Give copies that are finished and not yet visible; what is not published is discarded."""
    releases, places = [release for release, _ in copies], [_output(place) for _, place in copies]
    dataset = releases[0].dataset
    with ExitStack() as hidden:
        recipe = _recipe(releases)
        check_places(dataset, places)
        destinations = [
            kind(place, recipe.schema(wanted), _metadata(recipe, release), force=force)
            for place, wanted, release in zip(places, recipe.wanted, releases, strict=True)
        ]
        for each in destinations:
            each.check()
        for each in destinations:
            hidden.enter_context(each)
        dataset.other_rows.add(recipe, releases[0].rows)
        make(dataset.parts.of(releases[0].rows), recipe, destinations)
        dataset.remember_source()
        for each in destinations:
            each.finish()
        yield destinations


def made_at(
    release: Release,
    place: Place,
    kind: Callable[..., RowDestination],
    *,
    force: bool = False,
    progress: Progress = silent,
) -> AbstractContextManager[list[RowDestination]]:
    """Give a copy that is finished at a place of some kind; the caller records and shows it."""
    make = partial(make_copies, progress=progress)
    return _made([(release, place)], kind, make, force=force)


def _output(path: str | Place) -> Place:
    try:
        return place_of(path)
    except SourceError as error:
        raise OutputError(str(error)) from None


def check_places(dataset: "Dataset", paths: Sequence[Place]) -> None:
    """Raise OutputError if two copies would meet in one place, or one in the source."""
    places = {resolved(path) for path in paths}
    if len(places) < len(paths):
        raise OutputError("two copies would be written to one file; name a file for each")
    for source in dataset.parts.places():
        for place in places:
            if holds(source, place):
                raise OutputError(
                    f"{place} is (part of) the registered table itself; write the copy elsewhere"
                )


def _metadata(recipe: Recipe, release: Release) -> CopyMetadata:
    stated = recipe.metadata(release.spec)
    if release.spec.dictionary:
        from cornerwave.dictionary import described  # not on import: few commands need its rooms

        stated = described(stated)
    return stated


def _recipe(releases: Sequence[Release]) -> Recipe:
    if len({release.dataset.id for release in releases}) > 1:
        raise OutputError("one pass makes copies of one dataset; write the others separately")
    if len({release.rows for release in releases}) > 1:
        raise OutputError("one pass makes copies of one edition; write the others separately")
    return releases[0].dataset.recipe([each.spec for each in releases], releases[0].rows)


def check_approved(releases: Iterable[Release]) -> None:
    """Raise ApprovalNeeded for copies that wait for a second person, before they are made."""
    known = list(releases)
    if (wanted := _wanted(known)) is not None:
        known[0].dataset.check_wanted(wanted)


def permit_for(releases: Iterable[Release]) -> Callable[[Records], None]:
    """Return what looks at the approvals of copies in the transaction that records them."""
    return partial(use_approvals, copies=_wanted(list(releases)))


def _wanted(releases: Sequence[Release]) -> list[Wanted] | None:
    """Return the copies that recipients do not hold yet; None if nothing needs an approval."""
    if releases[0].dataset.second_person_below is None:
        return None
    found = (each.dataset.wanted(each.recipient, each.spec) for each in releases)
    return [each for each in found if each is not None]


def _hold(releases: Sequence[Release], formats: Sequence[str]) -> None:
    """Write down who is about to hold what, with all that makes its bytes."""
    dataset = releases[0].dataset
    dataset.hold(
        [
            (each.recipient, each.written_as(f), each.terms)
            for each, f in zip(releases, formats, strict=True)
        ],
        permit=permit_for(releases),
    )


class _Collected:
    """An output in memory."""

    def __init__(self) -> None:
        self.groups: list[pa.Table] = []

    def encode(self, group: pa.Table) -> pa.Table:
        return group

    def append(self, encoded: pa.Table) -> None:
        self.groups.append(encoded)
