"""Where rows come from: files, stores, databases, frames.

    place -> Source -> batches of rows, in one order that is the same again

In: a path, an address or a frame, and how its cells are spelled. Out: a `Source`, which names its
columns and types and yields its rows in batches. To add a format: a module like `_parquet.py`
with a class that has the methods of `Source`, and its ending in `_sources.py`.
"""

from cornerwave.sources._database_sessions import connect, quoted, table_name
from cornerwave.sources._databases import (
    METADATA_KEY,
    in_comment,
    is_of_database,
    meaning_of,
    tables_in_schema,
)
from cornerwave.sources._parquet import ENCODED_TEXT
from cornerwave.sources._places import Address, DatabaseAddress, Place, holds, place_of, resolved
from cornerwave.sources._source_parts import ParquetPart, hold, in_a_row, parquet_parts
from cornerwave.sources._sources import (
    SOURCE_ENDINGS,
    TEXT_ENDINGS,
    Progress,
    Source,
    arrow_schema,
    files_of,
    format_of,
    kind_of,
    open_source,
    open_to_inspect,
    silent,
)
from cornerwave.sources._stores import (
    REPLACED,
    File,
    StoreRefused,
    arrow_asked,
    arrow_filesystem,
    meaning,
    opened,
    readable,
    s3_about,
    s3_asked,
    s3_client,
    stored_files,
)
from cornerwave.sources._text_cells import LEVELS

__all__ = [
    "ENCODED_TEXT",
    "LEVELS",
    "METADATA_KEY",
    "REPLACED",
    "SOURCE_ENDINGS",
    "TEXT_ENDINGS",
    "Address",
    "DatabaseAddress",
    "File",
    "ParquetPart",
    "Place",
    "Progress",
    "Source",
    "StoreRefused",
    "arrow_asked",
    "arrow_filesystem",
    "arrow_schema",
    "connect",
    "files_of",
    "format_of",
    "hold",
    "holds",
    "in_a_row",
    "in_comment",
    "is_of_database",
    "kind_of",
    "meaning",
    "meaning_of",
    "open_source",
    "open_to_inspect",
    "opened",
    "parquet_parts",
    "place_of",
    "quoted",
    "readable",
    "resolved",
    "s3_about",
    "s3_asked",
    "s3_client",
    "silent",
    "stored_files",
    "table_name",
    "tables_in_schema",
]
