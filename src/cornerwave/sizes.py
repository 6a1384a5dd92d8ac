"""How much is handled at a time: rows in a group, cells in a part, bytes in a block.

No value in a copy depends on these, so tests make them small to have borders everywhere. They are
read where they are used (`sizes.GROUP_CELLS`), never copied. Each bounds memory; larger ones were
not faster.
"""

GROUP_CELLS = 1 << 20
"""Numbers in a group of rows. A Parquet copy has a row group for each: its bytes depend on this."""

BLOCK_CELLS, BLOCK_ROWS = 1 << 16, 1 << 8
"""Cells of a block of noise, and at least so many rows of a wide table: few enough for the cache,
enough to make a call worth its while."""

CACHE_BYTES = 1 << 25
"""Copies that take more than this together have left the cache before anybody reads them."""

LEARNED_CELLS, LEARNED_ROWS = 1 << 18, 1 << 12
"""Cells, and at least so many rows, that a thread learns from at a time before their noise is
made: to add up what was learned from fewer rows of a wide table takes longer than to learn it."""

HASHED_ROWS = 1 << 12
"""Rows that are hashed and enciphered at once: they stay in the nearest caches."""

ATTACK_WEIGHTS = 1 << 20
"""Weights of rows that an attack holds at once: 8 MB, for any table and any sample."""

BATCH_ROWS = 1 << 16
"""Rows of an appended batch in a group: batches are small, and all threads should have some."""

INSPECTED_ROWS = 1 << 17
"""Rows that a first look takes at a time."""

FOLLOWED_VALUES = 1 << 16
"""Values of a column that a first look follows through all rows; of more, a sample of them."""

KEPT_CODES = 1 << 23
"""Cells of categories that an audit keeps of all tables together."""

STATEMENT_NAMES = 5_000
"""Names in a statement of the ledger: SQLite takes 32,766 parameters, PostgreSQL 65,535."""

CSV_BLOCK = 1 << 21
"""Bytes of text in a batch, and so the longest record; Arrow reads some 40 batches ahead."""

JSON_BLOCK, JSON_LINE = 1 << 22, 1 << 24
"""Bytes of JSON lines that are read at a time, about, and those of the longest line."""

STATISTICS_CELLS, STATISTICS_ROWS = 1 << 19, 1 << 10
"""Cells of a statistics file that are read at a time, and the least number of rows."""

PARQUET_PART_CELLS = 1 << 23
"""Cells of a part that one machine reads, about: a row group that has more is one part."""

STRIP_CELLS = 1 << 25
"""Cells of a Parquet row group that is read some columns at a time, at most."""

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
