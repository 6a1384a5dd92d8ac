"""Several rows of a person: refused with what they give away, unless rows are independent.

The attacked table has 10 visits of each person: height and sex are constant, weight has a level
of its own, cost is independent.
"""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave import cli
from cornerwave.choices import Choices
from cornerwave.columns import MISSING_BITS, Scale, decide, hash_texts
from cornerwave.editions import AllRows
from cornerwave.engines.local import survey_table
from cornerwave.errors import ColumnError, Drifted
from cornerwave.inspection import draft, inspect
from cornerwave.privacy import (
    Looked,
    UnitColumns,
    UnitRows,
    find_units,
    left_of_mean,
    left_of_value,
)
from cornerwave.privacy._groups import Groups
from cornerwave.sources import open_source
from cornerwave.spine.rows import RowSecrets, row_ids
from cornerwave.spine.survey import Surveyor, no_rows
from cornerwave.vault import Vault

PERSONS, VISITS = 1000, 10


def visits(persons=PERSONS, visits=VISITS, *, seed=0, digits=3):
    """Return the attacked table, in random order."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), visits)
    rows = rng.permutation(len(person))
    born = rng.integers(0, 25_000, persons)[person].astype("datetime64[D]")
    keys = [f"P{p:05}-{v:02}" for p in range(persons) for v in range(visits)]
    table = pa.table(
        {
            "id": keys,
            "person": person,
            "height": rng.normal(170, 10, persons).round(digits)[person],
            "sex": rng.choice(["f", "m"], persons)[person],
            "weight": rng.normal(70, 12, persons)[person] + rng.normal(0, 6, len(person)),
            "cost": rng.gamma(2, 100, len(person)),
            "born": born,
        }
    )
    return table.take(pa.array(rows))


def shuffled(table, names, seed=1):
    """Return the table with columns in another order: nothing belongs to them any more."""
    rng = np.random.default_rng(seed)
    for name in names:
        place = table.column_names.index(name)
        column = table.column(name).take(pa.array(rng.permutation(len(table))))
        table = table.set_column(place, name, column)
    return table


WAYS = {
    "kept": (["person"], {"keep": ["person"]}),
    "dropped": (["person"], {"drop": ["person"]}),
    "perturbed": (["person"], {}),
    "refreshed": (["person"], {"categorical": ["person"]}),
    "the key's beginning": (["id"], {"key": "id"}),
    "a hidden key's beginning": (["id"], {"key": "id", "drop": ["id"]}),
}
NOISY = ["height", "sex", "weight", "cost"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.first(3)
def test_rows_of_a_person_are_refused_with_what_they_give_away(vault, untouched, way):
    names, choices = WAYS[way]
    table = visits().select([*names, *NOISY])
    with untouched(), pytest.raises(ColumnError, match=f"{names[0]}.* belong together") as e:
        vault.register("clinic", table, **choices)
    assert e.value.use == ("unit", "independent_rows")
    said = str(e.value)
    remedy = "make a column of this part" if names == ["id"] else "name 'person' as the unit"
    assert remedy in said
    assert "'height' (1.00)" in said
    assert "1,000 such groups, about 10 rows each" in said
    assert "leaves 0.091 of a value of" in said  # v / (10 + v) at v = 1
    assert "P000" not in said
    accepted = vault.register("clinic", table, independent_rows=True, **choices)
    assert accepted.frozen.schema.independent_rows
    assert "independent_rows = true" in accepted.schema_file()


def test_a_person_at_the_end_of_a_key_is_found(vault):
    table = visits().select(["id", *NOISY])
    turned = ["/".join(reversed(key.split("-"))) for key in table["id"].to_pylist()]
    serial = [f"{i}{key}" for i, key in enumerate(turned)]
    table = table.set_column(0, "id", [serial])
    with pytest.raises(ColumnError, match=r"id after its last separator.* belong together"):
        vault.register("clinic", table, key="id")
    others = shuffled(table, NOISY)  # the negative control
    assert not vault.register("clinic", others, key="id").frozen.schema.independent_rows


@pytest.mark.parametrize("way", ["dropped", "the key's beginning"])
def test_the_same_cells_in_rows_of_anybody_are_accepted(vault, way):
    names, choices = WAYS[way]
    table = shuffled(visits().select([*names, *NOISY]), NOISY)
    assert not vault.register("clinic", table, **choices).frozen.schema.independent_rows


@pytest.mark.parametrize("beside", [["height"], ["born"]])
def test_persons_that_no_column_names_are_found_by_what_is_equal(vault, beside):
    table = visits().select([*beside, *(name for name in NOISY if name != "height")])
    with pytest.raises(ColumnError, match=f"same '{beside[0]}' belong together"):
        vault.register("clinic", table)


def test_columns_name_persons_together():
    rng, person = np.random.default_rng(3), np.repeat(np.arange(1500), 8)
    town, year, sex = (rng.integers(k, size=1500)[person] for k in (90, 70, 2))
    level = rng.normal(size=1500)[person]
    columns = {
        "town": Looked.of_cells("town", town.astype(np.uint64), town < 0, noisy=True),
        "year": numbers("year", year),
        "sex": Looked.of_cells("sex", sex.astype(np.uint64), sex < 0, noisy=True),
        "weight": numbers("weight", level + 0.4 * rng.normal(size=len(person))),
    }
    [first, *_] = find_units([*columns.values()], rows=len(person))
    assert {"town", "year"} <= {*first.columns}
    other = rng.permutation(len(person))
    columns["town"] = Looked.of_cells("town", town[other].astype(np.uint64), town < 0, noisy=True)
    assert find_units([*columns.values()], rows=len(person)) == []


def numbers(name, values, *, noisy=True):
    return Looked.of_numbers(name, np.asarray(values, dtype=float), noisy=noisy)


def kinds(name, values, *, noisy=True):
    values = np.asarray(values)
    return Looked.of_cells(name, values.astype(np.uint64), values < 0, noisy=noisy)


# --- what is given away ---------------------------------------------------------------------


@pytest.mark.parametrize("rows", [2, 10, 50])
@pytest.mark.parametrize("r", [0.0, 0.3, 0.9, 1.0])
def test_what_is_left_is_that_of_the_best_linear_estimate(rows, r):
    """By inverting the covariance of all rows, which the product does not do."""
    for noise in (0.25, 1.0, 4.0):
        C = np.full((rows, rows), r) + (1 - r) * np.eye(rows)
        left = C - C @ np.linalg.solve(C + noise * np.eye(rows), C)
        assert left_of_value(r, rows, noise) == pytest.approx(left[0, 0], abs=1e-12)
        mean = np.full(rows, 1 / rows)
        share = mean @ left @ mean / (mean @ C @ mean)
        assert left_of_mean(r, rows, noise) == pytest.approx(share, abs=1e-12)


def test_the_products_own_copies_give_away_what_is_said(vault, tmp_path):
    """Declared 0.5: the mean of a person's rows leaves about what the refusal says."""
    table = visits(persons=2000).select(["person", *NOISY])
    dataset = vault.register("clinic", table, drop=["person"], independent_rows=True)
    release = dataset.release(to="partner", privacy=0.5)
    copy = papq.read_table(release.write(tmp_path / "copy.parquet"))
    person = np.asarray(table["person"])
    height, seen = (np.asarray(each["height"], dtype=float) for each in (table, copy))
    level = (np.bincount(person, seen) / np.bincount(person))[person]
    slope, _ = np.polyfit(level, height, 1)
    residual = height - height.mean() - slope * (level - level.mean())
    hidden = residual.var() / height.var()
    noise = release.level.noise
    assert hidden == pytest.approx(left_of_value(1.0, VISITS, noise), rel=6 * np.sqrt(2 / 2000))
    assert hidden < 0.15  # where 0.5 is declared


# --- what is no unit --------------------------------------------------------------------------

TABLES = 60
"""Of independent rows; one alarm among all of them has a probability of 60 ALPHA."""


def random_table(seed):
    """Return columns that have nothing to do with each other, among them some like ids."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(100, 2000))
    ids = rng.integers(max(15, rows // int(rng.integers(2, 30))), size=rows)
    return rows, [
        numbers("id", ids, noisy=False),
        kinds("code", rng.integers(max(2, rows // 8), size=rows)),
        numbers("skewed", rng.lognormal(0, 2, rows).round(1)),
        numbers("rare", rng.random(rows) < 0.02),
        kinds("rare kind", rng.choice(4, rows, p=[0.9, 0.08, 0.01, 0.01])),
        numbers("gaps", np.where(rng.random(rows) < 0.3, np.nan, rng.normal(size=rows))),
        numbers("small", rng.poisson(1.0, rows)),
    ]


def test_independent_rows_raise_no_alarm():
    alarms = [seed for seed in range(TABLES) if _found(*random_table(seed))]
    assert alarms == []


def _found(rows, columns):
    return find_units(columns, rows=rows)


def related(seed=5, rows=6000):
    """Return columns of people that have much to do with each other, but are no unit's."""
    rng = np.random.default_rng(seed)
    school = rng.integers(8, 20, rows)
    age = rng.integers(18, 80, rows)
    skill = 0.2 * school + 0.03 * age + rng.normal(0, 0.3, rows)
    region = rng.integers(30, size=rows)
    return {
        "school": numbers("school", school),
        "age": numbers("age", age),
        "experience": numbers("experience", age - school - 6),  # follows from the others
        "wage": numbers("wage", (np.exp(skill) * 20).round(-1)),
        "hours": numbers("hours", (35 + 2 * skill + rng.normal(0, 3, rows)).round()),
        "rent": numbers("rent", (300 + 80 * skill + 3 * region + rng.normal(0, 40, rows)).round()),
        "region": kinds("region", region),
        "country": kinds("country", region // 5),  # constant in a region
    }


def test_numbers_that_follow_from_each_other_and_categories_are_no_units():
    columns = related()
    rows = len(columns["age"].codes)
    assert find_units([*columns.values()], rows=rows) == []
    assert find_units([c.some(slice(1500)) for c in columns.values()], rows=rows) == []
    # the negative control: the same people, twice
    twice = [c.some(np.repeat(np.arange(rows // 2), 2)) for c in columns.values()]
    assert find_units(twice, rows=rows)


# --- measurements and names -------------------------------------------------------------------


def test_counts_that_determine_others_are_no_units():
    """Hits of players, with total bases and averages that rise with them; many have none."""
    rng = np.random.default_rng(11)
    at_bat = np.where(rng.random(1200) < 0.4, 0, rng.gamma(1, 150, 1200)).round()
    hit = rng.binomial(at_bat.astype(int), 0.25)
    total = hit + rng.binomial(hit, 0.4)
    columns = {
        "hit": numbers("hit", hit),
        "total": numbers("total", total),
        "at_bat": numbers("at_bat", at_bat),
        "average": numbers("average", hit / np.maximum(at_bat, 1)),
        "slugging": numbers("slugging", total / np.maximum(at_bat, 1)),
    }
    assert find_units([*columns.values()], rows=1200) == []
    dropped = [*list(columns.values())[1:], numbers("hit", hit, noisy=False)]
    assert find_units(dropped, rows=1200) == []
    # the negative control: the same groups under numbers in any order, as those of teams
    team = rng.permutation(hit.max() + 1)[hit]
    [unit, *_] = find_units([*dropped[:-1], numbers("team", team, noisy=False)], rows=1200)
    assert unit.columns == ("team",)


def prices(seed=12, rows=1070):
    """Return two prices on sale, and what follows from them: the difference and the discounts."""
    rng = np.random.default_rng(seed)
    week = rng.integers(52, size=rows)
    list_one, list_two = 1.7 + 0.01 * (week // 10), 2.0 + 0.02 * (week // 9)
    off_one, off_two = (rng.choice([0, 0, 0, 0.1, 0.3], size=rows) for _ in range(2))
    one, two = (list_one - off_one).round(2), (list_two - off_two).round(2)
    return [
        numbers("one", one),
        numbers("two", two),
        numbers("difference", (two - one).round(2)),
        numbers("discount one", (off_one / list_one).round(4)),
        numbers("discount two", (off_two / list_two).round(4)),
        numbers("list one", list_one),
        numbers("list two", list_two),
        numbers("loyal", rng.random(rows)),
    ]


def test_columns_that_follow_from_each_other_are_no_reason():
    assert find_units(prices(), rows=1070) == []


def regions(*, persons, seed=13, rows=1230):
    """Return men and the tuition of the place where they lived; or several rows of each."""
    rng = np.random.default_rng(seed)
    place = rng.integers(160, size=rows)
    region = rng.integers(4, size=160)[place]
    tuition = rng.gamma(3, 3, 160).round(3)[place]
    own = rng.normal(size=(6, rows))
    if persons:
        own = rng.normal(size=(6, 160))[:, place] + 0.2 * own
    return [
        numbers("tuition", tuition),
        *(kinds(f"region {k}", (region == k).astype(int)) for k in range(4)),
        *(kinds(f"region at 18 {k}", (region == k).astype(int)) for k in range(4)),
        *(numbers(f"own {n}", x) for n, x in enumerate(own)),
    ]


def test_a_measurement_that_reveals_the_region_is_no_unit_but_one_that_repeats_is():
    assert find_units(regions(persons=False), rows=1230) == []
    assert find_units(regions(persons=True), rows=1230)


def choices(*, called, same=True, seed=14):
    """Return households that choose among brands; prices and displays are those of the day."""
    rng = np.random.default_rng(seed)
    household = np.repeat(np.arange(136), rng.integers(10, 40, 136))
    rows = len(household)
    liked = rng.integers(4, size=136)[household]
    choice = np.where(rng.random(rows) < 0.75, liked, rng.integers(4, size=rows))
    if not same:
        choice = rng.permutation(choice)
    days = [numbers(f"price {n}", rng.normal(size=rows)) for n in range(4)]
    shown = [kinds(f"shown {n}", rng.integers(2, size=rows)) for n in range(8)]
    return rows, [numbers(called, household), kinds("choice", choice), *days, *shown]


def test_one_column_is_enough_if_the_column_is_called_like_an_identifier():
    rows, columns = choices(called="household_id")
    [unit] = find_units(columns, rows=rows)
    assert [each.column for each in unit.agreeing] == ["choice"]
    rows, columns = choices(called="household_id", same=False)
    assert find_units(columns, rows=rows) == []


def test_identifiers_in_the_order_of_an_outcome_are_found():
    """537 children, sorted by whether the mother smokes; only that is constant."""
    rng = np.random.default_rng(15)
    child, smokes = np.repeat(np.arange(537), 4), np.repeat(np.arange(537) >= 350, 4)
    ill = rng.random(537 * 4) < np.repeat(rng.choice([0.05, 0.6], 537, p=[0.8, 0.2]), 4)
    age = np.tile(np.arange(4), 537)
    columns = [kinds("ill", ill.astype(int)), numbers("age", age), kinds("smokes", smokes * 1)]
    [unit] = find_units([numbers("id", child, noisy=False), *columns], rows=2148)
    assert unit.columns == ("id",)
    mixed = rng.permutation(2148)
    other = [numbers("id", child[mixed], noisy=False), *columns]
    assert find_units(other, rows=2148) == []


def test_sizes_of_groups_show_what_was_given_out():
    """As many rows each, as no measurement has; independent draws never look like that."""
    rng = np.random.default_rng(16)
    for each in (2, 4, 25):
        assert Groups(np.repeat(np.arange(200), each), scale=1.0, ordered=True).is_given_out
        for _ in range(20):
            drawn = np.unique(rng.integers(200, size=200 * each), return_inverse=True)[1]
            assert not Groups(drawn, scale=1.0, ordered=True).is_given_out


def test_a_message_states_the_plain_mean_and_the_largest_and_names_whole_columns():
    rng = np.random.default_rng(17)
    model = np.repeat(np.arange(126), [400, *[20] * 125])
    level = rng.normal(size=126)[model]
    part = numbers("model up to its last separator", model, noisy=False)
    whole = numbers("model", model, noisy=False)
    noise = rng.normal(size=(2, len(model)))
    both = [numbers(f"x{n}", level + 0.3 * z) for n, z in enumerate(noise)]
    [unit, *_] = find_units([part, whole, *both], rows=len(model))
    assert unit.columns == ("model",)
    assert "126 such groups, about 23 rows each, at most 400" in str(unit)


def test_the_advice_fits_schools_and_names_the_argument(vault):
    with pytest.raises(ColumnError, match="merely shares a school") as e:
        vault.register("clinic", visits().select(["person", *NOISY]), drop=["person"])
    assert e.value.__notes__ == ["In Python: unit='person' or independent_rows=True"]


@pytest.mark.parametrize("rows", [20, 60, 99])
def test_small_tables_raise_no_alarm(rows):
    person = np.arange(rows) // 2
    assert find_units([numbers("id", person), numbers("x", person % 7)], rows=rows) == []


def test_few_values_are_kinds_of_rows_and_many_rows_of_one_are_no_unit():
    rng = np.random.default_rng(6)
    for values, each in ((10, 20), (30, 900), (40, 100)):
        kind = np.repeat(np.arange(values), each)
        level = rng.normal(size=(3, values))[:, kind] + rng.normal(size=(3, len(kind)))
        columns = [kinds("kind", kind), *(numbers(f"x{i}", x) for i, x in enumerate(level))]
        assert find_units(columns, rows=len(kind)) == []


# --- samples ------------------------------------------------------------------------------------


def test_a_sample_says_what_the_whole_table_says():
    table = visits(persons=2000)
    whole, some = looked_at(table), looked_at(table.slice(0, 3000))
    [first, *_], [again, *_] = (find_units(each, rows=len(table)) for each in (whole, some))
    assert first.columns == again.columns == ("person",)
    assert again.rows_each == pytest.approx(first.rows_each, rel=0.1)
    r = {each.column: each.r for each in again.agreeing}
    for each in first.agreeing:
        assert r[each.column] == pytest.approx(each.r, abs=0.1)


def looked_at(table):
    columns = UnitColumns.of(decide(table.schema, Choices(drop=("person",), key="id")))
    return columns.looked(*map(np.array, columns.of_rows(table, np.arange(len(table)), bytes(32))))


PARTS = {  # as regular expressions: the twin of the kernel
    "up to its last separator": r"(.*[^-_./:#| ])[-_./:#| ]+[^-_./:#| ]*",
    "up to its first separator": r"([^-_./:#| ]+)[-_./:#| ]+.*",
    "after its last separator": r".*[-_./:#| ]([^-_./:#| ]+)",
    "after its first separator": r"[^-_./:#| ]*[-_./:#| ]+([^-_./:#| ].*)",
}


@pytest.mark.parametrize(
    "type_", [pa.string(), pa.large_string(), pa.dictionary("i4", pa.string())]
)
def test_parts_of_texts_are_those_of_a_regular_expression(type_):
    rng = np.random.default_rng(1)
    texts = ["".join(rng.choice(list("-_./:#| aüb7"), length)) for length in [0, 1, 2, 3, 9] * 200]
    texts[7] = None
    column = pa.array([None, *texts], pa.string()).cast(type_)[1:]  # with an offset
    table = pa.table({"name": column, "x": rng.normal(size=len(texts))})
    columns = UnitColumns.of(decide(table.schema, Choices(drop=("name",))))
    assert [which for _, which in columns.parts] == [*PARTS]
    _, cells = columns.of_rows(table, np.arange(len(table)), bytes(32))
    for words, pattern in zip(cells[-len(PARTS) :], PARTS.values(), strict=True):
        found = [re.fullmatch(pattern, each, re.DOTALL) if each else None for each in texts]
        parts = [match and match[1] for match in found]
        assert 100 < sum(part is not None for part in parts) < len(parts) - 100
        expected = np.array([hash_texts(pa.array([part or ""]), bytes(32))[0, 0] for part in parts])
        expected[[part is None for part in parts]] = MISSING_BITS
        assert np.array_equal(words, expected)


def test_what_is_looked_at_adds_up_to_the_bit_in_any_parts():
    table = visits(persons=200)
    schema = decide(table.schema, Choices(drop=("person",), key="id"))
    secrets = RowSecrets.of(lambda purpose: purpose.encode().ljust(32)[:32])
    whole = survey_table(open_source(shuffled(table, NOISY)), schema, secrets)[1].units.ordered
    surveyor = Surveyor(schema, (Scale(None),) * len(schema.perturbed), secrets)
    mixed = shuffled(table, NOISY)
    total = no_rows(surveyor)
    for start in reversed(range(0, len(mixed), 333)):
        part = mixed.slice(start, 333)
        ids, places = row_ids(start, part, schema, secrets), np.arange(start, start + len(part))
        total = total + surveyor.of(ids, part, places)
    for name in ("hashes", "numbers", "cells"):
        assert np.array_equal(getattr(total.units.ordered, name), getattr(whole, name))


def test_what_is_looked_at_and_kept_is_bounded():
    rng = np.random.default_rng(7)
    wide = pa.table({f"x{n}": rng.normal(size=50) for n in range(1500)})
    schema = decide(wide.schema, Choices(drop=tuple(wide.column_names[1:])))
    surveyor = Surveyor(schema, (Scale(None),), RowSecrets.of(lambda _: bytes(32)))
    assert surveyor.unit_rows * surveyor.unit_columns.count <= 1 << 24
    many = rng.normal(size=(20, 9_000))
    hashes = rng.integers(1 << 60, size=9_000).astype(np.uint64)
    kept = UnitRows.of(hashes, many, many.view(np.uint64), rows=10**7)
    assert len(kept.fewest.to_bytes()) < 3 << 20
    again = UnitRows.read(kept.fewest.to_bytes())
    assert np.array_equal(again.words, kept.fewest.words)


# --- appended rows ------------------------------------------------------------------------------


def months(count=4, persons=1500, *, same, seed=8):
    """Return batches under new keys: of the same people, or of others."""
    rng = np.random.default_rng(seed)
    made = []
    for month in range(count):
        if month == 0 or not same:
            first = month * persons if not same else 0
            height = rng.normal(170, 10, persons).round()
            sex, level = rng.choice(["f", "m"], persons), rng.normal(70, 12, persons)
            born = rng.integers(0, 3000, persons).astype("datetime64[D]")
        order = rng.permutation(persons)
        batch = {
            "id": [f"{month} {n}" for n in range(persons)],
            "person": first + order,
            "age": rng.integers(18, 80, persons),
            "height": height[order],
            "sex": sex[order],
            "born": born[order],
            "weight": level[order] + rng.normal(0, 6, persons),
        }
        made.append(pa.table(batch))
    return made


@pytest.mark.parametrize("named", [True, False])
def test_months_of_the_same_people_are_refused(vault, untouched, named):
    first, second, third, _ = months(same=True)
    choices = {"key": "id", "drop": ["id", "person"] if named else ["id"]}
    if not named:
        first, second, third = (each.drop_columns("person") for each in (first, second, third))
    dataset = vault.register("clinic", first, **choices)
    name = "person" if named else "born"
    for batch in (second, third):
        with untouched(), pytest.raises(ColumnError, match=f"same '{name}' belong together") as e:
            dataset.append(batch)
        assert "new rows belong to rows that are there" in str(e.value)


def test_months_of_other_people_are_accepted_and_so_is_what_is_said(vault):
    first, *others = months(same=False)
    dataset = vault.register("clinic", first, key="id", drop=["id", "person"])
    assert [dataset.append(batch).number for batch in others] == [2, 3, 4]
    rng = np.random.default_rng(9)
    again = others[1].set_column(0, "id", pa.array([f"z{n}" for n in range(1500)]))
    heavier = pa.array(np.asarray(again["weight"]) + rng.normal(0, 6, 1500))
    with pytest.raises(ColumnError, match="same 'person' belong together"):
        dataset.append(again.set_column(6, "weight", heavier))


def test_months_of_the_same_people_are_appended_if_rows_are_independent(vault):
    first, *others = (batch.drop_columns("born") for batch in months(same=True))
    dataset = vault.register("clinic", first, key="id", drop=["person"], independent_rows=True)
    assert [dataset.append(batch).number for batch in others] == [2, 3, 4]


def waves(count=4, persons=1200, *, same, in_order=False, seed=5):
    """Return batches of people who are known by what copies show of them: year, sex and height."""
    rng = np.random.default_rng(seed)
    made = []
    for wave in range(count):
        if wave == 0 or not same:
            year, height = rng.integers(1930, 1990, persons), rng.normal(170, 10, persons).round()
            sex, u = rng.choice(["f", "m"], persons), rng.normal(size=(2, persons))
        order = np.arange(persons) if in_order else rng.permutation(persons)
        z = 0.9 * u[:, order] + 0.44 * rng.normal(size=(2, persons))
        shown = {"year": year[order], "sex": sex[order], "height": height[order]}
        ids = [f"{wave} {n}" for n in rng.permutation(persons)]
        made.append(pa.table({"id": ids, **shown, "pressure": z[0], "weight": z[1]}))
    return made


@pytest.mark.parametrize("says_so", [True, False])
def test_waves_that_kept_columns_join_are_refused(vault, untouched, says_so):
    first, second, *_ = waves(same=True)
    keep = ["year", "sex", "height"]
    dataset = vault.register("clinic", first, key="id", keep=keep, independent_rows=says_so)
    with untouched(), pytest.raises((Drifted, ColumnError)) as e:
        dataset.append(second)
    if says_so:
        assert "copies of all editions at privacy 0.5 would reveal" in str(e.value)
        assert "update these rows instead of appending more" in str(e.value)


@pytest.mark.slow
def test_waves_of_other_people_are_accepted_and_hide_what_they_state(vault):
    """The attack: average the copy over rows that share what stands without noise."""
    batches, keep = waves(same=False), ["year", "sex", "height"]
    dataset = vault.register("clinic", batches[0], key="id", keep=keep)
    assert [dataset.append(batch).number for batch in batches[1:]] == [2, 3, 4]
    copy = dataset.release(to="partner", privacy=0.5).to_arrow().to_pandas()
    truth = pa.concat_tables(batches).to_pandas()
    means = copy.groupby(keep)["pressure"].transform("mean")
    A = np.column_stack([np.ones(len(copy)), copy["pressure"], means])
    x = truth["pressure"].to_numpy()
    left = x - A @ np.linalg.lstsq(A, x, rcond=None)[0]
    # four standard errors of a share of squares, of 4,800 rows
    assert (left**2).mean() / x.var() > 0.5 - 4 * np.sqrt(2 / len(x)) * 0.5


@pytest.mark.slow
def test_small_batches_are_measured_together(vault):
    first, second, *_ = waves(persons=2000, same=True)
    keep = ["year", "sex", "height"]
    dataset = vault.register("clinic", first, key="id", keep=keep, independent_rows=True)
    batches = (second.slice(start, 150) for start in range(0, 2000, 150))
    with pytest.raises(Drifted, match="copies of all editions"):
        dataset.append_all(batches)
    assert 2 < len(vault.dataset("clinic").editions) < 10


@pytest.mark.parametrize("lost", [0, 40])
def test_waves_in_one_order_are_refused_and_in_a_random_order_are_not(vault, untouched, lost):
    def noisy(batch):
        return batch.select(["id", "pressure", "weight"])

    first, second, *_ = map(noisy, waves(same=True, in_order=True))
    dataset = vault.register("clinic", first, key="id")
    with (
        untouched(),
        pytest.raises(ColumnError, match="come in the order of rows that are in"),
    ):
        dataset.append(second.slice(lost))
    mixed = np.random.default_rng(1).permutation(second.num_rows)
    assert dataset.append(second.take(pa.array(mixed))).number == 2


def test_what_is_kept_of_all_rows_is_small_and_comes_back(tmp_path):
    rng, rows = np.random.default_rng(0), 40_000
    table = pa.table(
        {"x": rng.normal(size=rows), "k": rng.integers(9, size=rows), "t": rng.normal(size=rows)}
    )
    schema = decide(table.schema, Choices(keep=("k", "t")))
    surveyor, survey = survey_table(open_source(table), schema, RowSecrets.of(lambda _: bytes(32)))
    kept = AllRows.of(survey, surveyor.schema)
    content = kept.to_bytes()
    assert len(content) < 3 << 20
    again = AllRows.read(content)
    assert again.to_bytes() == content
    # of what gets noise, no value is kept: only the means of 255 parts, of 128 rows each
    noisy = again.sample.ordered.numbers[0]
    assert len(np.unique(noisy)) <= 255
    assert not np.isin(noisy, np.asarray(table["x"])).any()


# --- the ways to say it ---------------------------------------------------------------------


def test_a_draft_proposes_a_column_that_names_persons_as_the_unit_and_says_why():
    found = inspect(open_source(visits().select(["person", *NOISY])))
    reports = {report.name: report for report in found.columns}
    assert reports["person"].do == "unit"
    said = draft(found)
    assert "Its 1,000 values repeat, about 10 rows each; it is called like an identifier" in said
    assert "'height' (1.00)" in said
    assert "intraclass correlation: 0 is chance, 1 is equal" in said
    assert "# independent_rows = true" in said
    assert {reports[name].do for name in ("height", "weight", "cost")} == {"perturb"}
    mixed = shuffled(visits().select(["person", *NOISY]), NOISY)
    other = inspect(open_source(mixed.rename_columns(["count", *NOISY])))
    assert {report.name: report.do for report in other.columns}["count"] == "perturb"
    assert "independent_rows" not in draft(other)
    named = inspect(open_source(mixed))  # nothing agrees, but it is called so, and repeats
    assert {report.name: report.do for report in named.columns}["person"] == "unit"
    assert "do not agree more than by chance" in draft(named)
    assert "independent_rows" not in draft(named)


def test_the_command_and_the_schema_file_name_the_choice(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    papq.write_table(visits(persons=300).select(["person", *NOISY]), "clinic.parquet")

    def run(*words):
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        return end.value.code, capsys.readouterr().err

    run("init")
    code, said = run("register", "clinic", "clinic.parquet", "--drop", "person")
    assert code == 2
    assert "(--unit COLUMN, --independent-rows)" in said
    run("inspect", "clinic.parquet", "--out", "schema.toml")
    code, said = run("register", "whole", "clinic.parquet", "--schema", "schema.toml", "--dry-run")
    assert code == 0
    assert "unit: person, a pseudonym in copies; 300 persons, typically 10 rows each" in said
    text = Path("schema.toml").read_text().replace('do = "unit"', 'do = "drop"')
    Path("schema.toml").write_text(text)
    code, said = run("register", "clinic", "clinic.parquet", "--schema", "schema.toml")
    assert code == 2
    assert '(do = "unit", independent_rows = true)' in said
    Path("schema.toml").write_text(text.replace("# independent_rows", "independent_rows"))
    code, said = run("register", "clinic", "clinic.parquet", "--schema", "schema.toml")
    assert code == 0
    assert "rows: independent" in said
    Path("schema.toml").write_text('independent_rows = "yes"\n')
    code, said = run("register", "other", "clinic.parquet", "--schema", "schema.toml")
    assert code == 2
    assert "independent_rows must be true or false" in said


def test_the_choice_is_no_part_of_the_identity(vault, tmp_path):
    table = shuffled(visits(persons=200).select(["person", *NOISY]), NOISY)
    other = Vault.create(tmp_path / "other", key_file=vault.path / "key")
    said = other.register("clinic", table, independent_rows=True)
    assert said.id == vault.register("clinic", table).id
