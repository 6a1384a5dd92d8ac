"""Tables at the edge: what a column is, where rows come from, where copies go.

open_source, Source       CSV, Parquet, Arrow, a directory or a frame: groups of rows
is_number, is_text, ...   what a column's type says; to_floats: any number as floats
Choices, decide, Schema   what happens to each column
read_choices, read_batch  the owner's files: choices for columns, copies to release
Finish                    rounding and clipping after the noise
CopyFile, read_metadata   a copy appears whole or not at all, in the format of its ending
"""

from cornerwave.table._finish import Finish
from cornerwave.table._outputs import (
    METADATA_KEY,
    CopyFile,
    check_output,
    check_place,
    metadata_path,
    parquet_settings,
    plain_schema,
    read_metadata,
    write_text,
)
from cornerwave.table._schema import (
    CATEGORY,
    KEPT,
    KEY,
    MARGINAL,
    PERTURBED,
    UNIFORM,
    Choices,
    Column,
    Schema,
    decide,
    is_category,
    listed,
    names_of,
    warn_of,
)
from cornerwave.table._sources import (
    ENCODED_TEXT,
    Progress,
    Source,
    format_of,
    open_source,
    silent,
)
from cornerwave.table._toml_files import read_batch, read_choices
from cornerwave.table._types import (
    is_number,
    is_text,
    plain_type,
    to_floats,
    type_named,
    value_type,
)

__all__ = [
    "CATEGORY",
    "ENCODED_TEXT",
    "KEPT",
    "KEY",
    "MARGINAL",
    "METADATA_KEY",
    "PERTURBED",
    "UNIFORM",
    "Choices",
    "Column",
    "CopyFile",
    "Finish",
    "Progress",
    "Schema",
    "Source",
    "check_output",
    "check_place",
    "decide",
    "format_of",
    "is_category",
    "is_number",
    "is_text",
    "listed",
    "metadata_path",
    "names_of",
    "open_source",
    "parquet_settings",
    "plain_schema",
    "plain_type",
    "read_batch",
    "read_choices",
    "read_metadata",
    "silent",
    "to_floats",
    "type_named",
    "value_type",
    "warn_of",
    "write_text",
]
