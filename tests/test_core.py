"""The compiled core: the same bits for every instruction set, and nothing gets past its border."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import cornerwave._core as core
from tests import kernels
from tests.processor import INSTRUCTIONS

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "cornerwave" / "_core"

# What all kernels make of the arguments in `kernels`, on every processor.
GOLDEN = "afb07d201a929a3e54bf9396bec1ff1171bda2a7d4549707a3ee35a8c2fff41d"


def module_of(instructions):
    return import_module(f"cornerwave._core._{instructions}")


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
def test_all_kernels_give_the_same_bits(instructions):
    assert kernels.digest(module_of(instructions)) == GOLDEN


def test_a_last_bit_would_be_noticed():
    def beside(rng):
        words, masks, out = sound["fill_normals"](rng)
        words[0] ^= np.uint64(1 << 12)
        return [words, masks, out]

    sound = kernels.CALLS
    calls = sound | {"fill_normals": beside}
    assert kernels.digest(module_of("portable"), calls) != GOLDEN


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
def test_damaged_arguments_are_refused_or_do_no_harm(instructions):
    """Of another type, shape or stride, of no or of 2^40 rows, negative, None or not a number."""
    assert kernels.try_damaged(module_of(instructions)) > 1500


def test_what_is_filled_in_must_be_writable():
    out = np.empty((3, 5))
    out.flags.writeable = False
    words = np.ones(20, dtype=np.uint64)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        core.fill_normals(words, words, out)


def unaligned(array):
    """The same array, but for one byte in memory."""
    memory = np.zeros(array.nbytes + 128, dtype=np.uint8)
    begin = -memory.ctypes.data % 64 + 1
    moved = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


def test_what_is_filled_in_must_be_aligned():
    x, out = np.zeros((1, 64)), unaligned(np.zeros((1, 64)))
    with pytest.raises(ValueError, match="aligned"):
        core.add_on_grid(x, np.eye(1), x, np.ones(1), out, 0, True)


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
def test_what_is_read_may_lie_anywhere(instructions):
    """As in Arrow's tables that came over a network."""
    module = module_of(instructions)
    for name in kernels.CALLS:
        aligned, moved = kernels.arguments(name), kernels.arguments(name)
        returned = getattr(module, name)(*aligned)
        for place, argument in enumerate(moved):
            if isinstance(argument, np.ndarray) and argument.tobytes() == aligned[place].tobytes():
                moved[place] = unaligned(argument)
        assert getattr(module, name)(*moved) == returned
        for one, two in zip(aligned, moved, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
def test_nothing_is_read_or_written_beside_what_is_empty_or_not_a_number(instructions):
    module = module_of(instructions)
    bounds, none = np.zeros((0, 3), dtype=np.int64), np.zeros(0, dtype=np.bool_)
    content, out = np.zeros(8, dtype=np.uint8), np.zeros(64, dtype=np.uint8)
    with pytest.raises(ValueError, match="a row has a column"):
        module.write_csv(none, np.zeros((0, 3)), bounds, bounds, content, kernels.POWERS, out)
    still, counts = np.zeros(0, dtype=np.int64), np.zeros(2, dtype=np.int64)
    hashes = np.zeros(2 * 64, dtype=np.uint64)
    parts = np.zeros((2, 0, 64))
    with pytest.raises(ValueError, match="padding"):
        module.fill_cell_hashes(parts, 0, 0, np.zeros(0), 0, still, hashes, counts)
    found = np.zeros(3)
    module.fill_interpolated(np.arange(3.0), np.full(1, np.nan), np.full(1, 7.0), found)
    assert found.tolist() == [7.0, 7.0, 7.0]


def splitmix(before, cell):
    word = ((before ^ cell) + 0x9E3779B97F4A7C15) % 2**64
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
def test_a_step_that_is_not_a_number_has_one_hash_on_every_processor(instructions):
    stacked = np.ones((1, 3, 4))
    stacked[0, 1, 2] = np.nan
    hashes, counts = np.zeros(4, dtype=np.uint64), np.zeros(2, dtype=np.int64)
    still = np.zeros(2, dtype=np.int64)
    module = module_of(instructions)
    module.fill_cell_hashes(stacked, 0, 0, np.ones(2), 2**64 - 1, still, hashes, counts)
    assert counts.tolist() == [0, 4]
    assert hashes[2] == splitmix(splitmix(0, 1), -(2**62))


def test_a_refusal_shows_no_cell():
    secret = np.full((1, 4), 1234.5678, dtype=np.float32)
    with pytest.raises(TypeError) as refused:
        core.shape_white(np.eye(1), secret, np.empty((1, 4)))
    assert "1234" not in str(refused.value)
    with pytest.raises(ValueError, match="the factor has a row for each column") as refused:
        core.shape_white(np.eye(2), secret.astype(float), np.empty((1, 4)))
    assert "1234" not in str(refused.value)


def test_every_kernel_is_typed_and_tried():
    stub = (SOURCES / "__init__.pyi").read_text(encoding="utf-8")
    typed = set(re.findall(r"^def (\w+)", stub, re.M))
    assert typed == {name for name in vars(module_of("portable")) if not name.startswith("_")}
    assert typed == {*kernels.CALLS, "runnable"}


def chosen(**settings):
    run = [sys.executable, "-c", "import cornerwave._core as core; print(core.instructions)"]
    return subprocess.run(run, env=os.environ | settings, capture_output=True, text=True)


def test_the_widest_instructions_are_taken_or_those_that_are_named():
    assert chosen().stdout.strip() == INSTRUCTIONS[-1]
    assert chosen(CORNERWAVE_INSTRUCTIONS="portable").stdout.strip() == "portable"
    refused = chosen(CORNERWAVE_INSTRUCTIONS="abacus").stderr
    assert "CORNERWAVE_INSTRUCTIONS is 'abacus', but this processor has portable" in refused


def test_a_missing_core_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "cornerwave._core._portable", None)
    with pytest.raises(ImportError, match="install the package again"):
        core._chosen()


def test_only_an_editable_installation_builds_within_the_sources():
    """So that pip installs from sources that it may only read."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    build = settings["tool"]["scikit-build"]
    assert "build-dir" not in build
    assert [each["if"] for each in build["overrides"] if "build-dir" in each] == [
        {"state": "editable"}
    ]


def test_a_missing_compiler_says_what_to_install(tmp_path):
    pytest.importorskip("nanobind")
    configure = ["cmake", "-S", str(SOURCES), "-B", str(tmp_path), "-G", "Ninja"]
    settings = {"PATH": f"{Path(sys.executable).parent}:{tmp_path}", "CXX": "no-such-compiler"}
    cmake = subprocess.run(["which", "cmake"], capture_output=True, text=True).stdout.strip()
    if not cmake:
        pytest.skip("cmake is not installed")
    configure[0] = cmake
    run = subprocess.run(configure, env=os.environ | settings, capture_output=True, text=True)
    assert run.returncode != 0
    assert "no C++ compiler was found" in " ".join(run.stderr.split())
    assert "apt-get install g++" in run.stderr


def test_flags_of_the_environment_change_no_bit(tmp_path):
    """Nothing is reordered where everything else is compiled with -ffast-math."""
    pytest.importorskip("nanobind")
    if not (shutil.which("cmake") and shutil.which("ninja")):
        pytest.skip("cmake and ninja are not installed")
    configure = ["cmake", "-S", str(SOURCES), "-B", str(tmp_path), "-G", "Ninja"]
    settings = [f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    environment = os.environ | {"CXXFLAGS": "-ffast-math"}
    subprocess.run([*configure, *settings], env=environment, check=True, capture_output=True)
    commands = json.loads((tmp_path / "compile_commands.json").read_text(encoding="utf-8"))
    own = [each["command"] for each in commands if Path(each["file"]).parent == SOURCES]
    assert own
    assert all(-1 < line.find("-ffast-math") < line.find("-fno-fast-math") for line in own)
    links = re.findall(r"LINK_FLAGS = .*", (tmp_path / "build.ninja").read_text(encoding="utf-8"))
    assert links
    assert all("-fno-fast-math" in line for line in links)


@pytest.mark.slow
def test_sanitizers_find_nothing(tmp_path):
    """All kernels, with sound and with damaged arguments, under ASan and UBSan."""
    build = ROOT / "build" / "sanitized"  # kept: only what changed is built again
    configure = ["cmake", "-S", str(SOURCES), "-B", str(build), "-G", "Ninja"]
    python = f"-DPython_EXECUTABLE={sys.executable}"
    subprocess.run([*configure, python, "-DCORNERWAVE_SANITIZE=ON"], check=True)
    subprocess.run(["cmake", "--build", str(build)], check=True)
    libraries = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True).stdout
        for name in ("libasan.so", "libubsan.so", "libstdc++.so")
    ]
    settings = {"LD_PRELOAD": ":".join(map(str.strip, libraries)), "ASAN_OPTIONS": "detect_leaks=0"}
    for instructions in INSTRUCTIONS:
        [module] = build.glob(f"_{instructions}.*.so")
        run = subprocess.run(
            [sys.executable, "-m", "tests.kernels", str(module)],
            env=os.environ | settings,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr[-4000:]
        assert run.stdout.split()[0] == GOLDEN
