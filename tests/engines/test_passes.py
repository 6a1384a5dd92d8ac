"""What every engine says of rows that are not the registered ones."""

import pytest

from cornerwave.engines._passes import registered_rows
from cornerwave.errors import ColumnError, SourceChanged, SourceError, SourceLost


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (SourceError("it has 3 rows"), SourceChanged),
        (ColumnError("it has no column 'age'"), SourceChanged),
        (SourceLost("the connection was lost"), SourceLost),
        (ValueError("a fault of ours"), ValueError),
    ],
)
def test_a_lost_connection_is_no_other_table(found, told):
    with pytest.raises(told, match=str(found)) as caught, registered_rows():
        raise found
    assert type(caught.value) is told
