from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.columns import Distinct, Encoded


def texts(values):
    return Encoded.of(pa.array(values, pa.string()), "c")


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_few_values_are_counted_exactly(kind, parts):
    values = np.random.default_rng(0).zipf(1.5, 3000) % 500
    found = Distinct()
    for part in np.array_split(values, parts):
        if kind == "numbers":
            found.add_numbers(part.astype(float))
        else:
            found.add_encoded(texts([*map(str, part), None]))
    counts = Counter(values.tolist())
    assert found.exact
    assert found.number == found.followed == len(counts)
    for rows in (2, 5):
        assert found.held_by_fewer_than(rows) == sum(c < rows for c in counts.values())


@pytest.mark.parametrize("times", [1, 2])
def test_many_values_are_followed_in_part_through_all_their_rows(at_a_time, times):
    at_a_time(FOLLOWED_VALUES=1000)
    found = Distinct()
    values = np.tile(np.arange(100_000.0), times)
    for part in np.array_split(values, 7):
        found.add_numbers(part)
    assert not found.exact
    assert 250 < found.followed <= 1000
    assert found.number == pytest.approx(100_000, rel=0.3)  # 5 / sqrt(250) and more
    assert found.held_by_fewer_than(2) == (found.number if times == 1 else 0)


def test_memory_stays_small(at_a_time):
    at_a_time(FOLLOWED_VALUES=64)
    found = Distinct()
    for start in range(0, 10_000, 100):
        found.add_encoded(texts([f"v{i}" for i in range(start, start + 100)]))
        assert found.followed <= 64
