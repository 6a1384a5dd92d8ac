"""What columns become on the way through a frame of Spark: a job sends rows back as they came."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave.choices import Choices
from cornerwave.columns import decide, plain_type
from cornerwave.engines import opened_frame
from cornerwave.engines._on_worker import FOUND, Table, packed_table, unpacked_table
from cornerwave.engines.spark import Cluster
from cornerwave.spine.rows import RowSecrets
from tests.table.test_source_types import COLUMNS, KEY, name_of, table_of

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
NONE = ("time of day", "duration")
"""What a frame that is read from Parquet has no type for."""
NUMBER = "64-bit float"
"""A column to perturb, which a table needs; the job only reads it."""


@dataclass(frozen=True)
class ReadJob:
    """Sends rows back."""

    table: Table

    def run(self, batches):
        for _, rows in self.table.groups(batches):
            yield 0, FOUND, packed_table(rows)


def types_through(session, folder):
    """A table of the types that columns have in a frame; an error unless names and values are
    the same."""
    chosen = [what for what in COLUMNS if what not in NONE]
    table = table_of(chosen)
    papq.write_table(table, folder / "types.parquet")
    source = opened_frame(session.read.parquet(str(folder / "types.parquet")))
    assert source.schema.names == table.column_names
    keep = tuple(name_of(what) for what in chosen if what != NUMBER)
    schema = decide(source.schema, Choices(key=KEY, keep=keep))
    secrets = RowSecrets.of(lambda purpose: purpose.encode().ljust(32)[:32])
    cluster = Cluster(source, schema, source.schema, secrets, session)
    notes = cluster.collected(ReadJob(cluster.table))
    found = pa.concat_tables(unpacked_table(content) for *_, content in notes).sort_by(KEY)
    for name in table.column_names:
        assert found[name].to_pylist() == table[name].to_pylist(), name
    types = {what: plain_type(source.schema.field(name_of(what)).type) for what in chosen}
    lines = [f"| {what} | {types.get(what, '–')} |" for what in COLUMNS]
    return "\n".join(["| | a frame |", "|---|---|", *lines]) + "\n"


def told():
    """The table of the docs."""
    text = PAGE.read_text(encoding="utf-8")
    return text.partition("<!-- types -->\n")[2].partition("<!-- end -->")[0]
