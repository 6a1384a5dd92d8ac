"""Tables at the edge: what a column is, where rows come from, where copies go.

open_source, Source       CSV, Parquet, Arrow, a directory or a frame: groups of rows
place_of                  where a table lies: a path, an address in a store, a database
ReadingSettings                   how the cells of a text file are spelled
is_number, is_text, ...   what a column's type says; to_floats: any number as floats
Choices, decide, Schema   what happens to each column
read_choices, read_batch  the owner's files: choices for columns, copies to release
Finish                    rounding and clipping after the noise
hold                      columns of a source, read once, to be asked many questions
copy_at, CopyFile         a copy appears whole or not at all, in the format of its ending
CopyFolder, StoredFolder  the same for a copy in several files, written by several machines
parquet_parts             the row groups of a Parquet source, for machines that read them apart
read_metadata             what a copy says about itself, checked before anybody relies on it
"""

from cornerwave.table._categories import Categories, freeze_categories
from cornerwave.table._copy_folder import CopyFolder, Written, WrittenFile, check_folder
from cornerwave.table._distinct import Distinct
from cornerwave.table._durable import make_directory, sync_directory
from cornerwave.table._encoded import Encoded, Tally, cases, hash_texts, one_chunk, tally
from cornerwave.table._fingerprint import Fingerprint, key_ids, macs
from cornerwave.table._finish import Finish, said_in, settled, wide_type
from cornerwave.table._formats import parquet_settings, plain_schema
from cornerwave.table._joined import in_a_row
from cornerwave.table._outputs import (
    CopyFile,
    check_output,
    check_place,
    copy_at,
    write_text,
)
from cornerwave.table._parquet import ENCODED_TEXT
from cornerwave.table._parquet_parts import ParquetPart, parquet_parts
from cornerwave.table._places import Address, DatabaseAddress, Place, holds, place_of, resolved
from cornerwave.table._rare import (
    FEW_ROWS,
    MOST_CATEGORIES,
    OTHER,
    check_identifying,
    check_number,
    identifies,
)
from cornerwave.table._read_once import hold
from cornerwave.table._reading_settings import ReadingSettings
from cornerwave.table._scale import (
    KNOTS,
    LOG1P_ENDS,
    SAMPLE,
    Knots,
    RankDraws,
    Scale,
    Thinned,
    exponentials,
    interpolate,
    knot_scores,
    quantiles,
    rank_scale,
    share_ends,
    share_means,
)
from cornerwave.table._schema import (
    CATEGORY,
    DROPPED,
    KEEP_ORDER,
    KEPT,
    KEY,
    LEAST_ROWS,
    MARGINAL,
    PERTURBED,
    SAFE_ROWS,
    SHUFFLE,
    UNIFORM,
    Choices,
    Column,
    Schema,
    check_rows,
    decide,
    is_category,
    listed,
    names_of,
    order_of,
    warn_of,
)
from cornerwave.table._shown_values import (
    ShownPart,
    calendar_parts,
    part_words,
    shown_numbers,
    shown_parts,
    taken,
)
from cornerwave.table._sources import (
    SOURCE_ENDINGS,
    TEXT_ENDINGS,
    Progress,
    Source,
    format_of,
    open_source,
    open_to_inspect,
    silent,
)
from cornerwave.table._spelling import LEVELS
from cornerwave.table._stored_folder import StoredFolder, StoredPart, check_stored_folder
from cornerwave.table._told import (
    METADATA_KEY,
    check_metadata,
    metadata_path,
    parse_metadata,
    read_metadata,
)
from cornerwave.table._toml_files import read_batch, read_choices, schema_reading, schema_text
from cornerwave.table._toml_text import toml_comment, toml_text
from cornerwave.table._types import (
    DAYS,
    MISSING_BITS,
    category_type,
    ends_of,
    fill_floats,
    is_number,
    is_text,
    plain_type,
    step_of,
    to_floats,
    type_named,
    unit_of,
    value_type,
)

__all__ = [
    "CATEGORY",
    "DAYS",
    "DROPPED",
    "ENCODED_TEXT",
    "FEW_ROWS",
    "KEEP_ORDER",
    "KEPT",
    "KEY",
    "KNOTS",
    "LEAST_ROWS",
    "LEVELS",
    "LOG1P_ENDS",
    "MARGINAL",
    "METADATA_KEY",
    "MISSING_BITS",
    "MOST_CATEGORIES",
    "OTHER",
    "PERTURBED",
    "SAFE_ROWS",
    "SAMPLE",
    "SHUFFLE",
    "SOURCE_ENDINGS",
    "TEXT_ENDINGS",
    "UNIFORM",
    "Address",
    "Categories",
    "Choices",
    "Column",
    "CopyFile",
    "CopyFolder",
    "DatabaseAddress",
    "Distinct",
    "Encoded",
    "Fingerprint",
    "Finish",
    "Knots",
    "ParquetPart",
    "Place",
    "Progress",
    "RankDraws",
    "ReadingSettings",
    "Scale",
    "Schema",
    "ShownPart",
    "Source",
    "StoredFolder",
    "StoredPart",
    "Tally",
    "Thinned",
    "Written",
    "WrittenFile",
    "calendar_parts",
    "cases",
    "category_type",
    "check_folder",
    "check_identifying",
    "check_metadata",
    "check_number",
    "check_output",
    "check_place",
    "check_rows",
    "check_stored_folder",
    "copy_at",
    "decide",
    "ends_of",
    "exponentials",
    "fill_floats",
    "format_of",
    "freeze_categories",
    "hash_texts",
    "hold",
    "holds",
    "identifies",
    "in_a_row",
    "interpolate",
    "is_category",
    "is_number",
    "is_text",
    "key_ids",
    "knot_scores",
    "listed",
    "macs",
    "make_directory",
    "metadata_path",
    "names_of",
    "one_chunk",
    "open_source",
    "open_to_inspect",
    "order_of",
    "parquet_parts",
    "parquet_settings",
    "parse_metadata",
    "part_words",
    "place_of",
    "plain_schema",
    "plain_type",
    "quantiles",
    "rank_scale",
    "read_batch",
    "read_choices",
    "read_metadata",
    "resolved",
    "said_in",
    "schema_reading",
    "schema_text",
    "settled",
    "share_ends",
    "share_means",
    "shown_numbers",
    "shown_parts",
    "silent",
    "step_of",
    "sync_directory",
    "taken",
    "tally",
    "to_floats",
    "toml_comment",
    "toml_text",
    "type_named",
    "unit_of",
    "value_type",
    "warn_of",
    "wide_type",
    "write_text",
]
