"""A project file: a run does what its plan states, and the next one nothing."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import warnings
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import pytest

from cornerwave import cli
from cornerwave.access import LIVE, Sharing
from cornerwave.choices import DECLARED
from cornerwave.errors import ColumnError, CornerwaveWarning, ProjectError, SourceChanged
from cornerwave.outputs import read_metadata
from cornerwave.project import carry_out, plan_project, read_project, vault_of
from cornerwave.project._project_file import COPY, EDITION, GRANT, PROJECT, RECIPIENT, TABLE
from cornerwave.sources import silent
from cornerwave.vault import Vault
from tests.conftest import make_people
from tests.test_persons import in_parts, slow_costs

ROOT = Path(__file__).parents[1]

SCHEMA = """\
min_count = 5
few_rows = true

[[column]]
name = "id"
do = "key"

[[column]]
name = "height"
do = "drop"

[[column]]
name = "*"
do = "perturb"
"""

PROJECT_TOML = """\
recipients = ["partner", "public"]

[[table]]
name = "people"
source = "people.csv"
schema = "people.toml"

[[table.edition]]
append = "waves/*.csv"

[[table.copy]]
to = "partner"
privacy = 0.5
out = "partner.parquet"

[[table.copy]]
to = "public"
noise = 4
round = ["age"]
clip = { age = [0, inf] }
out = "public.csv"
dictionary = true

[[table.grant]]
to = "partner"
privacy = 0.5
until = 2100-01-31

[[table.grant]]
to = "anybody"
privacy = 0.8

[[table]]
name = "clinic"
source = { patients = "patients.csv", visits = "visits.csv" }

[table.schema]
unit = "patient"

[[table.schema.table]]
name = "patients"
[[table.schema.table.column]]
name = "risk"
do = "perturb"

[[table.schema.table]]
name = "visits"
[[table.schema.table.column]]
name = "visit"
do = "key"
[[table.schema.table.column]]
name = "cost"
do = "perturb"

[[table.copy]]
to = "partner"
privacy = 0.5
out = "clinic.zip"
"""

LINKED = '[[table]]\nname = "clinic"'

LINES = [
    "+ recipient partner",
    "+ recipient public",
    "+ register people: people.csv, by people.toml",
    "+ append people: waves/1.csv, edition 2",
    "+ release people to partner: privacy 0.5, partner.parquet",
    "+ release people to public: noise 4, public.csv",
    "+ grant people to partner: privacy 0.5, until 2100-01-31",
    "+ grant people to anybody: privacy 0.8",
    "+ register clinic: patients=patients.csv, visits=visits.csv, as this file states",
    "+ release clinic to partner: privacy 0.5, clinic.zip",
]


def people(rows, first=0, seed=7):
    table = make_people(rows, seed)
    return table.set_column(0, "id", pa.array([f"p{row}" for row in range(first, first + rows)]))


def clinic(persons=120):
    rng = np.random.default_rng(3)
    level, names = rng.normal(size=persons), np.array([f"P{i:03d}" for i in range(persons)])
    who = rng.permutation(np.repeat(np.arange(persons), 1 + rng.poisson(2, persons)))
    cost = np.round(100 + 20 * (level[who] + rng.normal(size=len(who))), 2)
    patients = pa.table({"patient": names, "risk": np.round(50 + 10 * level, 3)})
    return patients, pa.table({"visit": np.arange(len(who)), "patient": names[who], "cost": cost})


def write_project(folder):
    (folder / "waves").mkdir(parents=True)
    (folder / "cornerwave.toml").write_text(PROJECT_TOML)
    (folder / "people.toml").write_text(SCHEMA)
    pacsv.write_csv(people(200), folder / "people.csv")
    pacsv.write_csv(people(120, 200, 8), folder / "waves" / "1.csv")
    for name, table in zip(("patients", "visits"), clinic(), strict=True):
        pacsv.write_csv(table, folder / f"{name}.csv")
    Vault.create(folder / ".cornerwave")


def opened(folder):
    return Vault.open(folder / ".cornerwave")


def planned(folder, **options):
    file = read_project(folder)
    return plan_project(file, Vault.open(vault_of(file)), **options)


def lines_of(plan):
    return [str(line) for line in plan.lines]


def bring(folder, **options):
    """Carry out the plan for a folder, and return the lines of what was done."""
    done = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CornerwaveWarning)
        carry_out(planned(folder, **options), done.append, lambda _what: nullcontext(silent))
    return [str(line) for line in done]


def edited(folder, old, new, *, file="cornerwave.toml"):
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))


def command(capfd, *words):
    """Run the command line in this process; return the exit code, results and messages."""
    capfd.readouterr()
    with warnings.catch_warnings(), pytest.raises(SystemExit) as stop:
        cli.main(["run", *map(str, words)])
    out, err = capfd.readouterr()
    return stop.value.code or 0, out.splitlines(), err.splitlines()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project that was brought to what its file states."""
    folder = tmp_path_factory.mktemp("made") / "project"
    write_project(folder)
    assert bring(folder) == LINES
    return folder


@pytest.fixture
def project(made, tmp_path):
    """The same in another folder, as if it had been moved there, with its vault."""
    return Path(shutil.copytree(made, tmp_path / "project"))


# --------------------------------------------------------------------------------------------------
# A run and its plan.


def test_a_run_does_what_the_dry_run_states_and_the_next_one_nothing(
    tmp_path, capfd, monkeypatch, untouched
):
    write_project(tmp_path / "project")
    monkeypatch.chdir("/")  # paths are relative to the file
    with untouched():
        code, plan, messages = command(capfd, tmp_path / "project", "--dry-run")
    assert (code, plan) == (0, LINES)
    assert messages[-1] == "Would do 10 things; nothing was changed"
    code, done, messages = command(capfd, tmp_path / "project" / "cornerwave.toml")
    assert (code, done, messages[-1]) == (0, plan, "Did 10 things")
    with untouched():
        for words in ((), ("--dry-run",), ("--quick",), ("--prune",)):
            code, done, messages = command(capfd, tmp_path / "project", *words)
            assert (code, done) == (0, [])
            assert messages == ["Nothing to do: the vault is as cornerwave.toml states"]


def test_the_vault_is_as_the_file_states(made):
    vault = opened(made)
    dataset = vault.dataset("people")
    assert [each.kind for each in dataset.editions] == ["registered", "appended"]
    held = {(h.recipient, dataset.privacy_of(h.spec.level) >= 0.5) for h in dataset.holdings}
    assert held == {("partner", True), ("public", True)}
    assert "min_count = 5\nfew_rows = true\n" in dataset.schema_file()
    assert read_metadata(made / "partner.parquet").dataset == dataset.id
    assert read_metadata(made / "public.csv").edition == 2
    assert (made / "public.csv.dictionary.html").is_file()
    assert list(vault.linked("clinic")) == ["patients", "visits"]
    live = {(g.recipient, g.until) for g in Sharing(vault).grants(dataset=dataset.id)}
    assert live == {("partner", "2100-01-31T00:00:00.000+00:00"), ("anybody", None)}


def test_json_states_the_same(project, capfd):
    (project / "partner.parquet").unlink()
    edited(project, 'out = "clinic.zip"', 'out = "clinic.zip"\n[[table.grant]]\nto="eve"\nnoise=1')
    edited(project, '"public"]', '"public", "eve"]')
    for words, done in ((["--dry-run"], False), ([], True)):
        code, out, _ = command(capfd, project, "--json", *words)
        stated = json.loads("\n".join(out))
        assert code == 0
        assert [each.pop("done") for each in stated["actions"]] == [done] * 3
        assert [each["action"] for each in stated["actions"]] == ["recipient", "release", "grant"]
        assert stated["actions"][2] == {
            "action": "grant",
            "table": "clinic",
            "recipient": "eve",
            "noise": 1.0,
            "until": None,
            "purpose": "",
            "contract": "",
            "mark": "+",
            "text": "grant clinic to eve: noise 1",
        }
    (project / "people.csv").write_bytes((project / "waves" / "1.csv").read_bytes())
    code, out, err = command(capfd, project, "--json")
    stated = json.loads("\n".join(out))
    assert (code, len(stated["cannot"]), len(err)) == (2, 1, 1)


def test_what_was_done_before_a_refusal_stays_and_is_not_done_again(tmp_path):
    write_project(tmp_path / "project")
    folder = tmp_path / "project"
    patients = pacsv.read_csv(folder / "patients.csv")
    pacsv.write_csv(patients.slice(15), folder / "patients.csv")
    with pytest.raises(ColumnError, match=r"table 'clinic': .*have no row in 'patients'"):
        bring(folder)
    pacsv.write_csv(patients, folder / "patients.csv")
    assert bring(folder) == LINES[-2:]


def test_without_a_vault_none_is_made(tmp_path, capfd, untouched):
    write_project(tmp_path / "project")
    shutil.rmtree(tmp_path / "project" / ".cornerwave")
    with untouched():
        code, out, err = command(capfd, tmp_path / "project")
    assert (code, out) == (2, [])
    assert re.fullmatch(r"cornerwave: there is no vault .*make one first \(cornerwave init\)", *err)


def test_a_vault_of_a_name_that_cannot_be_is_refused_in_one_line(project, capfd):
    edited(project, "recipients", f'vault = "{"n" * 400}"\nrecipients')
    code, out, err = command(capfd, project)
    assert (code, out) == (2, [])
    assert re.search(r"^cornerwave: \S*nnn cannot be read: File name too long$", *err)


def test_the_vault_is_the_one_that_is_named(project, tmp_path, monkeypatch):
    other = tmp_path / "other"
    monkeypatch.setenv("CORNERWAVE_VAULT", str(other))
    assert vault_of(read_project(project)) == other
    edited(project, "recipients", 'vault = "../kept"\nrecipients')
    assert vault_of(read_project(project)) == project / "../kept"
    assert vault_of(read_project(project), other) == other


def test_after_a_lost_ledger_a_run_makes_the_same_again(project):
    names = ["partner.parquet", "public.csv", "clinic.zip"]
    before = {name: (project / name).read_bytes() for name in names}
    for path in (project / ".cornerwave").glob("ledger.db*"):
        path.unlink()
    Vault.create(project / ".cornerwave", new_ledger=True)
    there = " (in place of another copy)"
    copies = [line.replace("+", "~") + there if " release " in line else line for line in LINES]
    assert bring(project) == copies
    assert {name: (project / name).read_bytes() for name in names} == before
    assert bring(project) == []


# --------------------------------------------------------------------------------------------------
# Copies.


def test_a_copy_that_is_gone_is_made_again_byte_for_byte(project):
    names = ["partner.parquet", "public.csv", "clinic.zip"]
    before = {name: (project / name).read_bytes() for name in names}
    holdings = opened(project).dataset("people").holdings
    for name in names:
        (project / name).unlink()
    assert bring(project) == [
        "+ release people to partner: privacy 0.5, partner.parquet (held; the copy is not there)",
        "+ release people to public: noise 4, public.csv (held; the copy is not there)",
        "+ release clinic to partner: privacy 0.5, clinic.zip (held; the copy is not there)",
    ]
    assert {name: (project / name).read_bytes() for name in names} == before
    assert opened(project).dataset("people").holdings == holdings
    assert bring(project) == []


def test_a_dictionary_that_is_gone_is_written_again(project):
    page = project / "public.csv.dictionary.html"
    before = page.read_bytes()
    page.unlink()
    assert bring(project) == [
        "+ release people to public: noise 4, public.csv (held; the dictionary is not there)"
    ]
    assert page.read_bytes() == before


def test_what_else_lies_at_a_place_stays(project, untouched):
    shutil.copy(project / "people.csv", project / "partner.parquet")
    shutil.copy(project / "clinic.zip", project / "public.csv")
    plan = planned(project)
    assert [str(line).partition(" is there")[0] for line in plan.cannot] == [
        "! people: partner.parquet",
        "! people: public.csv",
    ]
    with untouched(), pytest.raises(ProjectError, match="2 things that cannot be done"):
        bring(project)


def test_a_second_level_needs_the_owners_word(project, untouched):
    edited(project, "privacy = 0.5", "privacy = 0.3")
    with untouched():
        [line] = planned(project).cannot
    assert "'partner' has privacy 0.5, and privacy 0.3 would be a second level" in str(line)
    edited(project, "privacy = 0.3", "privacy = 0.3\nanother = true")
    assert bring(project) == [
        "~ release people to partner: privacy 0.3, partner.parquet (in place of another copy)"
    ]
    assert lines_of(planned(project)) == []  # the grant states 0.5
    edited(project, "privacy = 0.5\nuntil", "privacy = 0.3\nuntil")
    bring(project)
    assert lines_of(planned(project)) == [
        "= partner holds people at privacy 0.5, which is not in the file"
    ]


def test_two_levels_for_one_recipient_in_a_new_table(tmp_path):
    write_project(tmp_path / "project")
    more = '[[table.copy]]\nto = "partner"\nprivacy = 0.7\nout = "more.parquet"\n\n'
    edited(tmp_path / "project", "[[table.grant]]", more + "[[table.grant]]")
    [line] = planned(tmp_path / "project").cannot
    assert "would be a second level" in str(line)


def test_no_copy_of_a_closed_table_is_made(project):
    opened(project).dataset("people").close()
    assert lines_of(planned(project)) == []
    edited(project, "privacy = 0.5", "privacy = 0.3\nanother = true")
    [line] = planned(project).cannot
    assert "closed" in str(line)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["postgresql", "s3"])
def test_copies_in_databases_and_stores_are_looked_at(project, where, request):
    if where == "s3":
        bucket = request.getfixturevalue("bucket")
        edited(project, '"partner.parquet"', f'"{bucket.address("partner.parquet")}"')
    else:
        database = request.getfixturevalue("postgresql_server").fresh()
        edited(project, '"partner.parquet"', f'"{database}#partner"')
        edited(project, '"clinic.zip"', f'"{database}#clinic"')
    assert [line[:9] for line in bring(project)] == ["+ release"] * (1 if where == "s3" else 2)
    assert bring(project) == []
    pacsv.write_csv(people(130, 400, 9), project / "waves" / "2.csv")
    assert [line[:9] for line in bring(project)] == ["+ append ", "~ release", "~ release"]
    assert bring(project) == []


# --------------------------------------------------------------------------------------------------
# Tables and their editions.


def test_the_next_wave_is_appended_or_registered_by_the_same_schema(project):
    pacsv.write_csv(people(130, 400, 9), project / "waves" / "2.csv")
    with (project / "cornerwave.toml").open("a") as file:
        file.write('[[table]]\nname = "abroad"\nsource = "abroad.csv"\nschema = "people.toml"\n')
    pacsv.write_csv(people(210, 1000, 10), project / "abroad.csv")
    assert bring(project) == [
        "+ append people: waves/2.csv, edition 3",
        "~ release people to partner: privacy 0.5, partner.parquet (in place of another copy)",
        "~ release people to public: noise 4, public.csv (in place of another copy)",
        "+ register abroad: abroad.csv, by people.toml",
    ]
    assert bring(project) == []
    assert read_metadata(project / "partner.parquet").rows == 450
    texts = [opened(project).dataset(name).schema_file() for name in ("people", "abroad")]
    assert texts[0] == texts[1]


def test_an_updated_table_needs_no_earlier_files(project):
    first = pa.concat_tables([pacsv.read_csv(project / n) for n in ("people.csv", "waves/1.csv")])
    ages = first["age"].to_numpy().copy()
    ages[::7] += 3
    pacsv.write_csv(first.set_column(1, "age", pa.array(ages)), project / "new.csv")
    edited(project, "[[table.copy]]", '[[table.edition]]\nupdate = "new.csv"\n\n[[table.copy]]')
    assert bring(project)[0] == "+ update people: new.csv, edition 3"
    shutil.rmtree(project / "waves")  # so that no file fits waves/*.csv
    (project / "people.csv").unlink()
    assert bring(project) == []
    (project / "new.csv").unlink()
    [line] = planned(project).cannot
    assert "there is no new.csv" in str(line)


def test_the_same_privacy_may_take_more_noise_where_persons_have_more_rows(tmp_path):
    first, more = in_parts(slow_costs(persons=300), 3, 9)
    papq.write_table(first, tmp_path / "a.parquet")
    (tmp_path / "cornerwave.toml").write_text(
        'recipients = ["ann"]\n[[table]]\nname = "p"\nsource = "a.parquet"\n[table.schema]\n'
        'unit = "patient"\norder = "keep"\nfew_rows = true\n[[table.schema.column]]\nname = "*"\n'
        'do = "perturb"\n[[table.edition]]\nappend = "b*.parquet"\n[[table.copy]]\nto = "ann"\n'
        'privacy = 0.5\nout = "ann.csv"\n[[table.grant]]\nto = "ann"\nprivacy = 0.5\n'
    )
    Vault.create(tmp_path / ".cornerwave")
    assert len(bring(tmp_path)) == 4
    before = opened(tmp_path).dataset("p").levels
    papq.write_table(more, tmp_path / "b.parquet")
    assert bring(tmp_path) == [
        "+ append p: b.parquet, edition 2",
        "~ release p to ann: privacy 0.5, ann.csv (in place of another copy)",
        "~ grant p to ann: privacy 0.5",
    ]
    dataset = opened(tmp_path).dataset("p")
    assert dataset.levels[-1] > before[-1]
    [*_, grant] = Sharing(opened(tmp_path)).grants(dataset=dataset.id)
    assert grant.spec.level == dataset.levels[-1]
    assert bring(tmp_path) == []


def test_a_linked_table_gets_an_edition(project):
    rng = np.random.default_rng(4)
    names = [f"N{i:02d}" for i in range(40)]
    table = pa.table({"patient": names, "risk": np.round(50 + 10 * rng.normal(size=40), 3)})
    pacsv.write_csv(table, project / "patients-2.csv")
    text = '\n[[table.edition]]\ntable = "patients"\nappend = "patients-2.csv"\n'
    with (project / "cornerwave.toml").open("a") as file:
        file.write(text)
    assert bring(project) == [
        "+ append clinic.patients: patients-2.csv, edition 2",
        "~ release clinic to partner: privacy 0.5, clinic.zip (in place of another copy)",
    ]
    assert bring(project) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("people.toml", "min_count = 5", "min_count = 7",
         "min_count is 5 in the vault and 7 in the file"),
        ("people.toml", 'name = "*"\ndo = "perturb"', 'name = "*"\ndo = "perturb"\nround = true',
         "age: round is not stated in the vault and true in the file"),
        ("people.toml", 'do = "drop"', 'do = "perturb"',
         'height: do is "drop" in the vault and "perturb" in the file'),
        ("people.toml", "few_rows = true\n", 'few_rows = true\n[reading]\nmissing = ["7"]\n',
         r'reading, missing is \[\] in the vault and \["7"\] in the file'),
        ("people.toml", '"height"', '"hight"', "no column 'hight'"),
        ("cornerwave.toml", 'append = "waves/*.csv"', 'append = "patients.csv"',
         r"the vault has edition 2, appended from .*1\.csv, and the file has not"),
        ("cornerwave.toml", ', visits = "visits.csv"', "", "differ in 'visits'"),
        ("cornerwave.toml", '{ patients = "patients.csv", visits = "visits.csv" }', '"people.csv"',
         "several linked tables have this name"),
        ("cornerwave.toml", '"people.toml"', '"x.toml"', r"there is no schema file .*x\.toml"),
        ("cornerwave.toml", '"people.csv"', '"nowhere.csv"', "there is no nowhere.csv"),
        ("cornerwave.toml", '"people.csv"', f'"{"n" * 400}.csv"', "there is no nnn"),
        ("cornerwave.toml", '"people.toml"', f'"{"n" * 400}.toml"', "there is no schema file"),
        ("cornerwave.toml", '"partner.parquet"', '"no/x.parquet"', "there is no directory"),
        ("cornerwave.toml", '"partner.parquet"', '"x.txt"', "the ending must be one of"),
        ("cornerwave.toml", "noise = 4", "privacy = 0.9999", "beyond the highest level"),
        ("cornerwave.toml", 'round = ["age"]', 'round = ["id"]', "only perturbed numbers"),
    ],
)  # fmt: skip
@pytest.mark.first(6)
def test_what_differs_and_cannot_be_changed(project, untouched, file, old, new, says):
    edited(project, old, new, file=file)
    with untouched(), pytest.raises(ProjectError, match="nothing was changed"):
        bring(project)
    [line, *_] = planned(project).cannot
    assert str(line).startswith("! ")
    assert re.search(says, str(line)), line


def test_rows_that_changed_in_place_are_seen(project, untouched):
    text = (project / "people.csv").read_text().splitlines()
    (project / "people.csv").write_text("\n".join([*text[:-1], text[-1].replace("p199", "p9999")]))
    [line] = planned(project).cannot
    assert "people.csv has other rows than what was registered" in str(line)
    (project / "people.csv").write_text("\n".join(text) + "\n")
    assert planned(project).cannot == ()


def test_a_quick_run_reads_no_rows_and_the_release_sees_what_changed(tmp_path):
    folder = tmp_path / "project"
    write_project(folder)
    bring(folder)
    pacsv.write_csv(people(200, seed=11), folder / "people.csv")
    assert lines_of(planned(folder, look=False)) == []
    assert len(planned(folder).cannot) == 1
    (folder / "partner.parquet").unlink()
    with pytest.raises(SourceChanged):
        bring(folder, look=False)


def test_a_batch_that_comes_before_one_that_is_there(project):
    pacsv.write_csv(people(130, 400, 9), project / "waves" / "0.csv")
    [line] = planned(project).cannot
    assert "edition 2, waves/1.csv, follows waves/0.csv, which is new" in str(line)


# --------------------------------------------------------------------------------------------------
# Recipients, grants, and what the file no longer has.


def test_what_the_file_no_longer_has_is_named_and_only_grants_end(project, untouched):
    vault = opened(project)
    sharing = Sharing(vault)
    sharing.add("eve")
    sharing.grant("people", "eve", privacy=0.6)
    vault.register("pets", people(200, seed=12), drop=["id", "height"], few_rows=True)
    vault.dataset("people").release(to="zoe", privacy=0.6).to_arrow()
    stays = [
        "= recipient eve is not in the file",
        "= table pets is not in the file",
        "= zoe holds people at privacy 0.6, which is not in the file",
    ]
    grant = "= grant of people to eve, privacy 0.6, is not in the file"
    with untouched():
        assert bring(project) == []
        assert lines_of(planned(project)) == [stays[0], grant, *stays[1:]]
    revoked = "- revoke people from eve: privacy 0.6"
    assert lines_of(planned(project, prune=True)) == [revoked, *stays]
    assert bring(project, prune=True) == [revoked]
    clock = sharing.clock()
    assert [g.state(clock) == LIVE for g in sharing.grants(recipient="eve")] == [False]
    assert len(opened(project).datasets()) == 4
    assert bring(project, prune=True) == []


def test_a_grant_is_replaced_and_one_that_has_ended_is_not_made(project):
    edited(project, "privacy = 0.5\nuntil = 2100-01-31", "privacy = 0.6\nuntil = 2100-01-31")
    words = "~ grant people to partner: privacy 0.6, until 2100-01-31"
    assert bring(project) == [words]
    assert bring(project) == []
    edited(project, "until = 2100-01-31", 'until = "2001-01-31"')
    assert lines_of(planned(project)) == [
        "= grant of people to partner, privacy 0.6, is not in the file"
    ]
    assert bring(project, prune=True) == ["- revoke people from partner: privacy 0.6"]
    assert lines_of(planned(project)) == []


def test_a_grant_of_linked_tables(project):
    with (project / "cornerwave.toml").open("a") as file:
        file.write('\n[[table.grant]]\nto = "anybody with a token"\nprivacy = 0.5\n')
    assert bring(project) == ["+ grant clinic to anybody with a token: privacy 0.5"]
    assert bring(project) == []


# --------------------------------------------------------------------------------------------------
# The file.


def test_times_are_of_utc_unless_they_state_another(tmp_path):
    path = tmp_path / "x.toml"
    grants = ('"2027-01-31"', "2027-01-31", "2027-01-31T02:00:00.0001+02:00", "2027-01-31 00:00:00")
    text = "".join(f'[[table.grant]]\nto="anybody"\nnoise=1\nuntil={each}\n' for each in grants)
    path.write_text(f'[[table]]\nname="x"\nsource="x.csv"\n{text}')
    [table] = read_project(path).tables
    assert {each.terms.ends for each in table.grants} == {datetime(2027, 1, 31, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("recipients", "recipient", r"write each recipient as a \[\[recipient\]\] table"),
        ('name = "people"', 'nam = "people"', "table 1: unknown key 'nam'; did you mean 'name'"),
        ('name = "people"\n', "", "table 1: name is missing"),
        ('name = "people"', "name = 7", "table 1: name must be a name in quotes"),
        ('source = "people.csv"\n', "", "table 'people': source is missing"),
        ('source = "people.csv"', "source = []", "source must be a path or an address"),
        ('source = "people.csv"', 'source = "ftp://x/y"', "table 'people': ftp:// is not read"),
        ('schema = "people.toml"', "schema = 1", "schema must be the name of a schema file"),
        ("append =", "apend =", "edition 1: unknown key 'apend'; did you mean 'append'"),
        ("append =", 'update = "x.csv"\nappend =', "edition 1: give new rows as append, or"),
        ("append =", 'table = "x"\nappend =', "this is a single table; leave out table"),
        ("append =", 'advancing = ["x"]\nappend =', "advancing is for update"),
        ('to = "partner"', 'to = "parner"', "copy 1: .* does not name 'parner'; did you mean"),
        ('to = "partner"\n', "", "copy 1: to is missing"),
        ("privacy = 0.5", "", "copy 1: give exactly one of noise and privacy"),
        ("privacy = 0.5", "privacy = 1.5", "copy 1: privacy must lie strictly between 0 and 1"),
        ("privacy = 0.5", "privacy = true", "copy 1: privacy must be a number"),
        ("privacy = 0.5", 'privacy = 0.5\nagainst = "x"', 'against must be one of "linear"'),
        ('out = "partner.parquet"', "", "copy 1: out is missing"),
        ('out = "public.csv"', 'out = "partner.parquet"', "out '.*parquet' is stated twice"),
        ("dictionary = true", 'dictionary = "yes"', "copy 2: dictionary must be true or false"),
        ('"public.csv"', '"postgresql://h/d#t"', "dictionary is a file beside a copy, and out is"),
        ("age = [0, inf]", "age = 3", "clip must be bounds by column"),
        ("2100-01-31", '"soon"', "grant 1: until must be a date"),
        ('to = "anybody"', 'to = "anyone"', "grant 2: recipients does not name 'anyone'"),
        ('"public"]', '"public", "partner"]', "recipient 'partner' is stated twice"),
        ('"public"]', '"public", "anybody"]', "'anybody' is no recipient to add"),
        ('name = "clinic"', 'name = "people"', "table 'people' is stated twice"),
        ('name = "people"', 'name = "clinic.x"', "'clinic.x' is the name of a table of clinic"),
        ('out = "clinic.zip"', 'out = "clinic.zip"\nround = ["cost"]', "leave out round, clip"),
        ("[[table.edition]]", "[table.edition]", r"write each edition as a \[\[table.edition\]\]"),
        ("privacy = 0.5", "privacy = = 0.5", r"is not TOML: .*\(at line 13, column"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused_in_words(tmp_path, old, new, says):
    assert old in PROJECT_TOML
    path = tmp_path / "cornerwave.toml"
    path.write_text(PROJECT_TOML.replace(old, new, 1))
    with pytest.raises(ProjectError, match=says) as refused:
        read_project(tmp_path)
    assert str(refused.value).startswith("cornerwave.toml")


def test_a_file_that_is_not_there(tmp_path):
    for path in (tmp_path, tmp_path / "x.toml", tmp_path / ("n" * 400)):
        with pytest.raises(ProjectError, match="cannot be read"):
            read_project(path)


def test_the_docs_name_every_key():
    text = (ROOT / "docs" / "projects.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### `(\S+?)`\n(.*?)(?=^#|\Z)", text, re.M | re.S))
    for header, keys in (
        ("cornerwave.toml", PROJECT),
        ("[[recipient]]", RECIPIENT),
        ("[[table]]", TABLE),
        ("[[table.edition]]", EDITION),
        ("[[table.copy]]", COPY),
        ("[[table.grant]]", GRANT),
    ):
        named = set(re.findall(r"^\| `(\w+)` \|", sections[header], re.M))
        lists = {key for key, kind in keys.items() if kind is None}
        assert named == set(keys) - lists, header


def test_the_example_of_the_docs_runs(tmp_path, capfd):
    text = (ROOT / "docs" / "projects.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    [file] = [block for language, block in blocks if language == "toml" and "[[table]]" in block]
    assert tomllib.loads(file)["table"]
    (tmp_path / "cornerwave.toml").write_text(file)
    (tmp_path / "survey.toml").write_text(SCHEMA)
    for folder in ("waves", "copies"):
        (tmp_path / folder).mkdir()
    for name, rows, first in (("2024", 220, 0), ("2025", 130, 300), ("abroad-2025", 210, 900)):
        papq.write_table(people(rows, first, first), tmp_path / "waves" / f"{name}.parquet")
    for name, table in zip(("patients", "visits"), clinic(), strict=True):
        pacsv.write_csv(table, tmp_path / f"{name}.csv")
    Vault.create(tmp_path / "vault")
    [printed] = [block for _, block in blocks if block.startswith("+ ")]
    code, out, _ = command(capfd, tmp_path)
    assert (code, out) == (0, printed.splitlines())
    assert command(capfd, tmp_path)[:2] == (0, [])


# --------------------------------------------------------------------------------------------------
# Kill -9 in the middle: the next run completes it.


DRIVER = r"""
import fcntl, os, pathlib, shutil, signal, sys
from pathlib import Path

from cornerwave.ledger import Ledger, Records
from cornerwave.ledger._database import Connection
from cornerwave.outputs import CopyFile
from cornerwave.project import _copy_plan
from tests.killing import arm, forked
from tests.test_project import bring

SEAMS = [
    (Ledger, "register"), (Ledger, "register_all"), (Ledger, "add_edition"), (Ledger, "hold"),
    (CopyFile, "publish"), (Connection, "commit"), (Records, "put"), (os, "fsync"),
    (pathlib.Path, "replace"),
]
wrong = sys.argv[4]
if wrong:
    name, _, value = wrong.partition("=")
    setattr(_copy_plan.CopyToMake, name, value == "True")


def main(begun, out, every):
    k = 1
    while True:
        folder = out / str(k)
        shutil.copytree(begun, folder)
        log = os.open(out / f"{k} where", os.O_CREAT | os.O_WRONLY)

        def crash():
            arm(SEAMS, k, log, sys.argv[5])
            bring(folder, look=False)

        status = forked(crash)
        os.close(log)
        if status == 0:
            return
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
        assert forked(lambda: bring(folder)) == 0
        k += every


main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
"""


def killed_everywhere(tmp_path, every, *, again=False, only="", wrong=""):
    """The folders of runs that were killed, each after a second run; and where they were.

    If it is done `again`, copies are there, and a new wave that changes them has come. They are
    killed at `every` so many events, of those whose name contains `only`.
    """
    begun, out = tmp_path / "begun", tmp_path / "killed"
    write_project(begun)
    if every > 1 or again:  # linked tables take longer
        (begun / "cornerwave.toml").write_text(PROJECT_TOML.partition(LINKED)[0])
    if again:
        bring(begun)
        pacsv.write_csv(people(130, 400, 9), begun / "waves" / "2.csv")
    out.mkdir()
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DRIVER, begun, out, str(every), wrong, only],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert run.returncode == 0, run.stderr
    last = max(int(path.name.split()[0]) for path in out.iterdir())
    shutil.rmtree(out / str(last))  # it was not killed
    return {
        folder: (out / f"{folder.name} where").read_text()
        for folder in out.iterdir()
        if folder.is_dir()
    }


def outcome(folder):
    vault = opened(folder)
    return {
        "editions": {d.name: len(d.editions) for d in vault.datasets()},
        "held": sorted((h.recipient, d.name) for d in vault.datasets() for h in d.holdings),
        "files": {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()},
    }


@pytest.mark.parametrize(
    ("every", "again", "only"),
    [
        (3, True, "publish"),
        pytest.param(9, False, "", marks=pytest.mark.slow),
        pytest.param(7, True, "", marks=pytest.mark.slow),
        pytest.param(1, False, "register", marks=pytest.mark.slow),
        pytest.param(1, True, "replace", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_was_killed_is_completed_by_the_next(tmp_path, every, again, only, counted):
    places = killed_everywhere(tmp_path, every, again=again, only=only)
    right = tmp_path / "begun"
    bring(right)
    for folder, place in places.items():
        assert outcome(folder) == outcome(right), place
        assert lines_of(planned(folder)) == [], place
    assert len(places) > 1
    assert all(only in place for place in places.values())
    counted("kills", len(places))


@pytest.mark.slow
def test_the_net_catches_a_run_that_takes_half_a_copy_for_a_whole_one(tmp_path):
    """The negative control: the new metadata of a text file lie beside the old one."""
    places = killed_everywhere(tmp_path, 1, again=True, only="replace", wrong="has_parts=False")
    bring(tmp_path / "begun")
    right = outcome(tmp_path / "begun")
    assert any(outcome(folder) != right for folder in places)


@pytest.mark.slow
def test_the_net_catches_a_run_that_believes_the_ledger_alone(tmp_path):
    """The negative control: what is held and was never shown would not be made again."""
    places = killed_everywhere(tmp_path, 1, only="publish", wrong="is_there=True")
    names = ("partner.parquet", "public.csv")
    lacking = [folder for folder in places if not all((folder / n).exists() for n in names)]
    assert lacking


def test_keys_of_schema_files_are_not_keys_of_the_project():
    """What a schema file states of a table stays in [table.schema], where it is checked."""
    assert not {choice.key for choice in DECLARED.values()} & set(TABLE)
