"""Damaged files through every command: exit 0, 1 or 2, never a crash, a hang, a cell or a key.

`make test` tries a few inputs of every kind, always the same ones; `make test-slow` tries many,
beginning at CORNERWAVE_FUZZ_FIRST (0 by default), and prints how many. To see one again:

    python -m tests.fuzz.child WORLD 'arrow copy:17'
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as papq
import pytest
import typer

from cornerwave import cli
from cornerwave.errors import CornerwaveError
from cornerwave.miner import Copy
from cornerwave.outputs import read_metadata
from cornerwave.spec import CopyMetadata
from tests.conftest import Counted
from tests.fuzz import batches
from tests.fuzz.attempts import CLEAN, COMPILED, KINDS, Answer, Tried, fault_of, run
from tests.fuzz.mutants import odd_fields
from tests.fuzz.world import make_world

FEW, MANY = 3, 400
"""Inputs of each kind in the normal and in the slow tests."""
FEW_COMPILED = 2


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    make_world(folder)
    return folder


def report(kind: str, tried: Sequence[Tried], counted: Counted) -> None:
    codes = dict(sorted(Counter(each.code for each in tried).items()))
    print(f"{kind}: {len(tried):,} inputs, by exit code {codes}", file=sys.__stderr__)
    failed = [f"{each.what}\n{each.fault}" for each in tried if each.fault]
    assert not failed, f"{len(failed)} of {len(tried)}:\n" + "\n\n".join(failed[:10])
    counted("inputs", len(tried))


def test_files_in_text_and_arguments(world: Path, tmp_path: Path, counted: Counted) -> None:
    for kind in KINDS:
        if kind not in COMPILED:
            report(kind, batches.here(world, tmp_path / "world", kind, range(FEW)), counted)


def test_files_that_could_crash_the_interpreter(world: Path, counted: Counted) -> None:
    """One process for all kinds: loading it takes longer than its attempts."""
    tried = batches.in_children(world, COMPILED, range(FEW_COMPILED))
    report(", ".join(COMPILED), tried, counted)


@pytest.mark.filterwarnings("ignore::cornerwave.errors.BiasWarning")
def test_every_field_of_the_metadata_with_values_of_every_type(
    world: Path, counted: Counted
) -> None:
    """It is usable or refused in words, whoever reads it, before anything is computed with it."""
    frame, told = papq.read_table(world / "ann0.3.parquet"), read_metadata(world / "ann0.3.parquet")
    assert told is not None
    refused = 0
    for what, changed in odd_fields(told.to_json(), "age", "height", "city"):
        try:
            Copy.open(frame, metadata=changed)
        except CornerwaveError:
            refused += 1
        except Exception as error:
            pytest.fail(f"{what}: {error!r}")
    assert refused > 2000
    counted("inputs", refused)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["audit", "attack", "miner"])
def test_every_field_that_is_accepted_can_be_worked_with(
    world: Path, tmp_path: Path, command: str
) -> None:
    folder = batches.fresh(world, tmp_path / "world")
    told, beside = read_metadata(folder / "ann0.3.csv"), folder / "ann0.3.csv.meta.json"
    assert told is not None
    words = {"audit": ("audit", "people.csv", "ann0.3.csv")}.get(command, (command, "ann0.3.csv"))
    secret = (folder / ".cornerwave/key").read_text().split(":")[1].strip()
    failed = []
    for what, changed in odd_fields(told.to_json(), "age", "height", "city"):
        try:
            CopyMetadata.read(changed, "x")
        except CornerwaveError:
            continue
        beside.write_text(json.dumps(changed))
        if fault := fault_of(run(words, folder=folder), secret=secret):
            failed.append(f"{what}: {fault}")
    assert not failed, f"{len(failed)}:\n" + "\n\n".join(failed[:10])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many(world: Path, kind: str, counted: Counted) -> None:
    first = int(os.environ.get("CORNERWAVE_FUZZ_FIRST", "0"))
    report(kind, batches.in_children(world, [kind], range(first, first + MANY)), counted)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "arguments"])
def test_undamaged_files_are_accepted(world: Path, tmp_path: Path, kind: str) -> None:
    """Otherwise the fuzzer would try nothing but one refusal."""
    name, _, commands = KINDS[kind]
    for i, command in enumerate(commands):
        if command[0] != "init":
            words = [name if word == CLEAN else word for word in command]
            answer = run(words, folder=batches.fresh(world, tmp_path / str(i)))
            assert answer.code in (0, 1), (words, answer.err)


class TestTheFuzzerItself:
    """Each fault that it looks for is seen."""

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (Answer(3, "", "cornerwave: internal fault"), "exit 3"),
            (Answer(-11, "", ""), "exit -11"),
            (Answer(0, "wage 48213.0625", ""), "shows"),
            (Answer(2, "", "cornerwave: no 'qanary-id' here"), "shows"),
            (Answer(1, "a2V5", ""), "shows"),
            (Answer(2, "", "cornerwave: one\ntwo"), "refusal of 2 lines"),
            (Answer(2, "", ""), "refusal of 0 lines"),
            (Answer(0, "\x1b[2J", ""), "control characters"),
        ],
    )
    def test_wrong_answers(self, answer: Answer, words: str) -> None:
        assert words in str(fault_of(answer, secret="a2V5"))

    def test_right_answers(self) -> None:
        for answer in (
            Answer(0, "fine", "warning: about the table"),
            Answer(1, "FAILED", ""),
            Answer(2, "", "cornerwave: refused"),
            Answer(2, "", "Usage: cornerwave\n\nError: no such option"),
        ):
            assert fault_of(answer, secret="a2V5") is None

    def test_a_command_that_fails_or_hangs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken() -> None:
            raise ValueError("a cell")

        def endless() -> None:
            while True:
                pass

        app = typer.Typer()
        app.command()(broken)
        app.command()(endless)
        monkeypatch.setattr(cli, "app", app)
        assert run(["broken"]).code == 3
        assert run(["endless"], seconds=1).code == 3

    def test_a_process_that_dies(self, world: Path) -> None:
        died = batches.in_children(world, ["crash"], range(2), seconds=60)
        assert [each.code for each in died] == [batches.DIED] * 2
        assert all("died with -11" in str(each.fault) for each in died)

    def test_a_process_that_takes_too_long(self, world: Path) -> None:
        late = batches.in_children(world, ["sleep"], range(1), seconds=0.5)
        assert "took more than" in str(late[0].fault)
