"""How often persons are found by all of their rows: predicted, and by an attack of its own."""

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.levels import Level
from cornerwave.vault import Vault

PERSONS, ROWS = 900, 3


def panel(seed=1):
    """Persons with three rows each, in random order: two numbers, one of them constant; a job."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(PERSONS), ROWS)
    own = rng.normal(size=(PERSONS, 2))
    x = own[person, 0] + 0.7 * rng.normal(size=len(person))
    job = np.where(rng.random(len(person)) < 0.8, rng.integers(0, 4, PERSONS)[person], 4)
    order = rng.permutation(len(person))
    return pa.table(
        {
            "who": pa.array([f"p{k}" for k in person[order]]),
            "x": x[order],
            "born": own[person, 1][order],
            "job": pa.array([f"j{k}" for k in job[order]]),
        }
    )


def blocks(table, order, kept):
    """Numbers of persons one below the other (persons, 3 of each), and codes of their histories."""
    columns = [np.asarray(table.column(name))[order].reshape(-1, ROWS) for name in kept]
    jobs = np.array(table.column("job").to_pylist())[order].reshape(-1, ROWS)
    return np.concatenate(columns, axis=1), np.array(["".join(each) for each in jobs])


def found(table, copy, noise):
    """Who is the best match of their own rows: normal noise measured in the blocks, histories that
    are replaced as a whole."""
    order = np.argsort(np.array(table.column("who").to_pylist()), kind="stable")
    X, held = blocks(table, order, ["x", "born"])
    Y, shown = blocks(copy, order, ["x", "born"])
    X, Y = X[:, :4], Y[:, :4]  # one of three equal ones
    noise_of_block, spread = np.cov((Y - X).T), np.cov(Y.T)
    inverse, common = np.linalg.inv(noise_of_block), np.linalg.inv(spread)
    x, y = X - X.mean(axis=0), Y - X.mean(axis=0)
    fit = x @ inverse @ y.T - 0.5 * np.einsum("ij,jk,ik->i", x, inverse, x)[:, None]
    fit += 0.5 * np.einsum("ij,jk,ik->i", y, common - inverse, y)
    q = 1 / np.sqrt(1 + noise)
    _values, codes = np.unique(held, return_inverse=True)
    pi = np.bincount(codes) / len(codes)
    fit += np.where(held[:, None] == shown, np.log1p(q / (1 - q) / pi[codes])[:, None], 0.0)
    own = np.diag(fit).copy()
    np.fill_diagonal(fit, -np.inf)
    return own > fit.max(axis=1)


@pytest.mark.parametrize("privacy", [0.3, 0.6])
def test_predicted_is_what_is_found_by_all_rows_of_a_person(tmp_path, privacy):
    table = panel()
    dataset = Vault.create(tmp_path / "v").register("t", table, unit="who")
    level = Level.of(privacy=privacy)
    copy = dataset.release(to="a", noise=level.noise, raw=True).to_arrow()
    hits = found(table, copy, level.noise)
    predicted = dataset.risks_at(level).linkage
    error = np.sqrt(predicted.linked * (1 - predicted.linked) / PERSONS)
    margin = 4 * np.hypot(error, (predicted.high - predicted.low) / 3.92)
    assert abs(hits.mean() - predicted.linked) < margin + 0.05 * predicted.linked
    # by rows alone it would be much less
    rows = Vault.create(tmp_path / "w").register(
        "t", table.drop_columns("who"), independent_rows=True
    )
    assert rows.risks_at(level).linkage.high < predicted.linked - margin
