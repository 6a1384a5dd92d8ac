import tomllib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.errors import ColumnError
from cornerwave.inspection import draft, inspect
from cornerwave.table.read import open_source
from tests.tables import STRANGE_NAMES

ROWS = 200
IDENTIFIER, NEARLY, CONSTANT = "looks like an identifier", "nearly unique", "constant"
COLLINEAR, LONG_TAILED, RARE = "a linear function", "long-tailed", "fewer than 5 rows"
ALL = (IDENTIFIER, NEARLY, CONSTANT, COLLINEAR, LONG_TAILED, RARE)
rng = np.random.default_rng(0)
NORMAL = rng.normal(size=ROWS)


def look(columns):
    return {report.name: report for report in inspect(open_source(pa.table(columns)))}


def warnings_of(values, **others):
    warnings = look({**others, "c": values})["c"].warnings
    return {known for known in ALL for warning in warnings if known in warning}


def repeated(values):
    return pa.array([values[i % len(values)] for i in range(ROWS)])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array(range(ROWS)), {IDENTIFIER}),
        (pa.array([0, 0, *range(2, ROWS)]), {NEARLY}),
        (pa.array([i // 2 for i in range(ROWS)]), set()),
        (pa.array([f"p{i}" for i in range(ROWS)]), {IDENTIFIER, RARE}),
        (pa.array([f"p{max(i, 1)}" for i in range(ROWS)]), {NEARLY, RARE}),
        (pa.array(NORMAL), set()),  # every number different, and yet no identifier
        (pa.array(np.ones(ROWS)), {CONSTANT}),
        (repeated(["a"]), {CONSTANT}),
        (repeated(["a", "b"]), set()),
        (pa.array(["a"] * 4 + ["b"] * (ROWS - 4)), {RARE}),
        (pa.array(["a"] * 5 + ["b"] * (ROWS - 5)), set()),
        (pa.array([None] * 3 + ["b", "c"] * 98 + ["b"]), set()),  # missing is not a rare value
        (pa.array(np.exp(3 * NORMAL)), {LONG_TAILED}),
        (pa.array(-np.exp(3 * NORMAL)), {LONG_TAILED}),
        (pa.array(rng.exponential(size=ROWS)), set()),
        (pa.array(2 * NORMAL + 5), {COLLINEAR}),
        (pa.array(2 * NORMAL + rng.normal(size=ROWS)), set()),
    ],
)
def test_each_warning_where_it_must_be_and_nowhere_else(values, expected):
    assert warnings_of(values, n=NORMAL) == expected | (
        {COLLINEAR} if values.equals(pa.array(NORMAL)) else set()
    )


def test_few_rows_are_no_identifier():
    assert look({"c": pa.array(range(20))})["c"].warnings == ()


def test_kinds_distinct_values_and_missing_share():
    found = look(
        {
            "number": pa.array([1.5, None, 2.5, 2.5]),
            "text": pa.array(["a", None, None, "b"]),
            "flag": pa.array([True, False, True, None]),
            "date": pa.array([1, 2, 3, 3], pa.date32()),
            "coded": pa.array([1, 2, 2, None]).dictionary_encode(),
            "money": pa.array([Decimal("1.5"), Decimal("2.5"), None, None]),
            "list": pa.array([[1], [2], None, [3]]),
            "bytes": pa.array([b"a", b"b", b"b", None]),
        }
    )
    assert {name: report.do for name, report in found.items()} == {
        "number": "perturb",
        "text": "category",
        "flag": "category",
        "date": "perturb",
        "coded": "perturb",
        "money": "perturb",
        "list": "decide",
        "bytes": "decide",
    }
    assert [r.distinct for r in found.values()] == [2, 2, 2, 3, 2, 2, 0, 2]
    assert [r.missing for r in found.values()] == [0.25, 0.5, 0.25, 0, 0.25, 0.5, 0.25, 0.25]


def test_what_cannot_be_perturbed_is_said():
    found = look({"a": pa.array([1.0, np.inf]), "b": pa.array([1, 2**60]), "c": pa.array([1, 2])})
    assert "infinite" in found["a"].warnings[0]
    assert "beyond 2^53" in found["b"].warnings[0]
    assert found["c"].warnings == ()


def test_a_long_table_is_looked_at_through_a_sample_without_false_alarms(monkeypatch):
    monkeypatch.setattr("cornerwave.inspection.SAMPLE_ROWS", 64)
    monkeypatch.setattr("cornerwave.inspection.GROUP_ROWS", 100)
    rows = 1000
    found = look(
        {
            "half": pa.array([f"v{i // 4}" for i in range(rows)]),  # 250 values, 62 sampled rows
            "id": pa.array([f"v{i}" for i in range(rows)]),
            "number": pa.array(np.arange(rows) % 3),
        }
    )
    assert found["half"].distinct == 250
    assert not any(IDENTIFIER in warning for warning in found["half"].warnings)
    assert any(IDENTIFIER in warning for warning in found["id"].warnings)
    assert found["number"].distinct == 3
    monkeypatch.setattr("cornerwave.inspection.MOST_CATEGORIES", 50)
    found = look(
        {
            "twice": pa.array([f"v{i % 500}" for i in range(rows)]),
            "id": pa.array([f"v{i}" for i in range(rows)]),
        }
    )
    assert any("too many for a category" in warning for warning in found["twice"].warnings)
    assert any(IDENTIFIER in warning for warning in found["id"].warnings)


def test_no_value_is_shown():
    canary = 83_914_271
    table = {
        "text": pa.array([f"canary{canary}{i}" for i in range(40)]),
        "number": pa.array([float(canary + i) for i in range(40)]),
        "whole": pa.array([canary * (1 + i % 2) for i in range(40)]),
        "far": pa.array([canary * 2**30] * 40),
        "same": pa.array([f"canary{canary}"] * 40),
        "date": pa.array([canary // 4000 + i for i in range(40)], pa.date32()),
        "list": pa.array([[canary]] * 40),
    }
    text = draft(list(look(table).values()))
    assert "canary" not in text
    assert str(canary)[:5] not in text
    assert "text" in text


def test_the_draft_is_toml_whatever_the_names():
    types = pa.struct([("a\nmin_count = 9", pa.int8()), ('"q"', pa.int8())])
    columns = {name: pa.array([1.0, 2.0]) for name in STRANGE_NAMES}
    columns["nested"] = pa.array([None, None], types)
    content = tomllib.loads(draft(list(look(columns).values())))
    assert [column["name"] for column in content["column"]] == [*STRANGE_NAMES, "nested"]
    assert content["min_count"] == 0


def test_an_empty_table_and_one_without_numbers():
    found = look({"a": pa.array([], pa.float64()), "b": pa.array([], pa.string())})
    assert [report.distinct for report in found.values()] == [0, 0]
    assert look({"b": pa.array(["x", "y"])})["b"].do == "category"


def test_two_columns_of_one_name_are_refused():
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    with pytest.raises(ColumnError):
        inspect(open_source(table))
