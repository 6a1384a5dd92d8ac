"""Where copies go: a file, a folder, a store, a table of a database.

In: groups of rows and the metadata of the copy. Out: a copy that appears whole, under its name, or
not at all. To add a format: an encoder like those in `_formats.py`; to add a place: a kind of
`Destination` like `_table_copies.py`.
"""

from cornerwave.outputs._destination import Destination, RowDestination, Written
from cornerwave.outputs._folders import FOLDER, Folder, folder_at
from cornerwave.outputs._formats import parquet_settings, plain_schema
from cornerwave.outputs._hidden_folders import HiddenFolder
from cornerwave.outputs._linked_files import (
    DUCKDB,
    ZIP,
    LinkedFile,
    is_linked_copy,
    linked_files,
    packed,
)
from cornerwave.outputs._outputs import (
    CopyFile,
    check_parent,
    check_place,
    copy_at,
    make_directory,
    metadata_of,
    metadata_path,
    read_metadata,
    stating,
    sync_directory,
    umask,
    write_text,
)
from cornerwave.outputs._table_copies import SharedSession

__all__ = [
    "DUCKDB",
    "FOLDER",
    "ZIP",
    "CopyFile",
    "Destination",
    "Folder",
    "HiddenFolder",
    "LinkedFile",
    "RowDestination",
    "SharedSession",
    "Written",
    "check_parent",
    "check_place",
    "copy_at",
    "folder_at",
    "is_linked_copy",
    "linked_files",
    "make_directory",
    "metadata_of",
    "metadata_path",
    "packed",
    "parquet_settings",
    "plain_schema",
    "read_metadata",
    "stating",
    "sync_directory",
    "umask",
    "write_text",
]
