import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.frozen import Draws, Frozen
from cornerwave.moments import Moments, factor
from cornerwave.table.scale import Scale
from tests.conftest import decide


def frozen_of(X: np.ndarray) -> Frozen:
    names = [f"c{i}" for i in range(X.shape[1])]
    types = pa.schema([(name, pa.float64()) for name in names])
    moments = Moments.of(X)
    return freeze(decide(types), types, moments)


def freeze(schema, types, moments):
    scales = (Scale(),) * len(schema.perturbed)
    shape = factor(moments.covariance)
    draws = Draws(moments.mean, moments.covariance / 3, {"c1": ((0.1, -0.5), (1 / 3, 0.5))})
    return Frozen.of(schema, types, scales, moments, shape, (), (), "2:00", draws)


def bits(frozen: Frozen) -> list[bytes]:
    return [a.tobytes() for a in (frozen.mean, frozen.covariance, frozen.factor, frozen.grid)]


@given(st.lists(st.floats(-1e100, 1e100), min_size=4, max_size=12, unique=True))
def test_json_gives_every_bit_back(values):
    frozen = frozen_of(np.array(values[: len(values) // 2 * 2]).reshape(-1, 2) * [1.0, 1 / 3])
    again = Frozen.from_json(frozen.to_json())
    assert bits(again) == bits(frozen)
    assert (again.schema, again.rows, again.fingerprint) == (
        frozen.schema,
        frozen.rows,
        frozen.fingerprint,
    )
    assert again.noise_format == frozen.noise_format
    assert again.draws.quantiles == frozen.draws.quantiles
    assert again.draws.covariance.tobytes() == frozen.draws.covariance.tobytes()
    assert again.to_json() == frozen.to_json()


def test_a_table_registered_before_stays_what_it_was():
    """No law of draws: plain ones. No word of a slope: level stretches."""
    frozen = frozen_of(np.arange(8.0).reshape(-1, 2))
    kept = json.loads(frozen.to_json())
    del kept["draws"]
    for scale in kept["scales"]:
        del scale["sloping"]
    before = Frozen.from_json(json.dumps(kept))
    assert before.draws is None
    assert not any(scale.sloping for scale in before.scales)
    assert bits(before) == bits(frozen)


def test_types_come_back_whole():
    types = pa.schema(
        [
            ("d", pa.date32()),
            ("t", pa.timestamp("us", tz="Europe/Paris")),
            ("m", pa.decimal128(9, 2)),
            ("k", pa.dictionary(pa.int8(), pa.string())),
        ]
    )
    moments = Moments.of(np.array([[1.0, 2.0, 4.0], [2.0, 1.0, 0.0], [5.0, 5.0, 5.0]]))
    frozen = freeze(decide(types, keep=["k"]), types, moments)
    assert Frozen.from_json(frozen.to_json()).source_types == types


def test_no_cell_is_kept():
    X = np.array([[123456.789, 1.0], [222.5, 7.25], [98765.4321, 3.0]])
    kept = frozen_of(X).to_json()
    for cell in (123456.789, 222.5, 98765.4321, 7.25):
        assert repr(cell) not in kept
    assert "largest" not in json.loads(kept)


def test_a_number_that_json_cannot_hold_is_an_error():
    frozen = replace(frozen_of(np.eye(3)), mean=np.array([np.nan, 0.0, 0.0]))
    with pytest.raises(ValueError, match="JSON"):
        frozen.to_json()
