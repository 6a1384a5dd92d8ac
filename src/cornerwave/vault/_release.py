"""A copy for a recipient: made whole, recorded, then shown.

make      one pass over the source, by the recipe; nothing shows of a copy that is refused
hold      the ledger says who holds it, and all that made its bytes; then the copy appears
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cornerwave.columns import Finish
from cornerwave.editions import Portion
from cornerwave.engines.local import make_copies
from cornerwave.errors import OutputError, SourceError, discreet
from cornerwave.levels import Level
from cornerwave.outputs import (
    CopyFolder,
    StoredFolder,
    check_folder,
    check_output,
    check_stored_folder,
    copy_at,
    plain_schema,
)
from cornerwave.sources import (
    Address,
    DatabaseAddress,
    Place,
    Progress,
    format_of,
    holds,
    place_of,
    resolved,
    silent,
)
from cornerwave.spine.recipe import Recipe, Wanted

if TYPE_CHECKING:
    from cornerwave.vault._dataset import Dataset

FRAME = "frame"
"""The format of a copy that was handed over in memory."""


@dataclass(frozen=True)
class Release:
    """One copy for one recipient: it writes to a file, yields batches, or becomes a frame."""

    dataset: "Dataset"
    recipient: str
    level: Level
    finish: Finish
    dictionary: bool = False
    portion: Portion | None = None
    """The rows that it shows; None for the last edition's."""

    def __post_init__(self) -> None:
        if self.portion is None:
            object.__setattr__(self, "portion", self.dataset.portion())

    @property
    def rows(self) -> Portion:
        """The edition, or the batch, whose rows the copy shows."""
        assert self.portion is not None
        return self.portion

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
        """Write the copy to a file; its ending (csv, csv.gz, parquet, arrow) says how.

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
        pass

        [written] = write_all_spark([(self, path)], spark=spark, force=force)
        return written

    def make(self, path: Path, *, progress: Progress = silent) -> None:
        """Write the copy to a new file that nobody else may see: nothing is recorded.

        Before a byte of it leaves, `hold` must have recorded who gets it.
        """
        write_copies([self], [path], recorded=False, progress=progress)

    def made(self, format_: str) -> dict[str, Any]:
        """Return all that makes the copy's bytes, apart from its dataset: a line of the ledger."""
        return {
            "level": self.level.thousandths,
            "round": sorted(self.finish.round),
            "clip": {name: list(ends) for name, ends in self.finish.clip.items()},
            "types": dict(self.finish.types),
            "names": dict(self.finish.names),
            "format": format_,
            "dictionary": self.dictionary,
            "edition": self.rows.edition,
            "batch": self.rows.batch,
            "mark": None,
        }

    def hold(self, format_: str) -> None:
        """Record that the recipient is about to hold the copy in this format."""
        _hold([self], [format_])

    def to_arrow(self) -> pa.Table:
        """Return the whole copy as an Arrow table."""
        with discreet():
            recipe, collected = _recipe([self]), _Collected()
            make_copies(self.dataset.source_of(self.rows), recipe, [collected])
            self.dataset.remember_source()
            _hold([self], [FRAME])
        copy = pa.concat_tables(collected.groups)
        return copy.cast(plain_schema(copy.schema))

    def to_frame(self) -> Any:
        """Return the copy as the kind of frame that was registered; as Arrow for a file."""
        import narwhals as nw

        kind: Any = self.dataset.source.frame_kind or nw.Implementation.PYARROW
        return nw.from_arrow(self.to_arrow(), backend=kind).to_native()

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
    releases = [release for release, _ in copies]
    paths = [_output(path) for _, path in copies]
    if copies:
        write_copies(
            releases, paths, recorded=True, force=force, threads=threads, progress=progress
        )
    return paths


def _output(path: str | Place) -> Place:
    try:
        return place_of(path)
    except SourceError as error:
        raise OutputError(str(error)) from None


def write_copies(
    releases: Sequence[Release],
    paths: Sequence[Place],
    *,
    recorded: bool,
    force: bool = False,
    threads: int | None = None,
    progress: Progress = silent,
) -> None:
    """Write copies whole or not at all; unless `recorded`, nobody else may see them."""
    with discreet(), ExitStack() as hidden:
        recipe, formats = _recipe(releases), [format_of(path) for path in paths]
        _check_places(releases[0].dataset, paths)
        said = [_metadata(recipe, w, r) for w, r in zip(recipe.wanted, releases, strict=True)]
        for path, metadata in zip(paths, said, strict=True):
            check_output(path, metadata, force=force)
        files = []
        for path, wanted, metadata in zip(paths, recipe.wanted, said, strict=True):
            files.append(copy_at(path, recipe.schema(wanted), metadata))
            hidden.callback(files[-1].discard)
        source = releases[0].dataset.source_of(releases[0].rows)
        make_copies(source, recipe, files, threads=threads, progress=progress)
        releases[0].dataset.remember_source()
        for file in files:
            file.finish(force=force)
        if recorded:
            _hold(releases, formats)
        for file in files:
            file.publish()


def _check_places(dataset: "Dataset", paths: Sequence[Place]) -> None:
    """Raise OutputError if two copies would meet in one place, or one in the source."""
    places = {resolved(path) for path in paths}
    if len(places) < len(paths):
        raise OutputError("two copies would be written to one file; name a file for each")
    for source in dataset.source_places():
        for place in places:
            if holds(source, place):
                raise OutputError(
                    f"{place} is (part of) the registered table itself; write the copy elsewhere"
                )


def _metadata(recipe: Recipe, wanted: Wanted, release: Release) -> dict[str, Any]:
    told = recipe.metadata(wanted)
    if not release.dictionary:
        return told
    from cornerwave.dictionary import described  # not on import: few commands need its rooms

    return described(told)


def _recipe(releases: Sequence[Release]) -> Recipe:
    if len({release.dataset.id for release in releases}) > 1:
        raise OutputError("one pass makes copies of one dataset; write the others separately")
    if len({release.rows for release in releases}) > 1:
        raise OutputError("one pass makes copies of one edition; write the others separately")
    wanted = [Wanted(r.level, r.finish) for r in releases]
    return releases[0].dataset.recipe(wanted, releases[0].rows)


def _hold(releases: Sequence[Release], formats: Sequence[str]) -> None:
    """Write down who is about to hold what, with all that makes its bytes."""
    dataset = releases[0].dataset
    dataset.hold(
        [(each.recipient, each.made(f)) for each, f in zip(releases, formats, strict=True)]
    )


class _Collected:
    """An output in memory."""

    def __init__(self) -> None:
        self.groups: list[pa.Table] = []

    def encode(self, group: pa.Table) -> pa.Table:
        return group

    def append(self, encoded: pa.Table) -> None:
        self.groups.append(encoded)


# --------------------------------------------------------------------------------------------------
# Copies that a cluster writes: each is a directory, and appears whole or not at all.
#
# make      machines write files into a hidden folder; receipts say which of them count
# check     the receipts' fingerprints add up to the registered one, or nothing shows
# hold      the ledger says who holds it; then the files that count appear, under new names


FOLDER = "parquet parts"
"""The format of a copy that is a directory of Parquet files."""


def write_all_spark(
    copies: Sequence[tuple[Release, str | Place]],
    *,
    spark: Any = None,
    force: bool = False,
    progress: Progress = silent,
) -> list[Path | Address]:
    """Write several releases of one dataset to directories, in one pass over its source.

    The cluster is that of the dataset's frame, or that of the session given as `spark`.
    """
    from cornerwave.engines.spark import copies_on_spark  # few owners need it

    if not copies:
        return []
    releases = [release for release, _ in copies]
    paths = [_folder(path) for _, path in copies]
    dataset = releases[0].dataset
    with discreet(), ExitStack() as hidden:
        recipe = _recipe(releases)
        _check_places(dataset, paths)
        for path in paths:
            _check(path, force=force)
        said = [_metadata(recipe, w, r) for w, r in zip(recipe.wanted, releases, strict=True)]
        folders: list[CopyFolder | StoredFolder] = []
        for path in paths:
            folders.append(_made_in(path, force=force))
            hidden.callback(folders[-1].discard)
        made = [folder.made for folder in folders]
        source = dataset.source_of(releases[0].rows)
        written = copies_on_spark(source, recipe, made, said, spark=spark, progress=progress)
        dataset.remember_source()
        for folder, files in zip(folders, written, strict=True):
            folder.finish(files)
        _hold(releases, [FOLDER] * len(releases))
        for folder in folders:
            folder.publish()
    return paths


def _folder(path: str | Place) -> Path | Address:
    place = _output(path)
    if isinstance(place, DatabaseAddress):
        raise OutputError(f"{place} is no directory: a cluster writes into a folder, or to s3://")
    return place


def _check(place: Path | Address, *, force: bool) -> None:
    if isinstance(place, Path):
        check_folder(place, force=force)
    else:
        check_stored_folder(place, force=force)


def _made_in(place: Path | Address, *, force: bool) -> CopyFolder | StoredFolder:
    return CopyFolder(place) if isinstance(place, Path) else StoredFolder(place, force=force)
