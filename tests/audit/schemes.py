"""Categories of known copies: ours, and the schemes that must fall."""

import numpy as np
import pyarrow as pa

from cornerwave.levels import retention
from cornerwave.noise import position_ids, refresh, thresholds

NOISE = (0.5, 1.0, 3.0)
COUNTS = (5, 3, 2)


def truth(seed, rows, counts=COUNTS):
    share = np.array(counts) / sum(counts)
    return np.random.default_rng(seed).choice(len(counts), rows, p=share).astype(np.int32)


def ours(x, seed, column=0, counts=COUNTS, noise=NOISE):
    """The refresh process."""
    key = seed.to_bytes(32, "big")
    ids, bounds = position_ids(0, len(x)), thresholds(counts)
    return list(refresh(x, ids, noise=noise, bounds=bounds, key=key, column=column))


def independent(x, seed, column=0, counts=COUNTS, noise=NOISE):
    """A refresh of its own for each copy."""
    rng, share = np.random.default_rng([seed, 7 + column]), np.array(counts) / sum(counts)
    drawn = [rng.choice(len(counts), len(x), p=share) for _ in noise]
    kept = [rng.random(len(x)) < retention(level) for level in noise]
    return [np.where(k, x, r) for k, r in zip(kept, drawn, strict=True)]


def shared_uniform(x, seed, column=0, counts=COUNTS, noise=NOISE):
    """One uniform and one replacement per cell: where two copies differ, the better is true."""
    rng, share = np.random.default_rng([seed, 7 + column]), np.array(counts) / sum(counts)
    uniform, drawn = rng.random(len(x)), rng.choice(len(counts), len(x), p=share)
    return [np.where(uniform < retention(level), x, drawn) for level in noise]


def texts(codes):
    """A column of text; -1 is missing."""
    names = pa.array([f"value {number}" for number in range(int(max(codes.max(), 0)) + 1)])
    return names.take(pa.array(codes, mask=np.asarray(codes) < 0))


def tables(scheme, seed, columns=("c",), rows=40_000, counts=COUNTS):
    """Return the source, and a copy of it at each noise."""
    made = [{} for _ in range(1 + len(NOISE))]
    for place, name in enumerate(columns):
        x = truth(seed + 100 * place, rows, counts)
        for table, codes in zip(made, [x, *scheme(x, seed, place, counts)], strict=True):
            table[name] = texts(codes)
    source, *copies = [pa.table(table) for table in made]
    return source, copies
