"""The mean and the distribution of a column that was perturbed on ranks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest
from miner_world import agrees, coverage, covers

from cornerwave import Vault
from cornerwave.miner import Copy, Estimates

pytestmark = pytest.mark.filterwarnings("ignore::cornerwave.errors.CornerwaveWarning")

KINDS: dict[str, tuple[Callable[[Any, int], Any], float]] = {
    # values, and the mean of the population that they are drawn from
    "zeros": (
        lambda rng, n: np.where(rng.random(n) < 0.6, 0, np.rint(rng.gamma(2, 500, n))).astype(int),
        400.0,
    ),
    "long tail": (lambda rng, n: rng.lognormal(0, 1, n), np.exp(0.5)),
    "counts": (lambda rng, n: rng.poisson(3, n), 3.0),
    "plain": (lambda rng, n: rng.normal(5, 2, n), 5.0),
}
NOISE = (0.2, 1.0, 4.0)


def released(x: Any, folder: Path, noise: float) -> Copy:
    dataset = Vault.create(folder / "vault").register("t", {"x": x}, transform={"x": "rank"})
    raw = dataset.release(to="partner", noise=noise, raw=True)
    return Copy.open(raw.write(folder / "copy.parquet"))


def one_of(found: Any) -> Estimates:
    return Estimates(((0,),), np.array([found.value]), np.array([found.standard_error]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.first(2)
def test_the_mean_of_the_table_and_its_quantiles(kind: str, tmp_path: Path) -> None:
    rng, n = np.random.default_rng(7), 20_000
    x = KINDS[kind][0](rng, n)
    copy = released(pa.array(x), tmp_path, 1.0)
    assert agrees(one_of(copy.original_mean("x", of="table")), x.mean())
    shown = papq.read_table(tmp_path / "copy.parquet").column("x").to_numpy()
    naive = Estimates(((0,),), np.array([shown.mean()]), np.array([shown.std() / n**0.5]))
    assert agrees(naive, x.mean()) == (kind == "plain")  # symmetric
    # through noise of variance 1 the share below a score is known to about 3 / sqrt(n)
    found, reach = copy.distribution("x"), 6 * 3 / n**0.5
    for p in (0.25, 0.5, 0.75):
        low, high = np.quantile(x, [p - reach, p + reach])
        slack = 2**-9 * (x.max() - x.min())
        assert low - slack <= found.quantile(p) <= high + slack


def test_an_excess_that_leaves_no_noise_is_not_a_crash() -> None:
    stated = {"noise": 1.0, "columns": {"x": {"transform": "rank", "excess": {"x": -5.0}}}}
    copy = Copy.open(pa.table({"x": np.arange(200.0)}), metadata=stated)
    assert np.isfinite(copy.original_mean("x").value)


def test_a_population_has_wider_intervals_than_its_table(tmp_path: Path) -> None:
    x = KINDS["zeros"][0](np.random.default_rng(8), 5000)
    x = pa.array(x, mask=np.arange(5000) % 7 == 0)
    copy = released(x, tmp_path, 0.2)
    table, population = (copy.original_mean("x", of=of) for of in ("table", "population"))
    assert table.value == population.value
    assert table.standard_error < population.standard_error


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover_in_100_vaults(kind: str, tmp_path: Path) -> None:
    make, mean = KINDS[kind]

    def one(seed: int, factor: float = 1.0) -> tuple[Estimates, Any]:
        folder = tmp_path / f"{seed} {factor}"
        folder.mkdir()
        x = make(np.random.default_rng([seed, 2]), 3000)
        copy = released(pa.array(x), folder, NOISE[seed % 3])
        found = [copy.original_mean("x", of=of) for of in ("table", "population")]
        value = np.array([own.value for own in found])
        error = np.array([own.standard_error * factor for own in found])
        return Estimates(((),), value, error), np.array([x.mean(), mean])

    assert covers(coverage(one, 100), 100)
    assert not covers(coverage(lambda seed: one(seed, 0.5), 60), 60)
