"""What a first look decides about real tables, counted."""

import pytest

from cornerwave.inspection import inspect
from cornerwave.sources import open_to_inspect
from tests.corpus import TABLES, as_csv

RELEASED = {"perturb", "category", "derive"}
PRECISION, RECALL = 0.95, 0.97
QUICK = (
    "survival/retinopathy",
    "nlme/MathAchSchool",
    "openintro/daycare_fines",
    "Stat2Data/Diamonds",
    "MASS/Pima.te",
    "wooldridge/vote1",
    "dragracer/rpdr_contestants",
)


def decided(name, folder):
    """How the columns of a table are drafted, as (column, what went wrong or right)."""
    labels = {kind: set(names.split()) for kind, names in TABLES[name]._asdict().items()}
    found = inspect(open_to_inspect(as_csv(name, folder)))
    known = {each.name for each in found.columns}
    assert set().union(*labels.values()) <= known, f"{name}: labels name columns that are not there"
    for each in found.columns:
        is_released = each.do in RELEASED
        if each.name in labels["withheld"]:
            yield each.name, "missed" if is_released else "withheld"
        elif each.name in labels["codes"]:
            yield each.name, "as a size" if each.do == "perturb" else "as a code"
        elif each.name not in labels["either"]:
            yield each.name, "released" if is_released else "alarm"


def test_real_tables_are_labelled_once_and_are_many():
    assert len(TABLES) >= 60
    for labels in TABLES.values():
        names = " ".join(labels).split()
        assert len(names) == len(set(names))


@pytest.mark.parametrize("name", QUICK)
def test_real_tables_are_decided_as_labelled(tmp_path, name):
    wrong = {column: what for column, what in decided(name, tmp_path) if what in WRONG}
    assert wrong == {}


WRONG = {"missed", "as a size", "alarm"}


@pytest.mark.slow
def test_what_must_be_decided_is_found_in_a_corpus_of_real_tables(tmp_path):
    counts = dict.fromkeys(("withheld", "missed", "as a code", "as a size", "released", "alarm"), 0)
    for name in TABLES:
        for column, what in decided(name, tmp_path):
            counts[what] += 1
            if what in WRONG:
                print(f"{what}: {name} {column}")
    precision = counts["withheld"] / (counts["withheld"] + counts["alarm"])
    recall = counts["withheld"] / (counts["withheld"] + counts["missed"])
    print(f"{len(TABLES)} tables, precision {precision:.3f}, recall {recall:.3f}: {counts}")
    assert precision >= PRECISION
    assert recall >= RECALL
    assert counts["as a size"] <= 1
