import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.columns import Scale
from cornerwave.ledger import Key
from cornerwave.moments import Moments
from cornerwave.noise import factor, grid_of
from cornerwave.privacy import Hidden, MostRevealing, Remedy, Shown
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.missing import Draws
from tests.conftest import decide, freeze_table


def frozen_of(X: np.ndarray) -> Frozen:
    names = [f"c{i}" for i in range(X.shape[1])]
    types = pa.schema([(name, pa.float64()) for name in names])
    moments = Moments.of(X)
    return freeze(decide(types), types, moments)


def freeze(schema, types, moments):
    scales = (Scale(),) * len(schema.perturbed)
    shape = factor(moments.covariance)
    draws = Draws(moments.mean, moments.covariance / 3, {"c1": ((0.1, -0.5), (1 / 3, 0.5))})
    return Frozen(
        schema=schema,
        source_types=types,
        rows=moments.rows,
        scales=scales,
        mean=moments.mean,
        covariance=moments.covariance,
        excess=np.zeros_like(moments.covariance),
        factor=shape.lower,
        grid=grid_of(deviation=moments.deviation, largest=moments.largest),
        categories=(),
        missing=(),
        fingerprint="2:00",
        draws=draws,
        hidden=Hidden(
            {"c0": (0.5,) * 99},
            tuple(range(1, 1000)),
            {"c0": MostRevealing(Shown("c1"), 0.25)},
            remedies=(Remedy("hide", ("gaps of c1",), 1.5, 0.9), Remedy("bands", ("c1",), bands=3)),
            bounds={"c0": MostRevealing(Shown("gaps of c1", "gaps"), 0.25)},
        ),
    )


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


def test_identity_knows_everything_that_is_frozen():
    """Whatever differs makes another dataset: never the same noise with another factor."""
    frozen = frozen_of(np.arange(8.0).reshape(-1, 2))
    others = [
        replace(frozen, rows=frozen.rows + 1),
        replace(frozen, fingerprint="2:01"),
        replace(frozen, factor=np.nextafter(frozen.factor, 9)),
        replace(frozen, covariance=np.nextafter(frozen.covariance, 99)),
        replace(frozen, excess=np.nextafter(frozen.excess, 99)),
        replace(frozen, mean=np.nextafter(frozen.mean, 99)),
        replace(frozen, grid=frozen.grid * 2),
        replace(frozen, scales=(Scale("log1p"), Scale())),
        replace(frozen, missing=("c0",)),
        replace(frozen, draws=None),
        replace(frozen, noise_format=2),
        replace(frozen, schema=replace(frozen.schema, min_count=3)),
        replace(frozen, source_types=pa.schema([("c0", pa.float32()), ("c1", pa.float64())])),
    ]
    assert len({each.identity() for each in (frozen, *others)}) == 1 + len(others)
    again = Frozen.from_json(frozen.to_json())
    assert again.identity() == frozen.identity()
    assert again.hidden == frozen.hidden
    # what copies hide follows from the rest, and libraries round it each in its own way
    assert replace(frozen, hidden=Hidden({}, (), {})).identity() == frozen.identity()


def test_identity_does_not_know_who_wrote_the_file():
    """A library's notes on a schema change with its version; the dataset does not."""
    plain = pa.table({"x": [1.0, 2.0, 4.0], "city": ["a", "b", "a"]})
    noted = plain.replace_schema_metadata({"pandas": "version 9"})
    key = Key.unsafe_from_seed(4)
    assert freeze_table(plain, key).identity() == freeze_table(noted, key).identity()


def test_the_kind_of_text_is_not_part_of_a_dataset():
    """A CSV, a Parquet file and a frame hold text each in its own way."""
    key, city = Key.unsafe_from_seed(4), ["a", "b", "a", "a"]
    tables = [
        pa.table({"x": [1.0, 2.0, 4.0, 9.0], "city": pa.array(city, type_)})
        for type_ in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()))
    ]
    assert len({freeze_table(table, key).identity() for table in tables}) == 1


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
