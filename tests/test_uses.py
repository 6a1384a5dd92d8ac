"""Which privacy is recommended for which use, and why none is."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.errors import LevelError
from cornerwave.outlook import (
    LIMITS,
    PRIVACIES,
    USES,
    Advice,
    advice,
    changed_since,
    checked_uses,
    is_same_survey,
    kept_groups,
    outlooks,
    recommend,
    recommend_for_all,
)
from cornerwave.sources import open_source
from cornerwave.vault import Dataset, Vault

ROWS = 3000


def table(seed: int = 0) -> pa.Table:
    """Two normal columns, and a sex and a zip code that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "wage": 30 + 8 * rng.normal(size=ROWS),
            "hours": 40 + 5 * rng.normal(size=ROWS),
            "sex": rng.choice(["f", "m"], ROWS),
            "zip": [f"z{i}" for i in np.append(rng.integers(0, 40, ROWS - 4), [90, 91, 92, 92])],
        }
    )


@pytest.fixture
def vault(tmp_path):
    return Vault.create(tmp_path / "vault")


def recommended(dataset: Dataset, rows: pa.Table | None = None):
    """What is recommended for each use; with the table, if it is given."""
    source = None if rows is None else open_source(rows)
    known = outlooks(dataset.frozen, source, privacies=PRIVACIES)
    kept = None if source is None else kept_groups(dataset.frozen, source)
    return {use: recommend(dataset.frozen, known, use, kept) for use in USES}


def test_numbers_alone_need_what_the_limit_states(vault):
    rows = table().select(["wage", "hours"])
    found = recommended(vault.register("t", rows), rows)
    # hidden is the privacy itself, and normal columns leave a joint adversary no more
    for use, each in found.items():
        assert each.privacy == pytest.approx(LIMITS["left"].allowed[use], abs=0.051)
        assert each.privacy >= LIMITS["left"].allowed[use] - 1e-9
        assert not each.untested
        sizes = {name: rows[name].to_numpy().std() for name in rows.column_names}
        [name] = [name for name in sizes if f"{name} can be" in each.words]
        limit = 1.645 * sizes[name] * np.sqrt(LIMITS["left"].allowed[use])
        stated = float(each.words.partition("limit ±")[2].partition(";")[0])
        assert stated == pytest.approx(limit, rel=0.01)


def test_what_was_not_read_is_said(vault):
    dataset = vault.register("t", table(), keep=["sex"])
    found = recommended(dataset)["partner"]
    assert found.untested == ("records that stand out", "rows that agree in unchanged columns")


def test_kept_columns_that_single_out_fit_no_use_at_any_level(vault):
    rows = table()
    found = recommended(vault.register("t", rows, keep=["sex", "zip"]), rows)
    for use in ("internal", "partner"):  # four rows of 3,000 are few enough
        assert found[use].privacy is not None
    public = found["public"]
    assert public.privacy is None
    assert "4 rows agree with fewer than 10 others in sex, zip" in public.words
    assert "What to do: refresh sex, zip as a category" in public.words
    # the control: by sex alone nobody is found
    other = recommended(vault.register("o", table(1), keep=["sex"], drop=["zip"]), table(1))
    assert other["public"].privacy is not None


@pytest.mark.filterwarnings("ignore::cornerwave.errors.CornerwaveWarning")
def test_groups_are_of_persons_where_there_are_some(vault):
    person = np.repeat(np.arange(600), 5)
    rng = np.random.default_rng(3)
    clinic = pa.table(
        {
            "person": person,
            "x": rng.normal(size=600)[person] + rng.normal(size=ROWS),
            "town": [f"t{p % 100 if p else 'one'}" for p in person],
        }
    )
    dataset = vault.register("t", clinic, unit="person", keep=["town"], shuffle=True)
    found = kept_groups(dataset.frozen, open_source(clinic))
    # 599 persons in 100 towns, about six each, and one alone with all five rows
    assert found.columns == ("town",)
    assert found.rows_below(2) == 5
    assert found.rows_below(6) == 5 + 5 * 5
    assert found.rows_below(7) == ROWS


def test_a_key_that_is_released_finds_everybody(vault):
    rows = table().append_column("id", pa.array(np.random.default_rng(5).permutation(ROWS)))
    dataset = vault.register("t", rows, key="id", key_as_is=True, shuffle=True)
    assert kept_groups(dataset.frozen, open_source(rows)).rows_below(2) == ROWS
    found = recommended(dataset, rows)
    assert [each.privacy for each in found.values()] == [None] * 3
    assert "refresh id" not in found["internal"].words
    assert "pseudonym" in found["internal"].words


def test_records_that_stand_out_keep_a_table_from_the_public(vault):
    rng = np.random.default_rng(6)
    x = rng.normal(size=ROWS)
    x[0] = 22.0
    rows = pa.table({"x": x, "y": rng.normal(size=ROWS)})
    found = recommended(vault.register("t", rows), rows)
    assert found["partner"].privacy is not None
    assert found["public"].privacy is None
    assert "1 record stands out in the copy (limit none)" in found["public"].words
    assert "on their ranks (transform)" in found["public"].words
    ranked = recommended(vault.register("r", rows, transform={"x": "rank"}, unrelated=["t"]), rows)
    assert ranked["public"].privacy is not None


def test_a_privacy_that_cannot_be_had_names_what_to_change(vault):
    rng = np.random.default_rng(7)
    grade = rng.integers(0, 5, ROWS)
    rows = pa.table(
        {"wage": 10.0 * grade + rng.normal(0, 9, ROWS), "grade": [f"g{g}" for g in grade]}
    )
    dataset = vault.register("t", rows, keep=["grade"])
    found = recommended(dataset, rows)["public"]
    assert found.privacy is None
    assert f"the highest privacy is {dataset.frozen.hidden.highest:g}" in found.words
    assert "What to do: refresh grade as a category instead of keeping it" in found.words
    what = advice(dataset.frozen)
    assert "wage is exposed by grade, which copies show without noise: from it alone" in str(what)
    known, blind = (1.645 * np.std(rows["wage"].to_numpy()) * f for f in (9 / 16.8, 1.0))
    [line] = [line for line in what.sentences if "is exposed by" in line]
    stated = [float(part.split(";")[0]) for part in line.split("±")[1:]]
    assert stated == pytest.approx([known, blind], rel=0.05)
    assert "takes noise" not in " ".join(what.sentences)
    assert "grade reveals 72% of wage" in what.details


def test_nothing_to_advise_of_columns_that_reveal_nothing(vault):
    found = advice(vault.register("t", table()).frozen)
    assert replace(found, sentences=()) == Advice()
    [linked] = found.sentences  # rows of several numbers can be found whatever these reveal
    assert "somebody who knows all of a row finds it" in linked


def test_linked_tables_need_what_the_worst_of_them_needs(vault):
    rows, other = table(), table(8)
    one = recommended(vault.register("one", rows.select(["wage", "hours"])), rows)["public"]
    zips = recommended(vault.register("two", other, keep=["zip"]), other)["public"]
    assert zips.privacy is None
    assert recommend_for_all({"a": one, "b": one}).privacy == one.privacy
    both = recommend_for_all({"a": one, "b": zips})
    assert both.privacy is None
    assert "b: even at" in both.words.lower()


def test_another_use_is_refused():
    assert checked_uses(["public", "public"]) == ("public",)
    assert checked_uses([]) == USES
    with pytest.raises(LevelError, match="'press'; choose internal, partner, public"):
        checked_uses(["press"])


# --- the next wave of a survey --------------------------------------------------------------


def wave(seed: int, *, cents: bool = False, coded: bool = False) -> pa.Table:
    rng = np.random.default_rng(seed)
    wage = 30 + 8 * rng.normal(size=ROWS)
    towns = rng.choice(["Ulm", "Bonn", "Kiel"], ROWS, p=[0.5, 0.3, 0.2])
    return pa.table(
        {
            "wage": wage * (100 if cents else 1),
            "hours": rng.gamma(4, 9, ROWS),
            "town": np.where(towns == "Kiel", "KI", towns) if coded else towns,
        }
    )


def test_the_next_wave_differs_in_words(vault):
    transform = {"hours": "rank"}
    first = vault.register("first", wave(1), transform=transform).frozen
    second = vault.register("second", wave(2), transform=transform).frozen
    assert is_same_survey(first, second)
    assert list(changed_since(first, second)) == []
    cents = vault.register("cents", wave(3, cents=True, coded=True), transform=transform).frozen
    said = list(changed_since(first, cents))
    higher, wider, new, gone, moved = said
    mean, size = first.mean[0], np.sqrt(first.covariance[0, 0])
    shift = float(higher.removeprefix("wage is ").partition(" deviations higher")[0])
    assert shift == pytest.approx((3000 - mean) / size, rel=0.02)
    times = float(wider.removeprefix("wage varies ").removesuffix(" times as much"))
    assert times == pytest.approx(100, rel=0.05)
    assert new == "town has 1 value that it had not"
    assert gone == "town lacks 1 value that it had"
    share = float(moved.removeprefix("town has other values in ").removesuffix("% of the rows"))
    assert share == pytest.approx(20, abs=4)
    assert "KI" not in " ".join(said)
    other = vault.register("other", wave(4), drop=["town"], transform=transform).frozen
    assert not is_same_survey(first, other)
