"""The table that engines agree on, in files that are read in many parts."""

import pytest

from tests.engines.everyone import everyone, write_parts


@pytest.fixture
def parquet(tmp_path):
    """A directory of files with several row groups each, of different sizes."""
    return write_parts(tmp_path / "table", everyone())


@pytest.fixture(autouse=True)
def _many_parts(at_a_time):
    at_a_time(PARQUET_PART_CELLS=13 * 300)
