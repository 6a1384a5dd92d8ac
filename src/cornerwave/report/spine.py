"""THE SPINE: make the copies again -> look at them -> look at the original -> write the page.

The copies that the ledger knows are made in one pass, which also checks that the table is
the registered one, into files that vanish at the end. Nothing is added to the ledger.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from cornerwave.dataset import Dataset, write_all
from cornerwave.errors import NoSuchRecipient, OutputError, discreet
from cornerwave.miner import Copy
from cornerwave.report.copies import Copies, Shown, look
from cornerwave.report.original import look_behind
from cornerwave.report.page import render_external, render_owner
from cornerwave.table import Progress, check_place, plain_type, write_text

ENDINGS = (".html", ".htm")


def write_report(
    dataset: Dataset,
    path: str | Path,
    *,
    external: bool = False,
    force: bool = False,
    progress: Progress = lambda rows: None,
) -> Path:
    """Write the page about a dataset, for its owner or, if `external`, for others.

    Raises OutputExists unless `force`, NoSuchRecipient if no copy was released yet, and
    SourceChanged if the table is not the registered one.
    """
    place = Path(path).absolute()
    if not place.name.lower().endswith(ENDINGS):
        raise OutputError(f"{place}: a report is a web page; the ending must be .html")
    check_place(place, force=force)
    with discreet():
        copies = copies_of(dataset, progress)
        if external:
            text = render_external(dataset.name, copies)
        else:
            text = render_owner(dataset.name, copies, look_behind(dataset, copies))
    write_text(place, text)
    return place


def copies_of(dataset: Dataset, progress: Progress = lambda rows: None) -> Copies:
    """Make the copy at each level that is held once more, and look at it."""
    holders = {holding.level: holding.recipient for holding in dataset.holdings}
    if not holders:
        raise NoSuchRecipient(
            f"no copy of {dataset.name!r} was released yet, so there is nothing to report; first: "
            f"cornerwave release {dataset.name} --to RECIPIENT --privacy P"
        )
    releases = dataset.release_many([(holders[level], level) for level in sorted(holders)])
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / f"{i}.arrow" for i in range(len(releases))]
        write_all(list(zip(releases, places, strict=True)), progress=progress)
        return look([Copy.open(place) for place in places], shown_of(dataset))


def shown_of(dataset: Dataset) -> Shown:
    """Return the columns to show: what is constant, kept or a key would show cells."""
    frozen = dataset.frozen
    varies = dict(zip(frozen.schema.perturbed, np.diag(frozen.covariance) > 0, strict=True))
    numbers = tuple(name for name, does in varies.items() if does)
    categories = tuple(name for group in frozen.schema.categories for name in group)
    return Shown(
        numbers=numbers,
        categories=categories,
        whole=tuple(name for name in numbers if _is_whole(frozen.source_types.field(name).type)),
        units={name: frozen.schema.column(name).unit for name in numbers},
        pooled=tuple(name for part in frozen.categories if part.pooled for name in part.columns),
        left_out=tuple(
            column.name
            for column in frozen.schema.shown
            if column.name not in (*numbers, *categories)
        ),
    )


def _is_whole(type_: pa.DataType) -> bool:
    plain = plain_type(type_)
    return bool(pa.types.is_integer(plain) or pa.types.is_date(plain))
