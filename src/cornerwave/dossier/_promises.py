"""What is promised: each promise in words, with its proof, its test and its figure for a dataset.

The words are those of SECURITY.md in short; a test compares proofs and tests with what is there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cornerwave.document import count, percent
from cornerwave.dossier._facts import DossierFacts, TableFacts

PROOFS = "docs/proofs.md"


@dataclass(frozen=True)
class Promise:
    """A promise: where its proof is, which test would fail, and its figure for a dataset."""

    name: str
    words: str
    test: str
    figure: Callable[[DossierFacts], str]

    @property
    def proof(self) -> str:
        """Where its proof is."""
        return f"{PROOFS}#{self.name}"


def _pooled(facts: DossierFacts) -> str:
    if facts.least is None:
        return "no bound: a category changed between editions in ways that few rows share"
    alone = min(table.groups[-1].alone for table in facts.tables)
    together = percent(facts.least)
    return f"{together} stays hidden from all together, {percent(alone)} from the best one alone"


def _attacked(facts: DossierFacts) -> str:
    attacked = sum(table.measured.coalitions for table in facts.tables)
    gained = sum(table.measured.gained for table in facts.tables)
    return f"{count(attacked, 'set')} of copies attacked, {gained:,} gained"


def _measured(facts: DossierFacts) -> str:
    worst = [
        (each.measured - each.hidden, each.measured, each.hidden, each.column)
        for table in facts.tables
        for level in table.levels
        for each in level.columns
        if each.measured is not None
    ]
    if not worst:
        return "not measured: too few rows"
    _, found, stated, name = min(worst)
    return f"worst column {name}: {found:.3f} measured, {stated:.3f} stated"


def _checks(facts: DossierFacts) -> str:
    checks = sum(table.measured.checks for table in facts.tables)
    failed = sum(len(table.measured.failed) for table in facts.tables)
    return f"{checks:,} checks of the copies, {failed:,} failed"


def _of_persons(table: TableFacts) -> str:
    return " and ".join(table.unit) if table.unit else "each row counts as one person"


def _persons(facts: DossierFacts) -> str:
    return "; ".join(dict.fromkeys(map(_of_persons, facts.tables)))


def _editions(facts: DossierFacts) -> str:
    most = max(table.editions for table in facts.tables)
    return "one state of the table" if most == 1 else f"{most} states of the table"


def _holdings(facts: DossierFacts) -> str:
    return f"{len(facts.copies):,} copies in the ledger, every line checked"


def _of_code(facts: DossierFacts) -> str:
    return "holds by construction; no figure"


PROMISES = (
    Promise(
        "no-gain-from-collusion",
        "Recipients who pool their copies learn no more about the table than the one of them who "
        "has the least noise could learn alone.",
        "tests/attack/test_slips.py::test_repeats_average_fresh_noise_away_and_not_ours",
        _pooled,
    ),
    Promise(
        "categories",
        "The same holds for categories, such as a place or a diagnosis.",
        "tests/noise/test_refresh.py::test_the_worse_copy_says_nothing_beside_the_better_one",
        _attacked,
    ),
    Promise(
        "a-known-share-stays-hidden",
        "The stated share of what distinguishes people in a column cannot be recovered by any "
        "estimate that weighs the noisy part of a copy, whatever it does with the rest.",
        "tests/test_joint.py::test_a_whole_copy_hides_what_it_promises",
        _measured,
    ),
    Promise(
        "persons",
        "Where a column names the person, this holds for all rows of a person together.",
        "tests/test_person_promises.py::test_values_means_and_changes_keep_what_is_declared",
        _persons,
    ),
    Promise(
        "known-rows",
        "Somebody who knows some rows of the table can undo the noise of no other row.",
        "tests/attack/test_generator.py::test_leaked_rows_strip_a_mersenne_twister_and_not_ours",
        _of_code,
    ),
    Promise(
        "asking-again",
        "Asking again brings the same copy: it depends on the table, the key and the level alone.",
        "tests/test_recipe.py::test_making_it_again_is_the_same",
        _holdings,
    ),
    Promise(
        "low-bits",
        "The last digits of a number in a copy reveal nothing.",
        "tests/test_recipe.py::TestGrid::test_low_bits_tell_nothing_of_which_value_it_was",
        _checks,
    ),
    Promise(
        "nothing-is-published",
        "Nothing is released from a changed table, with another key or with a damaged ledger.",
        "tests/test_recipe.py::test_a_changed_source_is_refused_whatever_was_handed_to_the_outputs",
        lambda facts: "the table fitted its fingerprint when this was made",
    ),
    Promise(
        "no-cell-in-a-message",
        "No message, log or error shows a value of the table or a key.",
        "tests/test_recipe.py::test_secrets_are_neither_shown_nor_pickled",
        _of_code,
    ),
    Promise(
        "editions",
        "When the table grows or changes, rows that stay the same keep the same noise.",
        "tests/test_editions.py::TestAppend::test_rows_keep_their_noise_bit_for_bit",
        _editions,
    ),
)


def promises_of(facts: DossierFacts) -> list[dict[str, str]]:
    """Return the promises with their figures, as a dossier states them."""
    return [
        {
            "promise": each.words,
            "proof": each.proof,
            "test": each.test,
            "figure": each.figure(facts),
        }
        for each in PROMISES
    ]
