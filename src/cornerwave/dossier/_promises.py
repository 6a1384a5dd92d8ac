"""What is promised: each promise in words, with its proof, its test and its figure for a dataset.

The words are those of SECURITY.md in short; a test compares proofs and tests with what is there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cornerwave.document import count, percent
from cornerwave.dossier._facts import DossierFacts, TableFacts

PROOFS = "docs/proofs.md"


PROVED, ESTIMATED, TESTED = "proved", "estimated", "tested"
"""A theorem about how copies are made; a figure measured in the table; a statement on programs."""


@dataclass(frozen=True)
class Promise:
    """A promise: where its proof is, which test would fail, and its figure for a dataset.

    `section` is that of the proofs; the control is a wrong version that the test has to notice.
    """

    section: str
    kind: str
    words: str
    test: str
    control: str
    figure: Callable[[DossierFacts], str]

    @property
    def proof(self) -> str:
        """Where its proof is."""
        return f"{PROOFS}#{self.section}"


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


def _unchanged(facts: DossierFacts) -> str:
    return "the table fitted its fingerprint when this was made"


def _of_code(facts: DossierFacts) -> str:
    return "the same for every dataset"


PROMISES = (
    Promise(
        "1-no-gain-from-collusion",
        PROVED,
        "Recipients who pool their copies learn no more about the table than the one of them "
        "who has the least noise could learn alone.",
        "tests/noise/test_lattice.py::test_all_999_levels_are_a_corner_wave_exactly",
        "tests/noise/test_path.py::test_together_independent_noise_falls",
        _pooled,
    ),
    Promise(
        "2-categories-too",
        PROVED,
        "The same holds for categories, such as a place or a diagnosis.",
        "tests/noise/test_refresh.py::test_the_joint_law_is_the_markov_chain",
        "tests/noise/test_refresh.py::test_two_differing_copies_of_one_uniform_give_the_truth_away",
        _attacked,
    ),
    Promise(
        "3-a-known-share-stays-hidden",
        ESTIMATED,
        "The stated share of what distinguishes people in a column cannot be recovered by any "
        "estimate that weighs the noisy part of a copy, whatever it does with the rest.",
        "tests/test_joint.py::test_a_whole_copy_hides_what_it_promises",
        "tests/test_joint.py::test_independent_noise_hides_what_an_adversary_measures",
        _measured,
    ),
    Promise(
        "3-a-known-share-stays-hidden",
        ESTIMATED,
        "Where a column names the person, this holds for all rows of a person together.",
        "tests/test_person_promises.py::test_values_means_and_changes_keep_what_is_declared",
        "tests/test_person_promises.py::test_noise_by_row_falls",
        _persons,
    ),
    Promise(
        "4-known-rows-do-not-help-with-other-rows",
        PROVED,
        "Somebody who knows some rows of the table can undo the noise of no other row.",
        "tests/attack/test_generator.py::test_leaked_rows_strip_a_mersenne_twister_and_not_ours",
        "tests/attack/test_generator.py::test_any_seed_is_recovered",
        _of_code,
    ),
    Promise(
        "5-asking-again-does-not-help",
        TESTED,
        "Asking again brings the same copy: it depends on the table, the key and the level alone.",
        "tests/test_rollback.py::test_a_lost_ledger_changes_no_byte",
        "tests/test_rollback.py::test_the_old_construction_falls_to_a_rollback",
        _holdings,
    ),
    Promise(
        "6-the-low-bits-reveal-nothing",
        PROVED,
        "The last digits of a number in a copy reveal nothing.",
        "tests/test_recipe.py::test_low_bits_tell_nothing_of_which_value_it_was",
        "tests/attack/test_slips.py::test_bits_of_double_precision_noise_tell_integers_apart",
        _checks,
    ),
    Promise(
        "7-nothing-is-published",
        PROVED,
        "Nothing is released from a changed table, with another key or with a damaged ledger.",
        "tests/table/test_fingerprint.py::test_any_one_cell_changes_it",
        "tests/table/test_fingerprint.py::test_swapped_columns_and_one_more_row_change_it",
        _unchanged,
    ),
    Promise(
        "8-no-message-shows-a-cell-or-a-key",
        TESTED,
        "No message, log or error shows a value of the table or a key.",
        "tests/fuzz/test_fuzz.py::test_files_in_text_and_arguments",
        "tests/fuzz/test_fuzz.py::test_wrong_answers",
        _of_code,
    ),
    Promise(
        "9-files-from-outside-are-not-trusted",
        TESTED,
        "Files from outside are checked in full before they are used.",
        "tests/fuzz/test_fuzz.py::test_many",
        "tests/fuzz/test_fuzz.py::test_a_process_that_dies",
        _of_code,
    ),
    Promise(
        "10-editions",
        PROVED,
        "When the table grows or changes, rows that stay the same keep the same noise.",
        "tests/test_history.py::test_all_editions_together_hide_values_means_and_changes",
        "tests/test_history.py::"
        "test_the_same_increment_for_all_leaves_the_noise_and_a_common_value_does_not",
        _editions,
    ),
    Promise(
        "11-copies-that-only-you-may-see",
        TESTED,
        "Copies that are made for the owner alone, as for this document, stay in the vault "
        "and vanish.",
        "tests/vault/test_work.py::"
        "test_what_a_killed_process_leaves_is_private_and_removed_by_the_next",
        "tests/vault/test_work.py::test_the_folder_of_a_living_process_stays",
        _of_code,
    ),
)


def promises_of(facts: DossierFacts) -> list[dict[str, str]]:
    """Return the promises with their figures, as a dossier states them."""
    return [
        {
            "promise": each.words,
            "kind": each.kind,
            "proof": each.proof,
            "test": each.test,
            "control": each.control,
            "figure": each.figure(facts),
        }
        for each in PROMISES
    ]
