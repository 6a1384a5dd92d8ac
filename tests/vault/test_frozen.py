import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.moments import Moments, factor
from cornerwave.table.schema import decide
from cornerwave.vault.frozen import GRID_BITS, Frozen, grid_of


def frozen_of(X: np.ndarray) -> Frozen:
    names = [f"c{i}" for i in range(X.shape[1])]
    types = pa.schema([(name, pa.float64()) for name in names])
    moments = Moments.of(X)
    return Frozen.of(decide(types), types, moments, factor(moments.covariance), "2:00")


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
    assert again.to_json() == frozen.to_json()


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
    frozen = Frozen.of(decide(types, keep=["k"]), types, moments, factor(moments.covariance), "")
    assert Frozen.from_json(frozen.to_json()).source_types == types


def test_no_cell_is_kept():
    X = np.array([[123456.789, 1.0], [222.5, 7.25], [98765.4321, 3.0]])
    kept = frozen_of(X).to_json()
    for cell in (123456.789, 222.5, 98765.4321, 7.25):
        assert repr(cell) not in kept
    assert "largest" not in json.loads(kept)


def test_a_number_that_json_cannot_hold_is_an_error():
    frozen = replace(frozen_of(np.eye(3)), mean=np.array([np.nan]))
    with pytest.raises(ValueError, match="JSON"):
        frozen.to_json()


@given(deviation=st.floats(1e-140, 1e140))
def test_the_grid_is_a_power_of_two_near_the_deviation(deviation):
    [step] = grid_of(Moments.of(np.array([[-deviation], [deviation]])))
    mantissa, _ = np.frexp(step)
    assert mantissa == 0.5
    assert 2.0 ** -(GRID_BITS + 1) < step / (deviation * np.sqrt(2)) <= 2.0**-GRID_BITS


def test_the_grid_is_coarser_far_from_zero_and_sums_stay_exact():
    [step] = grid_of(Moments.of(np.array([[1e15 - 1], [1e15 + 1]])))
    assert 1e15 / step < 2**51
    assert step > 2.0**-GRID_BITS


def test_a_constant_column_has_no_grid():
    assert grid_of(Moments.of(np.full((5, 1), 0.1))).tolist() == [0.0]
