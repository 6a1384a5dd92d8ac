"""Tables of which a column without noise tells more than copies state, and copies of them.

The copies are made here, by NumPy alone: noise v = p / (1 - p) shaped like the covariance of the
numbers, categories refreshed from their own frequencies, as if nothing stood beside them.
"""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq

Random = np.random.Generator


def texts(codes: np.ndarray, word: str = "value") -> pa.Array:
    return pa.array([f"{word} {code}" for code in codes.tolist()])


def noise_on(X: np.ndarray, v: float, rng: Random) -> np.ndarray:
    """Return numbers (N, n) with noise v times their covariance."""
    root = np.linalg.cholesky(np.atleast_2d(np.cov(X)))
    return X + np.sqrt(v) * root @ rng.normal(size=X.shape)


def refreshed(column: pa.ChunkedArray, v: float, rng: Random) -> pa.Array:
    """Return a category of which 1 / sqrt(1 + v) is retained, the rest drawn from the column."""
    values = column.to_numpy(zero_copy_only=False)
    drawn = values[rng.integers(len(values), size=len(values))]
    return pa.array(np.where(rng.random(len(values)) < 1 / np.sqrt(1 + v), values, drawn))


def copy_of(table: pa.Table, kept: Collection[str], privacy: float, rng: Random) -> pa.Table:
    """Return a copy of a table; text that is not kept is refreshed, other columns get noise."""
    v, made = privacy / (1 - privacy), dict(zip(table.column_names, table.columns, strict=True))
    category = {name for name in made if pa.types.is_string(table[name].type)}
    numbers = [name for name in made if name not in category and name not in kept]
    if numbers:
        X = np.array([table[name].to_numpy() for name in numbers])
        made |= dict(zip(numbers, noise_on(X, v, rng), strict=True))
    made |= {name: refreshed(table[name], v, rng) for name in sorted(category.difference(kept))}
    return pa.table(made)


def write(
    folder: Path,
    table: pa.Table,
    kept: Collection[str],
    privacy: float,
    rng: Random,
    name: str = "copy",
) -> Path:
    """Write a copy with metadata like ours."""
    roles = {n: "kept" if n in kept else _role(table[n].type) for n in table.column_names}
    told = {
        "noise": privacy / (1 - privacy),
        "privacy": privacy,
        "columns": {name: {"role": role} for name, role in roles.items()},
    }
    copy = copy_of(table, kept, privacy, rng)
    path = folder / f"{name}.parquet"
    papq.write_table(copy.replace_schema_metadata({b"cornerwave": json.dumps(told).encode()}), path)
    return path


def _role(type_: pa.DataType) -> str:
    return "category" if pa.types.is_string(type_) else "perturbed"


def part_of(total: float, signal: np.ndarray, rng: Random) -> np.ndarray:
    """Return a number of variance 1 of which a signal tells the share `total`."""
    signal = (signal - signal.mean()) / signal.std()
    return np.sqrt(total) * signal + np.sqrt(1 - total) * rng.normal(size=len(signal))


def among_categories(rows: int, rng: Random, others: int = 20) -> pa.Table:
    """A kept column of 60 values tells 80 % of income; unrelated categories beside it."""
    branch = rng.integers(60, size=rows)
    made = {"branch": texts(branch), "income": part_of(0.8, rng.normal(size=60)[branch], rng)}
    return pa.table(made | {f"c{n}": texts(rng.integers(12, size=rows)) for n in range(others)})


def many_values(rows: int, rng: Random, values: int = 1000) -> pa.Table:
    """A column of many values tells 80 % of income."""
    place = rng.permutation(np.arange(rows) % values)
    income = part_of(0.8, rng.normal(size=values)[place], rng)
    return pa.table({"place": texts(place), "income": income, "age": rng.normal(40, 9, rows)})


def on_a_map(rows: int, rng: Random) -> pa.Table:
    """A price that is smooth in latitude and longitude."""
    east, north = rng.uniform(0, 1, (2, rows))
    signal = np.sin(7 * east) * np.cos(9 * north) + 0.5 * np.sin(11 * north + 3 * east)
    return pa.table({"lat": north, "lon": east, "price": part_of(0.9, signal, rng)})


def bent(rows: int, rng: Random) -> pa.Table:
    """A cost that depends on a kept age in no straight line."""
    age = rng.integers(0, 90, rows).astype(float)
    return pa.table({"age": age, "cost": part_of(0.95, (age - 45) ** 2, rng)})


def bent_category(rows: int, rng: Random) -> pa.Table:
    """A category that depends on a kept age in no straight line."""
    age = rng.integers(0, 90, rows).astype(float)
    far = np.abs(age - 45) > 22
    plan = np.where(rng.random(rows) < 0.9, far, rng.random(rows) < 0.5)
    return pa.table({"age": age, "plan": texts(plan.astype(int), "plan")})


def timed(rows: int, rng: Random, kind: str) -> pa.Table:
    """The key is in the order of time, the file is not."""
    time = np.arange(rows)
    signal = np.cumsum(rng.normal(size=rows)) if kind == "walk" else np.sin(time / rows * 40)
    level = part_of(0.95, signal, rng)
    order = rng.permutation(rows)
    return pa.table({"id": time[order] + 1_000_000, "level": level[order]})


def visits(rows: int, rng: Random, each: int = 10) -> pa.Table:
    """A key that begins with a person."""
    person, visit = np.arange(rows) // each, np.arange(rows) % each
    height = part_of(0.9, rng.normal(size=rows // each + 1)[person], rng)
    key = [f"P{p:05d}-{v:02d}" for p, v in zip(person.tolist(), visit.tolist(), strict=True)]
    order = rng.permutation(rows)
    return pa.table({"id": pa.array(key).take(pa.array(order)), "height": height[order]})


def claims(rows: int, rng: Random) -> pa.Table:
    """A flag says who has a claim, and so which amounts are 0."""
    flag = rng.random(rows) < 0.1
    amount = np.where(flag, rng.gamma(2.0, 1.0, rows), 0.0)
    return pa.table({"claim": texts(flag.astype(int)), "amount": amount})


@dataclass(frozen=True)
class Leak:
    """A table, what of it is kept, and the column that copies at a privacy then hide too little of.

    `reveals` is the column that does it. `rows` are those of the attack, `quick` those of its twin.
    """

    make: Callable[[int, Random], pa.Table]
    column: str
    reveals: str
    rows: int
    kept: frozenset[str] = frozenset()
    privacy: float = 0.5
    quick: int = 6000

    def permuted(self, table: pa.Table, rng: Random) -> pa.Table:
        """Return the table with what is kept, or else what reveals, in a random order."""
        order, made = pa.array(rng.permutation(len(table))), table
        for name in self.kept or {self.reveals}:
            made = made.set_column(made.column_names.index(name), name, made[name].take(order))
        return made


def _values(values: int, per_quick: int = 15) -> Callable[[int, Random], pa.Table]:
    """A column of so many values, fewer in a small table."""
    return lambda rows, rng: many_values(rows, rng, min(values, rows // per_quick))


LEAKS = {
    "60 values among 20 categories": Leak(
        lambda rows, rng: among_categories(rows, rng, 20 if rows > 10_000 else 3),
        "income",
        "branch",
        40_000,
        frozenset({"branch"}),
        quick=3000,
    ),
    "1,000 kept values": Leak(
        _values(1000), "income", "place", 60_000, frozenset({"place"}), quick=4000
    ),
    "3,000 kept values": Leak(
        _values(3000), "income", "place", 60_000, frozenset({"place"}), quick=8000
    ),
    "400 refreshed values": Leak(_values(400), "income", "place", 60_000),
    "1,000 refreshed values": Leak(_values(1000), "income", "place", 60_000, quick=9000),
    "3,000 refreshed values": Leak(_values(3000), "income", "place", 60_000, quick=12_000),
    "a map": Leak(on_a_map, "price", "lat", 40_000, frozenset({"lat", "lon"}), quick=3000),
    "a map at 0.8": Leak(
        on_a_map, "price", "lat", 40_000, frozenset({"lat", "lon"}), 0.8, quick=3000
    ),
    "a bend": Leak(bent, "cost", "age", 40_000, frozenset({"age"}), quick=2000),
    "a bend of a category": Leak(
        bent_category, "plan", "age", 40_000, frozenset({"age"}), quick=3000
    ),
    "a walk by key": Leak(
        lambda rows, rng: timed(rows, rng, "walk"), "level", "id", 40_000, frozenset({"id"}), 0.8
    ),
    "a wave by key": Leak(
        lambda rows, rng: timed(rows, rng, "wave"), "level", "id", 40_000, frozenset({"id"}), 0.8
    ),
    "a prefix of the key": Leak(visits, "height", "id", 40_000, frozenset({"id"}), 0.8),
    "a flag": Leak(claims, "amount", "claim", 40_000, frozenset({"claim"}), quick=3000),
}
"""Every attack on what stands beside the noise; all were once accepted, and passed the audit."""
