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


def coded(rows: int, rng: Random, write: Callable[[int, int], str | int]) -> pa.Table:
    """A column of distinct values; `write` puts a unit, which tells 80 % of income, into each."""
    unit, number = rng.integers(12, size=rows), rng.permutation(rows)
    pairs = zip(number.tolist(), unit.tolist(), strict=True)
    income = part_of(0.8, rng.normal(size=12)[unit], rng)
    return pa.table({"code": pa.array([write(n, u) for n, u in pairs]), "income": income})


def as_length(number: int, unit: int) -> str:
    """Letters that are all a code shows of a unit by how many there are."""
    random = np.random.default_rng(number)
    return "".join(map(chr, random.integers(97, 123, 6 + unit)))


def moments(rows: int, rng: Random, kind: Callable[[np.ndarray], np.ndarray]) -> pa.Table:
    """Times in eight years; a part of them tells 80 % of the load."""
    seconds = rng.integers(0, 8 * 365 * 86400, rows)
    times = np.datetime64("2015-01-01T00:00:00") + seconds.astype("timedelta64[s]")
    return pa.table({"at": times, "load": part_of(0.8, kind(times).astype(float), rng)})


def hour(times: np.ndarray) -> np.ndarray:
    return np.sin(times.astype("datetime64[h]").astype(int) % 24 / 24 * 2 * np.pi)


def weekend(times: np.ndarray) -> np.ndarray:
    return (times.astype("datetime64[D]").astype(int) + 3) % 7 > 4


def odd_day(times: np.ndarray) -> np.ndarray:
    days = times.astype("datetime64[D]")
    return (days - days.astype("datetime64[M]")).astype(int) % 2


def some_months(times: np.ndarray) -> np.ndarray:
    return np.isin(times.astype("datetime64[M]").astype(int) % 12, [1, 4, 6, 10])


def month_end(times: np.ndarray) -> np.ndarray:
    days = times.astype("datetime64[D]")
    return (days.astype("datetime64[M]") + 1).astype("datetime64[D]") - days <= np.timedelta64(5)


def turned(rows: int, rng: Random, values: int, numbers: int = 5) -> pa.Table:
    """A kept value decides the direction in which numbers vary together, and no mean."""
    ways = rng.normal(size=(values, numbers))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    kind = rng.integers(values, size=rows)
    Z = 2 * rng.normal(size=rows)[:, None] * ways[kind] + 0.15 * rng.normal(size=(rows, numbers))
    return pa.table({"kind": texts(kind), **{f"z{n}": Z[:, n] for n in range(numbers)}})


def beside_refreshed(rows: int, rng: Random) -> pa.Table:
    """The mean depends on a kept value and a refreshed one together."""
    kept, fresh = rng.integers(30, size=rows), rng.integers(10, size=rows)
    mean = rng.normal(size=(30, 10))[kept, fresh]
    made = {"kept": texts(kept), "fresh": texts(fresh)}
    return pa.table(made | {"income": mean + 0.3 * rng.normal(size=rows)})


def three_of_five(rows: int, rng: Random) -> pa.Table:
    """A table of three kept columns of eight values each tells 70 % of x; two more are kept."""
    codes = rng.integers(8, size=(5, rows))
    mean = rng.normal(size=(8, 8, 8))[codes[0], codes[2], codes[3]]
    return pa.table(
        {f"k{n}": texts(c) for n, c in enumerate(codes)} | {"x": part_of(0.7, mean, rng)}
    )


def parity(rows: int, rng: Random) -> pa.Table:
    """Whether an odd number of three flags is set tells 70 % of x; six more columns are kept."""
    codes = rng.integers(2, size=(3, rows)), rng.integers(5, size=(6, rows))
    made = {f"k{n}": texts(c) for n, c in enumerate(np.vstack(codes))}
    return pa.table(made | {"x": part_of(0.7, codes[0].sum(axis=0) % 2, rng)})


def stacked(rows: int, rng: Random, waves: int, *, back: bool = False) -> pa.Table:
    """The same people in several waves, in one order, or there and back."""
    people = rng.normal(size=rows // waves)
    every = [people[::-1] if back and wave % 2 else people for wave in range(waves)]
    level = part_of(0.9, np.concatenate(every), rng)
    return pa.table({"level": level, "age": rng.normal(size=len(level))})


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

_CODE, _AT = frozenset({"code"}), frozenset({"at"})

PARTS = {
    "end of code": Leak(
        lambda n, r: coded(n, r, lambda k, u: f"{k:06d}-B{u:02d}"), "income", "code", 20_000, _CODE
    ),
    "length of code": Leak(lambda n, r: coded(n, r, as_length), "income", "code", 20_000, _CODE),
    "last 2 digits of code": Leak(
        lambda n, r: coded(n, r, lambda k, u: (k + 10_000) * 100 + u),
        "income",
        "code",
        20_000,
        _CODE,
    ),
    "end of code, a domain": Leak(
        lambda n, r: coded(n, r, lambda k, u: f"user{k}@firm{u}.org"),
        "income",
        "code",
        20_000,
        _CODE,
    ),
    "from the end of code": Leak(
        lambda n, r: coded(n, r, lambda k, u: f"ref {k * 7919 % 10**6} unit {chr(97 + u) * 3} {k}"),
        "income",
        "code",
        20_000,
        _CODE,
    ),
    "hour of at": Leak(lambda n, r: moments(n, r, hour), "load", "at", 20_000, _AT),
    "weekday of at": Leak(lambda n, r: moments(n, r, weekend), "load", "at", 20_000, _AT),
    "day of the month of at": Leak(lambda n, r: moments(n, r, odd_day), "load", "at", 20_000, _AT),
    "month of at": Leak(lambda n, r: moments(n, r, some_months), "load", "at", 20_000, _AT),
    "days to the end of the month of at": Leak(
        lambda n, r: moments(n, r, month_end), "load", "at", 20_000, _AT
    ),
}
"""Columns of values that are all different, or nearly, by the name of the part that tells."""

TOGETHER = {
    "kept (a fit for each of its values)": Leak(
        beside_refreshed, "income", "kept", 20_000, frozenset({"kept"}), quick=12_000
    ),
    "k0 with k2 with k3": Leak(
        three_of_five, "x", "k0", 20_000, frozenset(f"k{n}" for n in range(5))
    ),
    "k0 with k1 with k2": Leak(parity, "x", "k0", 20_000, frozenset(f"k{n}" for n in range(9))),
}
"""Columns that tell together what none of them tells alone."""
