"""The compiled core: the same bits for every instruction set, and nothing gets past its border."""

import os
import re
import subprocess
import sys
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
GOLDEN = "65f1f7c6c8cff38c2a861dd6950441006e2cb696856fde43440f26b5877ccf4b"


def module_of(instructions):
    return import_module(f"cornerwave._core._{instructions}")


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
def test_all_kernels_give_the_same_bits(instructions):
    assert kernels.digest(module_of(instructions)) == GOLDEN


def test_a_last_bit_would_be_noticed(monkeypatch):
    def beside(rng):
        words, masks, out = sound["fill_normals"](rng)
        words[0] ^= np.uint64(1 << 12)
        return [words, masks, out]

    sound = kernels.CALLS
    monkeypatch.setattr(kernels, "CALLS", sound | {"fill_normals": beside})
    assert kernels.digest(module_of("portable")) != GOLDEN


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
