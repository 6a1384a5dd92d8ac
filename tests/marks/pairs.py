"""Pairs of tables: honest ones that have much in common, and one table registered twice.

Each is (first table, its choices, second table, its choices).
"""

import datetime as dt

import numpy as np
import pyarrow as pa

COLUMNS = ("id", "age", "wage", "city", "grade", "born", "level", "spare")
WITHOUT_KEY = {"drop": ["id"]}
CITIES = ["Aachen", "Bern", "Como", "Delft", "Evora"]


def people(rng, rows):
    """Persons: a key, ages, wages in cents, a city, a grade, a birthday, a measurement."""
    age = rng.integers(18, 90, rows)
    born = np.datetime64("2020-01-01") - (365 * age + rng.integers(0, 365, rows))
    return pa.table(
        {
            "id": [f"p{number:06}" for number in rng.permutation(10 * rows)[:rows]],
            "age": age,
            "wage": np.round(rng.lognormal(8, 0.5, rows), 2),
            "city": rng.choice(CITIES, rows, p=[0.4, 0.25, 0.15, 0.12, 0.08]),
            "grade": rng.integers(1, 6, rows),
            "born": born,
            "level": rng.normal(0, 1, rows),
            "spare": rng.normal(0, 1, rows),
        }
    )


def dropping(table, *used):
    return {"drop": [name for name in table.column_names if name not in used]}


def days(rows, every=1):
    return [dt.date(1975, 1, 31) + dt.timedelta(days=every * number) for number in range(rows)]


def months(rows):
    firsts = np.datetime64("1975-02") + np.arange(rows)
    return firsts.astype("datetime64[D]") - np.timedelta64(1, "D")


def working_days(rows):
    """Mondays to Fridays without a few holidays, which both tables leave out."""
    chosen = [
        d
        for d in days(2 * rows)
        if d.weekday() < 5 and (d.month, d.day) not in {(1, 1), (5, 1), (7, 4), (12, 25), (12, 26)}
    ]
    return chosen[:rows]


# --- honest pairs -----------------------------------------------------------------------


def two_populations(rng, rows):
    a, b = people(rng, rows), people(rng, rows)
    return a, {"key": "id"}, b, {"key": "id"}


def two_sizes(rng, rows):
    a, b = people(rng, rows), people(rng, rows // 5)
    return a, {"drop": ["id"]}, b, {"drop": ["id"]}


def ages_alone(rng, rows):
    a, b = people(rng, rows), people(rng, rows)
    return a, dropping(a, "age"), b, dropping(b, "age")


def sorted_by_age(rng, rows):
    a, b = (people(rng, rows).sort_by("age") for _ in range(2))
    return a, {"drop": ["id"]}, b, {"drop": ["id"]}


def sorted_by_city_and_age(rng, rows):
    by = [("city", "ascending"), ("age", "ascending")]
    a, b = (people(rng, rows).sort_by(by) for _ in range(2))
    return a, {"drop": ["id"]}, b, {"drop": ["id"]}


def row_numbers(rng, rows):
    a, b = (people(rng, rows).append_column("row", [np.arange(1, rows + 1)]) for _ in range(2))
    return a, {"drop": ["id"]}, b, {"drop": ["id"]}


def row_numbers_in_another_order(rng, rows):
    a, b = (people(rng, rows).append_column("row", [rng.permutation(rows)]) for _ in range(2))
    return a, {"drop": ["id"]}, b, {"drop": ["id"]}


def row_numbers_with_gaps(rng, rows):
    """Numbers of the rows that a filter left; in one table the last of them come first."""

    def left(size):
        return np.cumsum(np.where(rng.random(size) < 0.98, 1, rng.integers(2, 40, size)))

    return pa.table({"row": left(rows)}), {}, pa.table({"row": np.roll(left(3 * rows), rows)}), {}


def keys_that_are_row_numbers(rng, rows):
    a, b = (people(rng, rows).set_column(0, "id", [np.arange(rows)]) for _ in range(2))
    return a, {"key": "id"}, b, {"key": "id"}


def numbers_from_one_pool(rng, rows):
    a, b = (
        people(rng, rows).append_column("number", [rng.permutation(10 * rows)[:rows] + 10**6])
        for _ in range(2)
    )
    return a, {"drop": ["id"]}, b, {"drop": ["id"]}


def visits(rng, rows):
    """Long format: three visits of each person, one after the other, two arms in turn."""
    visit, arm = np.arange(rows) % 3 + 1, np.array(["x", "y"])[np.arange(rows) // 3 % 2]
    a, b = (
        people(rng, rows).append_column("visit", [visit]).append_column("arm", [arm])
        for _ in range(2)
    )
    numbered = {"key": "id"}
    a = a.set_column(0, "id", [np.arange(rows)])
    b = b.set_column(0, "id", [np.arange(rows)])
    return a, numbered, b, numbered


def series(dates):
    def pair(rng, rows):
        column = pa.array(dates(rows))
        a, b = (
            pa.table(
                {"date": column, "x": rng.normal(0, 1, rows), "rain": rng.choice(["y", "n"], rows)}
            )
            for _ in range(2)
        )
        return a, {}, b, {}

    return pair


def hours(rows):
    return np.datetime64("2024-01-01T00:00:00") + np.arange(rows) * np.timedelta64(3600, "s")


def shuffled_dates(rng, rows):
    a, ca, b, cb = series(days)(rng, rows)
    return a.take(rng.permutation(rows)), ca, b.take(rng.permutation(rows)), cb


def panel(rng, rows):
    """Regions by months: the same in both tables, and other figures."""
    month = np.tile(months(rows // 10), 10)
    region = np.repeat([f"r{n}" for n in range(10)], rows // 10)
    a, b = (
        pa.table({"region": region, "month": month, "x": rng.poisson(40, len(region))})
        for _ in range(2)
    )
    return a, {}, b, {}


def plan(rng, rows):
    """Every combination of factors once, and a rare yes."""
    first = rows // 30
    grid = np.stack(np.meshgrid(np.arange(first), np.arange(6), np.arange(5)), -1).reshape(-1, 3)
    a, b = (
        pa.table(
            {
                "dose": grid[:, 0] * 5,
                "group": np.array(list("abcdef"))[grid[:, 1]],
                "site": np.array(list("vwxyz"))[grid[:, 2]],
                "yes": rng.random(len(grid)) < 0.3,
                "y": rng.normal(0, 1, len(grid)),
            }
        )
        for _ in range(2)
    )
    return a, {}, b, {}


def round_wages(rng, rows):
    """One table in whole hundreds, the other in cents with many whole hundreds in it."""
    cents = np.round(rng.lognormal(8, 0.5, rows), 2)
    cents = np.where(rng.random(rows) < 0.5, np.round(cents, -2), cents)
    hundreds = np.round(rng.lognormal(8, 0.5, rows // 2), -2)
    return pa.table({"wage": cents}), {}, pa.table({"wage": hundreds}), {}


def whole_wages(rng, rows):
    a, b = (pa.table({"wage": np.round(rng.lognormal(8, 0.5, rows))}) for _ in range(2))
    return a, {}, b, {}


def delays_and_counts(rng, rows):
    """Minutes, most of them few, of many flights; cells in the blood of fewer patients."""
    many = min(60 * rows, 100_000)
    minutes = np.where(rng.random(many) < 0.97, rng.exponential(30, many), 600 * rng.random(many))
    cells = np.abs(rng.normal(330, 175, rows))
    return pa.table({"delay": np.rint(minutes)}), {}, pa.table({"cells": np.rint(cells)}), {}


def days_and_starts(rng, rows):
    """Days without a drink, mostly none; days until a start, most of them few."""
    days = np.where(rng.random(rows) < 0.5, 0, rng.gamma(0.6, 150, rows))
    starts = np.where(rng.random(8 * rows) < 0.6, 0, rng.gamma(0.3, 300, 8 * rows))
    return pa.table({"days": np.rint(days)}), {}, pa.table({"start": np.rint(starts)}), {}


def years_and_areas(rng, rows):
    """Every year of three thousand once, and some far away; areas of whole square feet."""
    far = -rng.integers(5_000, 800_000, rows // 20)
    years = rng.permutation(np.concatenate([np.arange(-900, 2100), far]))
    areas = np.rint(np.abs(rng.normal(900, 300, rows)))
    return pa.table({"year": years}), {}, pa.table({"area": areas}), {}


def numbers_of_members(rng, rows):
    """Numbers of which either club has given away two thirds."""
    a, b = (
        pa.table({"member": rng.permutation(3 * rows // 2)[:rows], "x": rng.normal(0, 1, rows)})
        for _ in range(2)
    )
    return a, {}, b, {}


def many_zeros(rng, rows):
    a, b = (
        pa.table(
            {"spent": np.where(rng.random(rows) < 0.9, 0.0, np.round(rng.exponential(50, rows), 2))}
        )
        for _ in range(2)
    )
    return a, {}, b, {}


def flags(rng, rows):
    """Two rare, correlated flags of the same persons, in the same order, under the same key."""
    ids = [f"p{n}" for n in range(rows)]
    one = rng.random(rows) < 0.08
    two = np.where(rng.random(rows) < 0.5, one, rng.random(rows) < 0.08)
    return (
        pa.table({"id": ids, "a": one}),
        {"key": "id"},
        pa.table({"id": ids, "b": two}),
        {"key": "id"},
    )


def places_and_people(rng, rows):
    """Places by name, kept, each once; people who live in one of them."""
    names = np.array([f"town {n}" for n in range(rows // 20)])
    places = pa.table({"town": names, "height": np.round(rng.normal(300, 90, len(names)), 1)})
    persons = pa.table({"town": rng.choice(names, rows), "age": rng.integers(18, 90, rows)})
    return places, {"keep": ["town"]}, persons, {}


def kept_in_both(rng, rows):
    a, b = people(rng, rows), people(rng, rows)
    b = b.set_column(2, "wage", a.column("wage")).set_column(3, "city", a.column("city"))
    return (
        a,
        {"drop": ["id"], "keep": ["wage", "city"]},
        b,
        {"drop": ["id"], "keep": ["wage", "city"]},
    )


def dropped_in_one(rng, rows):
    a, b = people(rng, rows), people(rng, rows)
    b = b.set_column(2, "wage", a.column("wage")).set_column(3, "city", a.column("city"))
    return a, {"drop": ["id", "wage", "city"]}, b, {"drop": ["id"]}


def mostly_missing(rng, rows):
    def one():
        gaps = rng.random(rows) < 0.9
        return pa.table(
            {"x": pa.array(rng.integers(0, 9, rows), mask=gaps), "y": rng.normal(0, 1, rows)}
        )

    return one(), {}, one(), {}


HONEST = {
    "two populations": two_populations,
    "two sizes": two_sizes,
    "ages alone": ages_alone,
    "sorted by age": sorted_by_age,
    "sorted by city and age": sorted_by_city_and_age,
    "row numbers": row_numbers,
    "row numbers in another order": row_numbers_in_another_order,
    "row numbers with gaps": row_numbers_with_gaps,
    "keys that are row numbers": keys_that_are_row_numbers,
    "numbers from one pool": numbers_from_one_pool,
    "visits": visits,
    "days": series(days),
    "weeks": series(lambda rows: days(rows, 7)),
    "months": series(months),
    "working days": series(working_days),
    "hours": series(hours),
    "shuffled dates": shuffled_dates,
    "panel": panel,
    "plan": plan,
    "round wages": round_wages,
    "whole wages": whole_wages,
    "delays and counts": delays_and_counts,
    "days and starts": days_and_starts,
    "years and areas": years_and_areas,
    "numbers of members": numbers_of_members,
    "many zeros": many_zeros,
    "flags": flags,
    "places and people": places_and_people,
    "kept in both": kept_in_both,
    "dropped in one": dropped_in_one,
    "mostly missing": mostly_missing,
}


# --- one table twice --------------------------------------------------------------------


def twice(change, first=WITHOUT_KEY, second=None):
    """One table, registered with some choices, then changed and registered with others."""

    def pair(rng, rows):
        table = people(rng, rows)
        return table, first, change(table, rng), second or first

    return pair


def only(*names):
    """Choices for some columns of `people`."""
    return {"drop": [name for name in COLUMNS if name not in names]}


def keeping(name):
    """Choices that keep one column, and perturb one that no other case uses."""
    return only(name, "spare") | {"keep": [name]}


def the_same(table, rng):
    return table


def shuffled(table, rng):
    return table.take(rng.permutation(table.num_rows))


def one_row_fewer(table, rng):
    lost = rng.integers(0, table.num_rows)
    return table.take(np.delete(np.arange(table.num_rows), lost))


def first_row_fewer(table, rng):
    return table.slice(1)


def a_fifth(table, rng):
    return table.take(rng.permutation(table.num_rows)[: table.num_rows // 5])


def more_rows(table, rng):
    return pa.concat_tables([table, people(rng, table.num_rows // 2)])


def cells_changed(table, rng):
    """One cell of each column is that of another row, in a twentieth of the rows."""
    for place, name in enumerate(table.column_names[1:], 1):
        rows = np.arange(table.num_rows)
        changed = rng.random(table.num_rows) < 0.05
        rows[changed] = rng.integers(0, table.num_rows, changed.sum())
        table = table.set_column(place, name, table.column(name).take(rows))
    return table


def rows_changed(table, rng):
    new = people(rng, table.num_rows)
    changed = rng.random(table.num_rows) < 0.05
    rows = np.where(changed, table.num_rows + np.arange(table.num_rows), np.arange(table.num_rows))
    return pa.concat_tables([table, new]).take(rows)


def renamed(table, rng):
    return table.rename_columns(["id", *(f"c{n}" for n in range(table.num_columns - 1))])


def as_type(name, type_):
    def change(table, rng):
        place = table.column_names.index(name)
        return table.set_column(place, name, table.column(name).cast(type_))

    return change


def as_text(name, form=str):
    def change(table, rng):
        place = table.column_names.index(name)
        texts = [form(value) for value in table.column(name).to_pylist()]
        return table.set_column(place, name, [texts])

    return change


def then(*changes):
    def change(table, rng):
        for each in changes:
            table = each(table, rng)
        return table

    return change


LOW = ("age", "city", "grade")
KEYED = {"key": "id", "drop": [name for name in COLUMNS if name not in ("id", "city")]}

REPEATED = {
    "the same, in other choices": twice(the_same, {"drop": ["id"]}, {"key": "id"}),
    "a category by position, then by key": twice(the_same, only("city"), KEYED),
    "a category by key, then by position": twice(the_same, KEYED, only("city")),
    "a category by key, shuffled": twice(shuffled, KEYED, KEYED),
    "a category by key, a fifth of the rows": twice(a_fifth, KEYED, KEYED),
    "a category by key, cells changed": twice(then(shuffled, cells_changed), KEYED, KEYED),
    "a category, one row fewer": twice(one_row_fewer, only("city")),
    "a category, the first row fewer": twice(first_row_fewer, only("city")),
    "a category, cells changed": twice(cells_changed, only("city")),
    "a category and other columns": twice(the_same, only("city", "wage"), only("city", "level")),
    "whole numbers as numbers, then as categories": twice(
        the_same, only("grade"), only("grade") | {"categorical": ["grade"]}
    ),
    "whole numbers, then text": twice(as_text("grade"), only("grade")),
    "whole numbers, then floats": twice(as_type("grade", pa.float64()), only("grade")),
    "perturbed, then kept": twice(the_same, only("wage"), keeping("wage")),
    "kept, then perturbed": twice(the_same, keeping("wage"), only("wage")),
    "a category, then kept": twice(the_same, only("city"), keeping("city")),
    "ages, then kept": twice(the_same, only("age"), keeping("age")),
    "double, then single precision": twice(as_type("level", pa.float32()), only("level")),
    "single precision, shuffled": twice(
        then(as_type("level", pa.float32()), shuffled), only("level")
    ),
    "cents, then single precision": twice(as_type("wage", pa.float32()), only("wage")),
    "numbers, then text that is kept": twice(
        as_text("wage", "{:.2f}".format), only("wage"), keeping("wage")
    ),
    "a date, then its midnight": twice(as_type("born", pa.timestamp("us")), only("born")),
    "a date, then its midnight in ns": twice(as_type("born", pa.timestamp("ns")), only("born")),
    "a date, then its text": twice(as_text("born"), only("born"), keeping("born")),
    "shuffled": twice(shuffled),
    "shuffled categories": twice(shuffled, only(*LOW) | {"categorical": ["grade"]}),
    "shuffled and renamed": twice(then(shuffled, renamed)),
    "renamed": twice(renamed),
    "one row fewer": twice(one_row_fewer),
    "one row fewer, shuffled": twice(then(one_row_fewer, shuffled), only("wage")),
    "rows changed": twice(rows_changed),
    "rows changed, shuffled": twice(then(rows_changed, shuffled), only("level")),
    "a fifth of the rows": twice(a_fifth, only("wage")),
    "a fifth of the rows, with a key": twice(a_fifth, {"key": "id"}),
    "more rows": twice(more_rows, only("level")),
    "more rows, shuffled": twice(then(more_rows, shuffled), only("wage")),
    "days by position": twice(the_same, only("born")),
    "ages by position": twice(the_same, only("age")),
}
