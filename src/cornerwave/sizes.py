"""How much is handled at a time: rows in a group, cells in a part, bytes in a block.

No value in a copy depends on these, so tests make them small to have borders everywhere. They are
read where they are used (`sizes.GROUP_CELLS`), never copied. Each bounds memory; larger ones were
not faster.
"""

GROUP_CELLS = 1 << 20
"""Numbers in a group of rows. A Parquet copy has a row group for each: its bytes depend on this."""

BATCH_ROWS = 1 << 16
"""Rows of an appended batch in a group: batches are small, and all threads should have some."""

INSPECTED_ROWS = 1 << 17
"""Rows that a first look takes at a time."""

CSV_BLOCK = 1 << 21
"""Bytes of text in a batch, and so the longest record; Arrow reads some 40 batches ahead."""

STATISTICS_CELLS, STATISTICS_ROWS = 1 << 19, 1 << 10
"""Cells of a statistics file that are read at a time, and the least number of rows."""

PARQUET_PART_CELLS = 1 << 23
"""Cells of a part that one machine reads, about: a row group that has more is one part."""

READ_AHEAD = 1 << 23
"""Bytes that are requested at once where a stored file is read from front to back."""

UPLOAD_PART = 1 << 24
"""Bytes of a part of an upload; they grow every thousand parts, of which S3 takes ten thousand."""

SYNC_BYTES = 1 << 24
"""Bytes of a growing file that are brought to the disk at a time."""

IDS_AT_ONCE, IDS_IN_MEMORY = 1 << 23, 1 << 20
"""Row ids that are sorted at once, and those that do not need a file."""

SHUFFLE_CELLS = 1 << 22
"""Cells of a table that are sorted in memory at once, about."""

BUCKET_ROWS, BUCKET_BYTES = 1 << 16, 1 << 28
"""Rows of two editions that are compared without buckets, and bytes of rows without a file."""

CHANGED_ROWS = 1 << 18
"""Rows that differ and are given at once, if one bucket does not have more."""
