import pyarrow as pa
import pytest

from cornerwave.table.kinds import is_text, plain_type

TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
OTHERS = [pa.binary(), pa.int64(), pa.bool_(), pa.date32(), pa.null(), pa.list_(pa.string())]


@pytest.mark.parametrize("type_", TEXTS, ids=str)
def test_text_is_text_of_whatever_width_and_encoding(type_):
    assert is_text(type_)
    assert plain_type(type_) == type_


@pytest.mark.parametrize("type_", OTHERS, ids=str)
def test_nothing_else_is(type_):
    assert not is_text(type_)


def test_values_that_stand_apart_are_of_their_own_type():
    assert is_text(pa.dictionary(pa.int8(), pa.large_string()))
    assert not is_text(pa.dictionary(pa.int8(), pa.int64()))
    assert plain_type(pa.dictionary(pa.int8(), pa.date32())) == pa.date32()
