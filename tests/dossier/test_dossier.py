"""What a dossier states, that it can be made again, and what is never in it."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as papq
import pytest

from cornerwave import demo
from cornerwave.dossier import Dossier, SignedDossier, check_dossier, write_dossier
from cornerwave.dossier._promises import PROMISES
from cornerwave.errors import NoSuchRecipient, OutputError, OutputExists
from cornerwave.kinds import canonical
from cornerwave.ledger import Key
from cornerwave.vault import Vault
from tests.conftest import ledger_lines
from tests.dossier.conftest import ARCHIVE, AT, ROWS, World, table
from tests.vault.test_key import spellings

ROOT = Path(__file__).parents[2]


def words_of(signed: SignedDossier) -> str:
    """The page as a reader sees it."""
    text = re.sub(r"<style>.*?</style>|<[^>]*>", " ", signed.page or "", flags=re.S)
    return re.sub(r"\s+", " ", text)


def test_the_same_head_gives_the_same_bytes(world, signed):
    lines = ledger_lines(world.vault.path / "ledger.db")
    again = world.signed(coalitions=[("partner", ARCHIVE)])
    assert (again.text, again.as_page) == (signed.text, signed.as_page)
    assert ledger_lines(world.vault.path / "ledger.db") == lines
    later = world.signed(AT + timedelta(minutes=3), coalitions=[("partner", ARCHIVE)])
    differ = {key for key, value in later.stated.items() if value != signed.stated[key]}
    assert differ == {"made_at", "page"}
    assert (later.page or "").replace("12:03 UTC", "12:00 UTC") == signed.page


def test_no_cell_and_no_key_is_in_it(world, signed):
    cells = {str(cell) for name in ("id", "city", "zone") for cell in table()[name].to_pylist()}
    cells |= {str(cell) for cell in table()["wage"].to_pylist()}
    cells |= {f"{cell:,.2f}" for cell in table()["wage"].to_pylist()}
    assert len(cells) > 2 * ROWS
    key = Key.read(world.vault.path / "key")
    secret = key._secret
    secrets = [secret, key.derive("signing"), key.of_dataset(world.people.id).derive("noise")]
    shown = signed.as_page + signed.text
    assert not [cell for cell in cells if cell in shown]
    assert not [text for each in secrets for text in spellings(each) if text in shown]
    # a figure that is an average of cells has few digits
    numbers = re.findall(r"(\d+)\.(\d+)", canonical(signed.stated["tables"]))
    assert max(len(f"{whole}{part}".strip("0")) for whole, part in numbers) <= 4


def test_it_states_who_has_what_why_and_until_when(signed):
    words = words_of(signed)
    assert "institute: a study of wages (contract: DSA 7)" in words
    assert "No purpose and no contract is stated for R&amp;D &lt;archive&gt;." in words
    assert "partner until 2035-01-01" in words  # that of the recipient
    assert "The time has passed of institute (2031-04-01)" in words
    assert "2031-04-01 has passed" in words
    assert "Released unchanged: zone." in words
    [state] = [each["state"] for each in json.loads(signed.text)["dossier"]["permissions"]]
    assert state == "live"


def test_the_end_of_a_recipient_ends_what_they_were_granted(world):
    later = world.signed(AT.replace(year=2036))
    assert [each["state"] for each in json.loads(later.text)["dossier"]["permissions"]] == [
        "expired"
    ]


def test_each_question_has_an_answer_without_a_term_of_statistics(signed):
    words = words_of(signed)
    for question in (
        "Who has it?",
        "Why do they have it?",
        "Until when?",
        "What could they find out about one person?",
        "Could somebody find the row of a person they know?",
        "What if they pool their copies?",
        "What happens if the key leaks?",
        "How do I know that these figures are right?",
        "What is not covered?",
        "What was released without noise?",
        "How is access taken back?",
    ):
        _, _, answer = words.partition(question)
        assert len(answer.split("?")[0]) > 60
    for term in ("covariance", "variance", "Gaussian", "linear", "posterior"):
        assert term not in words.partition("1 Context")[0], term
    assert "covariance" not in words


def test_figures_are_those_of_the_dataset(world, signed):
    people = world.people
    [facts] = json.loads(signed.text)["dossier"]["tables"]
    assert [level["privacy"] for level in facts["levels"]] == [0.3, 0.5, 0.8]
    groups = {tuple(each["members"]) or "all": each for each in facts["groups"]}
    for members, group in groups.items():
        found = people.coalition(members)
        assert group["hidden"] == round(found.joint_privacy, 3) == group["alone"]
        assert group["independent"] <= group["hidden"]
    assert ("partner", ARCHIVE) in groups
    for level, held in zip(facts["levels"], people.levels, strict=True):
        known = people.frozen.hidden.at(held)
        assert {each["column"]: each["hidden"] for each in level["columns"]} == pytest.approx(
            known, abs=6e-4
        )
        risks = people.risks_at(held)
        assert level["person"]["found"] == pytest.approx(risks.linkage.linked, rel=1e-3)
        assert level["person"]["bits"] == pytest.approx(risks.bits, rel=1e-3)
        measured = [each for each in level["columns"] if each["measured"] is not None]
        assert measured
        assert all(abs(each["measured"] - each["hidden"]) < 0.25 for each in measured)
    assert facts["measured"]["failed"] == []


def test_one_for_some_names_no_others(world):
    only = world.signed(recipients=["partner"])
    assert "institute" not in only.as_page
    assert "archive" not in only.as_page
    assert "everybody together (3)" in only.as_page
    [facts] = json.loads(only.text)["dossier"]["tables"]
    assert [level["privacy"] for level in facts["levels"]] == [0.5]
    with pytest.raises(NoSuchRecipient, match=r"'partne' holds no copy.*did you mean 'partner'"):
        world.signed(recipients=["partne"])
    with pytest.raises(NoSuchRecipient, match="'eve' holds no copy"):
        world.signed(coalitions=[("partner", "eve")])


def test_an_unchanged_vault_gives_all_figures_again(world, tmp_path):
    path = write_dossier(world.vault, world.people, tmp_path / "x.html", recipients=["partner"])
    found = check_dossier(world.vault, path)
    assert (found.holds, found.differs, found.noted) == (True, (), ())
    assert len(found.checked) == 2


def test_a_false_figure_that_is_signed_is_found_by_measuring_again(world, signed, tmp_path):
    """Who has the vault can sign anything: a signature is no evidence that figures are true."""
    key = world.vault.public_key
    for place, claims, says in (
        (("levels", 1, "columns", 0, "measured"), 0.999, r"columns\[age\].measured: 0.999 stated"),
        (("groups", 4, "hidden"), 0.777, r"groups\[everybody\].hidden: 0.777 stated, 0.3 now"),
        (("rows",), ROWS + 1, r"tables\[people\].rows: 601 stated, 600 now"),
    ):
        stated = json.loads(canonical(signed.stated))
        at = stated["tables"][0]
        for step in place[:-1]:
            at = at[step]
        at[place[-1]] = claims
        false = SignedDossier.of(stated, signed.page or "", sign=world.vault.sign, key=key)
        path = tmp_path / "false.json"
        path.write_text(false.text)
        [line] = check_dossier(world.vault, path).differs
        assert re.search(says, line), line


def test_what_has_changed_since_is_listed(fresh: World, tmp_path):
    path = write_dossier(fresh.vault, fresh.people, tmp_path / "x.html")
    fresh.people.release(to="newcomer", privacy=0.1).to_arrow()
    found = check_dossier(fresh.vault, path)
    text = "\n".join(found.differs)
    assert "holders: 3 stated, 4 now" in text
    assert "copies[people, newcomer, 0.1111]: not stated, there now" in found.differs
    assert re.search(r"groups\[everybody\]\.hidden: 0.3 stated, 0.1 now", text)
    assert "ledger of people: 1 line was added since" in found.noted
    papq.write_table(table().slice(1), fresh.source)
    [line] = check_dossier(fresh.vault, path).differs
    assert line.startswith("cannot be measured again: ")


def test_a_ledger_from_before_is_found(fresh: World, tmp_path):
    ledger = fresh.vault.path / "ledger.db"
    before = ledger.read_bytes()
    fresh.people.release(to="newcomer", privacy=0.6).to_arrow()
    path = write_dossier(fresh.vault, fresh.people, tmp_path / "x.json")
    fresh.vault.close()
    ledger.write_bytes(before)
    found = check_dossier(Vault.open(fresh.vault.path), path)
    assert any(line.startswith("ledger: ") for line in found.differs)


def test_other_vaults_do_not_vouch(world, fresh, tmp_path):
    path = write_dossier(world.vault, world.people, tmp_path / "x.json")
    [line] = check_dossier(fresh.vault, path).differs
    assert "another key" in line


def test_only_its_own_file_is_replaced(world, tmp_path):
    path = tmp_path / "x.html"
    path.write_text("something else")
    with pytest.raises(OutputExists):
        write_dossier(world.vault, world.people, path)
    with pytest.raises(OutputError, match=r"must end in \.html or \.json"):
        write_dossier(world.vault, world.people, tmp_path / "x.pdf")


def test_nothing_released_is_nothing_to_state(tmp_path):
    papq.write_table(table(), tmp_path / "people.parquet")
    vault = Vault.create(tmp_path / "vault")
    people = vault.register("people", tmp_path / "people.parquet", key="id", keep=["zone"])
    with pytest.raises(NoSuchRecipient, match="nothing to state"):
        Dossier.of(vault, people)


def test_promises_are_those_of_the_proofs():
    """Whose table of modules, tests and controls another test compares with what is there."""
    text = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[\d+\]\(#(.*?)\).*?\| (\w+) \|.*\| `(.*?)` \| `(.*?)` \|$", text, re.M)
    assert {(e.section, e.kind, e.test, e.control) for e in PROMISES} <= set(rows)
    assert {each.section for each in PROMISES} == {section for section, *_ in rows}


@pytest.mark.slow
def test_that_of_the_demo_can_be_made_again(tmp_path):
    demo.run(tmp_path)
    vault = Vault.open(tmp_path / ".cornerwave")
    made = [
        Dossier.of(Vault.open(vault.path), vault.dataset("people"), at=AT).signed(vault)
        for _ in range(2)
    ]
    assert made[0].as_page == made[1].as_page
    assert "403 records of 100,000" in made[0].as_page
