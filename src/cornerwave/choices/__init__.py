"""What an owner decides about a table, as files that they write."""

from cornerwave.choices._schema_file import read_batch, read_choices, schema_reading, schema_text

__all__ = [
    "read_batch",
    "read_choices",
    "schema_reading",
    "schema_text",
]
