import pyarrow as pa
import pytest

from cornerwave.errors import ColumnError
from cornerwave.table.categories import Encoded
from cornerwave.table.fingerprint import MISSING_BITS

SECRET = bytes(range(32))


def bits(values):
    return Encoded.of(values, "c").bits(SECRET, MISSING_BITS)


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None, "b", "a"]),
        pa.array(["a", None, "b", "a"]).dictionary_encode(),
        pa.array([1, None, 2, 1]),
        pa.array([1.5, None, 2.0, 1.5]),
        pa.array([True, None, False, True]),
        pa.array([b"\xff", None, b"", b"\xff"]),
        pa.array([1, None, 2, 1], pa.date32()),
        pa.array([1, None, 2, 1], pa.timestamp("us")),
        pa.array([1, None, 2, 1], pa.duration("s")),
    ],
    ids=lambda values: str(values.type)[:20],
)
def test_kept_values_are_told_apart(values):
    first, missing, second, again = bits(values).tolist()
    assert first == again
    assert len({first, missing, second}) == 3
    assert bits(values.slice(2)).tolist() == [second, again]


def test_a_text_that_looks_missing_is_not():
    values = pa.array(["", None, "NaN", "null"])
    assert len(set(bits(values).tolist())) == 4


def test_what_has_no_text_cannot_be_kept():
    with pytest.raises(ColumnError, match=r"'c': a column of type .* cannot leave"):
        bits(pa.array([[1], [2]]))
