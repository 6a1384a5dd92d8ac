"""What a first look leaves to the owner, what it takes as codes, and what it leaves alone."""

import datetime
import re
import string
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.inspection import _texts, draft, inspect
from cornerwave.inspection._words import words_of
from cornerwave.sources import open_source
from cornerwave.vault import Vault
from tests.fuzz.attempts import run

ROWS = 400
SYLLABLES = [consonant + vowel for consonant in "bdfglmnprstvwz" for vowel in "aeiou"]


def chance(seed=0):
    return np.random.default_rng(seed)


def picked(values, seed=0):
    """Values in random order, each as often as the others."""
    return pa.array([values[i % len(values)] for i in chance(seed).permutation(ROWS)])


def words(number, seed=0):
    """Different capitalised words."""
    rng, found = chance(seed), {}
    while len(found) < number:
        found["".join(rng.choice(SYLLABLES, 3)).capitalize()] = None
    return list(found)


def pairs(number):
    return [f"{a} {b}" for a, b in zip(words(number, 1), words(number, 2), strict=True)]


def iban(number):
    account = f"{number:018d}"
    check = 98 - int(account + "131400") % 97  # DE is 13 14
    return f"DE{check:02d}{account}"


def card(number):
    body = f"4{number:014d}"
    doubled = [int(d) * (2 - place % 2) for place, d in enumerate(reversed(body))]
    return body + str(-sum(d - 9 * (d > 9) for d in doubled) % 10)


def days(first, last, number=ROWS):
    return pa.array(chance().integers(first, last, number).astype(np.int32)).view(pa.date32())


NUMBERS = chance(5).integers(10**6, 10**8, ROWS).tolist()
LEFT_TO_THE_OWNER = {
    "Comments": (picked(["nest was never found", "not enough blood", "no sample"]), "free text"),
    "first": (picked(words(60)), "names of people"),
    "last": (picked(words(60)), "names of people"),
    "Vorname": (picked(words(9)), "names of people"),
    "apellidos": (picked(words(30)), "names of people"),
    "patient_name": (picked(words(12)), "names of people"),
    "фамилия": (picked(words(30)), "names of people"),
    "who": (picked(pairs(60)), "names of people: 100%"),
    "entry": (picked([f"Dr. {word}" for word in words(12)]), "names of people"),
    "name": (picked(words(40)), "names"),
    "reply": (picked([f"{w.lower()}@example.org" for w in words(15)]), "e-mail addresses"),
    "remark": (picked([*words(30), "ask ann@example.org"]), "e-mail addresses"),
    "site": (picked([f"https://example.org/{w}" for w in words(15)]), "web addresses"),
    "machine": (picked([f"10.0.{i}.{i * 7 % 250}" for i in range(40)]), "IP addresses"),
    "call": (picked([f"+49 30 {n}" for n in NUMBERS[:50]]), "telephone numbers"),
    "handy": (pa.array(NUMBERS), "a way to reach people"),
    "bank": (picked([iban(n) for n in NUMBERS[:12]]), "IBAN"),
    "paid with": (picked([card(n) for n in NUMBERS[:50]]), "check digit"),
    "paid": (pa.array([int(card(n)[:16]) for n in NUMBERS]), "check digit"),
    "ssn": (pa.array(NUMBERS), "given to one person"),
    "note": (picked([f"{w} came in late with a cold" for w in words(50)]), "free text"),
    "row": (pa.array(chance().permutation(ROWS)), "looks like an identifier"),
    "case_no": (pa.array(NUMBERS), "record number, according to its name"),
    "id": (picked(NUMBERS[:350]), "record number, according to its name"),
    "dob": (days(-9000, 9000), "date of birth"),
    "Geburtsdatum": (days(-9000, 9000), "date of birth"),
    "since": (days(-9000, 15000), "dates of birth?"),
    "birth_year": (picked(list(range(1940, 2005))), "year of birth"),
    "lat": (pa.array(chance().uniform(47, 55, ROWS)), "coordinates"),
    "lng": (pa.array(chance().uniform(6, 15, ROWS)), "coordinates"),
    "where": (
        picked([f"{48 + i / 977:.4f}, {11 + i / 991:.4f}" for i in range(60)]),
        "coordinates",
    ),
    "device": (picked([f"X{n:x}" for n in NUMBERS[:150]]), "150 different codes"),
    "zip": (picked([10_000 + 37 * i for i in range(150)]), "150 postal codes"),
    "free": (picked(words(120)), "120 different texts"),
    "spot": (picked(words(90)), "90 different texts"),  # a fifth of 400 rows
}
CODES = {
    "sex": picked([1, 2]),
    "answer": picked(list(range(10))),
    "plz": picked([10_115, 20_095, 50_667, 80_331, *range(90_000, 90_020)]),
}
LEFT_ALONE = {
    "city": (picked(words(12)), "category"),
    "city_name": (picked(words(12)), "category"),
    "state": (picked(words(50)), "category"),
    "first_visit": (picked(["yes", "no"]), "category"),
    "first": (picked([True, False]), "category"),
    "answer": (picked(["I do not agree with this at all", "I agree with it"]), "category"),
    "wage": (pa.array(np.round(chance().lognormal(8, 0.5, ROWS), 2)), "perturb"),
    "salary": (pa.array((chance().lognormal(8, 0.5, ROWS) // 10 * 10).astype(int)), "perturb"),
    "age": (pa.array(chance().integers(18, 90, ROWS)), "perturb"),
    "children": (picked([0, 1, 2, 3, 4]), "perturb"),
    "account_balance": (pa.array(NUMBERS), "perturb"),
    "admitted": (days(18_000, 19_000), "perturb"),
    "temperature": (pa.array(chance().uniform(-20, 30, ROWS)), "perturb"),
    "long": (pa.array(chance().uniform(6, 15, ROWS)), "perturb"),  # no latitude beside it
    "platform": (pa.array(chance().integers(0, 90, ROWS)), "perturb"),  # 'lat' is part of a word
}


def report(name, values, **others):
    found = inspect(open_source(pa.table({name: values, **others}))).columns
    return found[0]


@pytest.mark.parametrize("name", LEFT_TO_THE_OWNER)
def test_what_must_not_leave_is_left_to_the_owner_with_the_reason(name):
    values, reason = LEFT_TO_THE_OWNER[name]
    found = report(name, values)
    assert found.do == "decide"
    assert any(reason in warning for warning in found.warnings), found.warnings


@pytest.mark.parametrize("name", CODES)
def test_whole_numbers_that_are_codes_are_categories(name):
    assert report(name, CODES[name]).do == "category"


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_plain_columns_are_left_alone(name):
    values, do = LEFT_ALONE[name]
    assert report(name, values).do == do


def test_numbers_stored_as_floats_are_recognised_too():
    for name in ("handy", "ssn", "case_no"):
        assert report(name, pa.array(NUMBERS, pa.float64())).do == "decide"
    assert report("sex", CODES["sex"].cast(pa.float64())).do == "category"
    assert report("wage", pa.array(NUMBERS, pa.float64())).do == "perturb"
    halves = pa.array(chance().uniform(6, 15, ROWS).astype(np.float16))
    assert report("lat", halves).do == "decide"
    assert report("score", halves).do == "perturb"


def test_a_short_table_is_recognised_by_its_names():
    for name in ("id", "ssn", "phone", "lat"):
        values = np.arange(8) / 9 + 50 if name == "lat" else NUMBERS[:8]
        assert report(name, pa.array(values)).do == "decide"
    assert report("wage", pa.array(NUMBERS[:8])).do == "perturb"
    assert report("name", pa.array(words(8))).do == "decide"


def test_long_is_a_longitude_beside_a_latitude():
    degrees = pa.array(chance().uniform(6, 15, ROWS))
    assert report("long", degrees, lat=degrees).do == "decide"


def test_names_are_split_into_words():
    assert {"first", "name", "firstname", "patient"} <= words_of("patientFirst_name2")
    assert "prenom" in words_of("Prénom")
    assert words_of("123") == frozenset()


def test_no_reason_shows_a_value():
    table = pa.table({f"c{i}": v for i, (v, _) in enumerate(LEFT_TO_THE_OWNER.values())})
    text = draft(inspect(open_source(table)))
    for column in table.columns:
        for value in column.to_pylist()[:20]:
            assert (isinstance(value, int) and value < 10**5) or str(value) not in text


def test_zeros_are_counted_and_the_share_is_said():
    spent = np.where(chance().random(ROWS) < 0.7, 0, chance(1).integers(1, 10**4, ROWS))
    share = f"{(spent == 0).mean():.0%} of the values are 0"
    assert any(share in w for w in report("spent", pa.array(spent)).warnings)
    assert not any("are 0" in w for w in report("spent", pa.array(spent + 1)).warnings)


def survey(columns=40):
    rng = chance(3)
    items = {f"item_{i}": rng.normal(size=ROWS) for i in range(1, columns + 1)}
    return pa.table({"city": picked(words(5)), **items, "item_x": picked(words(7))})


def test_alike_columns_are_drafted_as_one_and_register_as_many(tmp_path):
    text = draft(inspect(open_source(survey())))
    content = tomllib.loads(text)
    assert [each["name"] for each in content["column"]] == ["city", "item_*", "item_x"]
    (tmp_path / "draft.toml").write_text(text.replace("# few_rows", "few_rows"))
    dataset = Vault.create(tmp_path / "v").register("s", survey(), schema=tmp_path / "draft.toml")
    assert len(dataset.frozen.schema.perturbed) == 40
    assert dataset.frozen.schema.categories == [("city",), ("item_x",)]
    few = tomllib.loads(draft(inspect(open_source(survey(4)))))
    assert len(few["column"]) == 6


def test_wildcards_of_a_draft_do_not_take_each_others_columns():
    table = survey(6)
    for i in range(6):
        table = table.append_column(f"item_a{i}", pa.array(chance(i).integers(20, 99, ROWS)))
    names = [c["name"] for c in tomllib.loads(draft(inspect(open_source(table))))["column"]]
    assert "item_*" not in names
    assert "item_a*" in names


def test_a_draft_says_what_copies_will_look_like():
    wage = chance().normal(3000, 1000, ROWS)
    table = pa.table({"wage": wage, "age": chance(1).integers(18, 90, ROWS), "c": picked(words(4))})
    looks = inspect(open_source(table)).disclosure.looks
    within = 1.645 * wage.std() * np.sqrt(0.5)
    told = float(looks["wage"].rpartition("±")[2].replace(",", ""))
    assert told == pytest.approx(within, rel=0.05)
    assert looks["age"].startswith(
        "whole numbers with noise; at privacy 0.5 a value can be estimated"
    )
    assert "about 29% of the cells are redrawn" in looks["c"]


def warnings(table, what):
    return [w for w in inspect(open_source(table)).warnings if w.startswith(what)]


def test_warnings_have_numbers_in_them():
    rng = chance(9)
    plain = pa.table({"x": rng.normal(size=2000), "y": rng.normal(size=2000)})
    assert inspect(open_source(plain)).warnings == ()
    [few] = warnings(plain.slice(0, 30), "few rows")
    assert "with 30 rows and 2 numbers, a row makes up 10%" in few
    x = np.append(rng.normal(size=1999), 3.0)  # about normal; one row is far out beside y
    out = pa.table({"x": x, "y": np.append(x[:-1] + 0.1 * rng.normal(size=1999), -3.0)})
    assert "1 of 2,000 records" in warnings(out, "far out")[0]


def test_columns_that_single_rows_out_are_named_with_the_number():
    rng = chance(4)
    zip_, day = rng.integers(0, 60, 2000), rng.integers(0, 50, 2000)
    table = pa.table({"zip": [f"z{z}" for z in zip_], "day": day, "flag": day % 2 == 0})
    _, counts = np.unique(np.stack([zip_, day]), axis=1, return_counts=True)
    [said] = warnings(table, "combinations")
    assert f"together single out {(counts == 1).sum():,} of 2,000" in said
    assert said.startswith(("combinations: 'zip', 'day' tog", "combinations: 'day', 'zip' tog"))


@pytest.mark.parametrize(("sign", "how"), [(1, "higher"), (-1, "lower")])
def test_gaps_that_tell_are_named_and_others_are_not(sign, how):
    rng = chance(6)
    age = rng.normal(size=4000)
    wage = age + 0.5 * rng.normal(size=4000)
    high = sign * wage > 1.0
    table = pa.table({"age": age, "wage": pa.array(wage, mask=high)})
    [said] = warnings(table, "gaps")
    assert f"'wage' is missing in {high.mean():.0%}" in said
    assert f"deviations {how}" in said
    by_chance = pa.table({"age": age, "wage": pa.array(wage, mask=rng.random(4000) < 0.2)})
    assert warnings(by_chance, "gaps") == []


def test_dates_as_text_are_left_to_the_owner():
    first = datetime.date(1950, 1, 1)
    texts = [(first + datetime.timedelta(97 * i)).strftime("%d.%m.%Y") for i in range(200)]
    assert report("d", picked(texts)).do == "decide"


UNBROKEN = {
    "dna": "ACGT",
    "base64": string.ascii_letters + string.digits + "+/",
    "dots": "a.-+",
    "digits": string.digits,
    "capitals": "ABC'",
}


@pytest.mark.slow
def test_long_texts_without_a_space_are_looked_at_in_good_time(tmp_path):
    """A search that begins anew at each letter takes minutes for these, and fails the limit."""
    rng, columns = chance(7), {"x": chance(8).normal(size=100)}
    for name, letters in UNBROKEN.items():
        columns[name] = ["".join(rng.choice(list(letters), 300)) * 200 for _ in range(100)]
    papq.write_table(pa.table(columns), tmp_path / "table.parquet")
    answer = run(["inspect", "table.parquet"], folder=tmp_path)
    assert answer.code == 0, answer.error
    assert "To decide: 5 columns" in answer.out


def test_no_more_of_a_text_is_looked_at_than_its_beginning():
    """An address in the first thousand characters is seen, and one after them is not."""
    for ahead, seen in ((900, True), (1100, False)):
        texts = [f"{'x' * ahead} ann{n}@example.org" for n in range(300)]
        [report] = inspect(open_source(pa.table({"cell": texts}))).columns
        assert any("e-mail addresses" in each for each in report.warnings) == seen


@given(st.text(alphabet="aZ9_.+-@ é,", max_size=14))
def test_an_address_is_found_wherever_it_begins(text):
    """A pattern that tries every place finds the same."""
    anywhere = re.search(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", text)
    found = _texts._EMAIL.search(text)
    assert (found and found.span()) == (anywhere and anywhere.span())


@pytest.mark.parametrize("name", ["recid", "persnum", "id", "Ketchup.hid", "household"])
def test_names_of_things_with_several_rows_are_the_unit_or_left_to_the_owner(name):
    report = of_few_rows_each(name)
    assert report.do == "unit"
    assert "Its 136 values repeat, about 22.1 rows each" in report.warnings[0]
    two = of_few_rows_each(name, beside="subject_id")  # which of them?
    assert two.do == "decide"
    assert "of people or things, according to its name: 136 values" in two.warnings[0]


@pytest.mark.parametrize("name", ["paid", "hits", "num_pets", "family_size"])
def test_measurements_of_the_same_numbers_are_not(name):
    assert of_few_rows_each(name).do == "perturb"


def of_few_rows_each(name, beside="x"):
    rng = np.random.default_rng(3)
    values, others = rng.integers(1000, 1136, 3000), rng.integers(200, size=3000)
    other = values % 7 / 2 if beside == "x" else others
    [report, _, _] = inspect(
        open_source(pa.table({name: values, beside: other, "y": rng.normal(size=3000)}))
    ).columns
    return report
