"""Tables that tests share: one like UCI Adult, and names of columns that nobody expects."""

import numpy as np
import pyarrow as pa

STRANGE_NAMES = [
    "",
    " two  spaces ",
    "new\nline",
    "a,b",
    'quo"te',
    "it's",
    "a=b",
    "--drop",
    "tab\tbell\x07del\x7f",
    "schöne größe",
    "名前",
    "😀",
    "a.b",
    "[[column]]",
    "\\n",
    "#",
]

_TEXTS = {
    "workclass": ("Private", "Self-emp", "State-gov", "?"),
    "education": ("Bachelors", "HS-grad", "11th", "Masters", "Doctorate"),
    "marital-status": ("Married", "Never-married", "Divorced"),
    "occupation": ("Sales", "Tech-support", "Craft-repair", "?"),
    "relationship": ("Husband", "Wife", "Own-child"),
    "race": ("White", "Black", "Other"),
    "sex": ("Male", "Female"),
    "native-country": ("United-States", "Mexico", "India", "?"),
    "income": ("<=50K", ">50K"),
}
_ORDER = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race "
    "sex capital-gain capital-loss hours-per-week native-country income"
)


def adult(rows=400, seed=0):
    """Six columns of numbers and nine of text, with '?' for what is not known."""
    rng = np.random.default_rng(seed)
    columns = {
        name: pa.array(np.array(values)[rng.integers(len(values), size=rows)])
        for name, values in _TEXTS.items()
    }
    gains = np.where(rng.random(rows) < 0.9, 0, rng.integers(1, 100_000, rows))
    columns |= {
        "age": pa.array(rng.integers(17, 91, rows)),
        "fnlwgt": pa.array(rng.permutation(rows) * 7 + 12285),
        "education-num": pa.array(rng.integers(1, 17, rows)),
        "capital-gain": pa.array(gains),
        "capital-loss": pa.array(rng.permutation(gains) // 20),
        "hours-per-week": pa.array(rng.integers(1, 100, rows)),
    }
    return pa.table({name: columns[name] for name in _ORDER.split()})


KEY_AS_IS = {"key": "id", "key_as_is": True}
"""The choices of a table whose rows a test finds in copies by their key."""
