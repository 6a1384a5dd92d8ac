"""Where copies go: a file, a folder, a store, a table of a database.

In: groups of rows and what the copy states about itself. Out: a copy that appears whole, under its
name, or not at all. To add a format: an encoder like those in `_formats.py`; to add a place: a
writer like `_table_copies.py`.
"""

from cornerwave.outputs._copy_metadata import (
    METADATA_KEY,
    check_metadata,
    metadata_path,
    parse_metadata,
    read_metadata,
)
from cornerwave.outputs._folders import (
    CopyFolder,
    StoredFolder,
    StoredPart,
    Written,
    WrittenFile,
    check_folder,
    check_stored_folder,
)
from cornerwave.outputs._formats import parquet_settings, plain_schema
from cornerwave.outputs._outputs import (
    CopyFile,
    check_output,
    check_place,
    copy_at,
    make_directory,
    sync_directory,
    write_text,
)

__all__ = [
    "METADATA_KEY",
    "CopyFile",
    "CopyFolder",
    "StoredFolder",
    "StoredPart",
    "Written",
    "WrittenFile",
    "check_folder",
    "check_metadata",
    "check_output",
    "check_place",
    "check_stored_folder",
    "copy_at",
    "make_directory",
    "metadata_path",
    "parquet_settings",
    "parse_metadata",
    "plain_schema",
    "read_metadata",
    "sync_directory",
    "write_text",
]
