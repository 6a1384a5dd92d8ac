"""The form that registers a table asks about few rows, and only then."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.console.client import TestClient
from tests.console.conftest import World
from tests.console.test_console_pages import columns_page, form_of, text_of


def test_a_small_table_is_registered_if_the_owner_ticks_it(world: World, owner: TestClient):
    rng = np.random.default_rng(5)
    for name, rows in (("few", 63), ("many", 600)):
        pq.write_table(pa.table({"x": rng.normal(size=rows)}), world.tables / f"{name}.parquet")
    plain = columns_page(world, owner, world.tables / "many.parquet").text
    assert "Few rows" not in plain.partition("More choices about the table")[0]
    page = columns_page(world, owner, world.tables / "few.parquet")
    assert "Few rows: accept" in page.text.partition("More choices about the table")[0]
    fields = form_of(page.text)
    refused = owner.post("/console/register/columns", data=fields)
    assert refused.status_code == 400
    assert "The table has 63 rows, and needs at least 100" in text_of(refused)
    assert "(few rows: accept)" in text_of(refused)
    done = owner.post("/console/register/columns", data={**fields, "few_rows": "on"})
    assert done.status_code == 200
    assert "few is registered" in text_of(done)
