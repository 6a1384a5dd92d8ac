"""What the noise of a changed row becomes, and what copies of all editions leave hidden.

`python -m tests.test_history` prints the figures of docs/editions.md.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerwave.coalition import hidden_in_history
from cornerwave.history import (
    noise_across,
)
from cornerwave.moments import factor
from tests.histories import (
    EDITIONS,
    constant,
    drifting,
    fresh,
    growth,
    left,
    mixed,
    our_rules,
    personal,
    reused,
)

KEY = bytes(range(32))
LEAST, MOST_NOISE = 0.45, 2.5
"""Of privacy 0.50, over 12 editions."""
KINDS = {"drifting": drifting, "personal": personal}
CORRELATIONS = (0.5, 0.9, 0.98)

every_history = pytest.mark.parametrize("r", CORRELATIONS)
both_kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def beside_constant(history, rho):
    """A changing column whose correlation with a constant one is rho."""
    return mixed(np.array([[rho, np.sqrt(1 - rho**2)], [1.0, 0.0]]), [constant(), history])


def loadings(seed, columns=4):
    """Some K = L L' that is not diagonal."""
    return factor(np.corrcoef(np.random.default_rng(seed).standard_normal((columns, 9)))).lower


@every_history
@both_kinds
def test_all_editions_together_hide_values_means_and_changes(kind, r):
    history = kind(r)
    rules = our_rules(history, 1)
    assert min(left(history, 1, rules).values()) >= LEAST
    assert growth(history, 1, rules) <= MOST_NOISE
    assert left(history, 1, reused(history, 1))["change"] < 1e-6
    if r >= 0.9:
        assert left(history, 1, fresh(history, 1))["mean"] < 0.23


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9, 0.99])
@every_history
@both_kinds
def test_a_constant_column_of_a_changing_row_stays_hidden(kind, r, rho):
    history = beside_constant(kind(r), rho)
    rules = our_rules(history, 2)
    assert min(left(history, 2, rules).values()) >= LEAST
    assert growth(history, 2, rules) <= MOST_NOISE
    weights = np.zeros((1, EDITIONS, 2))
    weights[0, 0, 1] = 1
    held = [(e, 1.0) for e in range(EDITIONS)]

    def of_constant(rules):
        S = noise_across(history[:2, :2], rules)
        return hidden_in_history(weights, held, history=history, noise=S)[0]

    assert of_constant(rules) == pytest.approx(0.5, abs=1e-6)
    assert of_constant(fresh(history, 2)) < 0.1


@given(st.integers(0, 10**6), st.data())
@settings(deadline=None, max_examples=25)
def test_columns_that_change_differently_hide_each_other(seed, data):
    of_column = st.builds(
        lambda kind, r: kind(r),
        st.sampled_from([*KINDS.values()]),
        st.sampled_from([*CORRELATIONS, 0.7, 1.0]),
    )
    histories = data.draw(st.lists(of_column, min_size=4, max_size=4))
    history = mixed(loadings(seed), histories)
    rules = our_rules(history, 4)
    assert min(left(history, 4, rules).values()) >= LEAST
    assert growth(history, 4, rules) <= MOST_NOISE


@every_history
@both_kinds
def test_a_row_that_changes_in_some_editions_only(kind, r):
    """The rule comes from rows that change every time; this one stays as it is in between."""
    few = 5
    rule = our_rules(kind(r), 1)[0]
    own = kind(r, few)  # at its own changes
    times = np.repeat(np.arange(few), [3, 1, 4, 2, 2])
    history = own[np.ix_(times, times)]
    rules = [rule if step else None for step in np.diff(times)]
    assert min(left(history, 1, rules).values()) >= LEAST
    assert growth(history, 1, rules) <= MOST_NOISE
