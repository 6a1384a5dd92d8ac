"""Tables of four kinds that the attacks are run on, (T, 2) each, columns correlated."""

import numpy as np
from numpy.typing import NDArray


def gaussian(rows: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return rng.standard_normal((rows, 2)) @ np.array([[3.0, 40.0], [0.0, 30.0]]) + [5.0, -100.0]


def skewed(rows: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Age, and a wage in cents that is zero for 36 % and has a long tail."""
    age = np.floor(rng.uniform(16, 85, rows))
    wage = np.round(np.exp(9.5 + age / 100 + rng.standard_normal(rows)), 2)
    return np.column_stack([age, np.where(rng.random(rows) < 0.36, 0.0, wage)])


def bimodal(rows: int, rng: np.random.Generator) -> NDArray[np.float64]:
    side = rng.choice([-1.0, 1.0], rows)[:, None]
    return side * [2.0, 1.5] + rng.standard_normal((rows, 2)) * 0.5


def discrete(rows: int, rng: np.random.Generator) -> NDArray[np.float64]:
    first = rng.integers(1, 4, rows)
    return np.column_stack([first, first + rng.integers(0, 3, rows)]).astype(np.float64)


TABLES = {"gaussian": gaussian, "skewed": skewed, "bimodal": bimodal, "discrete": discrete}
