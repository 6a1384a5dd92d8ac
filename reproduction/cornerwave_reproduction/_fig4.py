"""Accuracy of classifiers on copies, for both schemes (Figure 4).

A decision tree and a support vector machine with a radial kernel are trained and
tested on copies at 20 levels, by cross validation. The paper calls the accuracies of
the two schemes identical. A copy at one level has the same distribution under both,
so the means must agree; single runs differ because the draws do. Everything is
repeated over several seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn import config_context
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from cornerwave.arrays import Floats
from cornerwave_reproduction._drawing import INDEPENDENT, OURS, Drawing, figure, legend
from cornerwave_reproduction._input_table import InputTable, cancer, iris
from cornerwave_reproduction._part import (
    CONFIDENCE,
    Columns,
    Result,
    Setting,
    Statement,
    interval,
    stacked,
)
from cornerwave_reproduction._requests import one_by_one
from cornerwave_reproduction._schemes import Independent

SOURCE = "Experiment 1, Figure 4"
CLASSIFIERS = ("decision tree", "RBF SVM")
SCHEMES = {"ours": OURS, "independent": INDEPENDENT}
MARGIN = 0.02
"""Mean accuracies whose interval stays within this of each other count as the same."""

LEVELS = (0.05, 1.0)
SMALL_TABLE, SMALL_TABLE_SEEDS = 300, 8
"""A table with fewer rows is repeated more often: it costs little and its accuracies vary more."""


@dataclass(frozen=True, eq=False)
class Accuracies:
    """Accuracy (seeds, levels) by data set, classifier and scheme."""

    noise: Floats
    of: dict[tuple[str, str, str], Floats]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Every data set with every classifier."""
        return list(dict.fromkeys((data, classifier) for data, classifier, _ in self.of))

    def difference(self, data: str, classifier: str) -> Floats:
        """Return ours minus independent, (seeds, levels)."""
        ours, independent = (self.of[data, classifier, scheme] for scheme in SCHEMES)
        return ours - independent


def classifier_of(name: str, *, seed: int) -> Any:
    """Return a fresh classifier by name."""
    if name == "decision tree":
        return DecisionTreeClassifier(min_samples_leaf=3, random_state=seed)
    return SVC(kernel="rbf")


def seeds_of(table: InputTable, seeds: int) -> int:
    """Return how many seeds to repeat a table with."""
    return seeds * SMALL_TABLE_SEEDS if len(table.rows) < SMALL_TABLE else seeds


def copies_of(X: Floats, noise: Floats, *, seed: int) -> dict[str, list[Floats]]:
    """Return a copy at each level, for both schemes."""
    independent = Independent().copies(X, noise=noise.tolist(), unsafe_seed=seed)
    return {"ours": one_by_one(X, noise, seed=seed), "independent": independent}


def accuracy(table: InputTable, copy: Floats, classifier: str, *, folds: int, seed: int) -> float:
    """Return the mean accuracy on a copy by cross validation."""
    split = StratifiedKFold(folds, shuffle=True, random_state=seed)
    classes, scores = np.asarray(table.classes), []
    for train, test in split.split(copy, classes):
        mean, deviation = copy[train].mean(axis=0), copy[train].std(axis=0)
        scaled = (copy - mean) / deviation
        model = classifier_of(classifier, seed=seed).fit(scaled[train], classes[train])
        scores.append((model.predict(scaled[test]) == classes[test]).mean())
    return float(np.mean(scores))


def measure(setting: Setting, tables: Sequence[InputTable]) -> Accuracies:
    """Return all accuracies, table by table and seed by seed."""
    effort = setting.effort
    noise = np.linspace(*LEVELS, effort.utility_levels)
    found: dict[tuple[str, str, str], list[list[float]]] = {}
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for table in tables:
            seeds = seeds_of(table, effort.utility_seeds)
            for repeat in range(seeds):
                seed = 1000 * setting.seed + repeat
                for key, scores in _scores(table, noise, folds=effort.folds, seed=seed).items():
                    found.setdefault((table.name, *key), []).append(scores)
                setting.tick(1 / seeds / len(tables))
    return Accuracies(noise, {key: np.array(rows) for key, rows in found.items()})


def _scores(
    table: InputTable, noise: Floats, *, folds: int, seed: int
) -> dict[tuple[str, str], list[float]]:
    """Return the accuracy at each level, by classifier and scheme."""
    return {
        (name, scheme): [accuracy(table, Y, name, folds=folds, seed=seed) for Y in copies]
        for scheme, copies in copies_of(table.rows, noise, seed=seed).items()
        for name in CLASSIFIERS
    }


def state(accuracies: Accuracies) -> tuple[Statement, ...]:
    """Test 'identical' for each classifier on each data set, and level by level."""
    statements = [_same_on_average(accuracies, *pair) for pair in accuracies.pairs]
    return (*statements, _same_at_each_level(accuracies))


def _same_on_average(accuracies: Accuracies, data: str, classifier: str) -> Statement:
    # Seeds are independent, levels of one seed are not. Equivalence takes two things: no
    # significant difference, and an interval that is narrow enough to exclude a large one.
    by_seed = accuracies.difference(data, classifier).mean(axis=1)
    mean, margin = (float(x) for x in interval(by_seed, comparisons=len(accuracies.pairs)))
    single = float(np.abs(accuracies.difference(data, classifier)).max())
    return Statement.judged(
        source=SOURCE,
        claim=f"{data}, {classifier}: both schemes give the same accuracy.",
        holds=abs(mean) <= margin and abs(mean) + margin < MARGIN,
        measured=f"ours minus independent {100 * mean:+.2f} ± {100 * margin:.2f} percentage points "
        f"over all levels, {len(by_seed)} seeds; allowed ± {100 * MARGIN:g}",
        remark=f"Equal on average, not identical: single runs differ by up to {100 * single:.1f} "
        "points because their draws differ.",
    )


def _same_at_each_level(accuracies: Accuracies) -> Statement:
    """Test every level by itself, with a correction for their number."""
    differences = [accuracies.difference(*pair) for pair in accuracies.pairs]
    comparisons = len(differences) * len(accuracies.noise)
    ends = [interval(rows, comparisons=comparisons) for rows in differences]
    apart = sum(int((np.abs(mean) > margin).sum()) for mean, margin in ends)
    largest = max(float(np.abs(mean).max()) for mean, _ in ends)
    return Statement.judged(
        source=SOURCE,
        claim="The accuracies agree at every noise level.",
        holds=apart == 0,
        measured=f"{apart} of {comparisons} means differ beyond their intervals (family-wise "
        f"{CONFIDENCE:.0%}); the largest mean difference is {100 * largest:.1f} points",
    )


def draw(accuracies: Accuracies, tables: Sequence[InputTable]) -> Figure:
    """Draw a panel per data set and classifier: means, with intervals over seeds."""
    drawn = figure(height=5.0)
    panels = drawn.subplots(len(CLASSIFIERS), len(tables), squeeze=False, sharex=True, sharey="col")
    for j, table in enumerate(tables):
        for axes, name in zip(panels[:, j], CLASSIFIERS, strict=True):
            # Both schemes have the same levels: shift them so that neither hides the other.
            for (scheme, colour), shift, mark in zip(
                SCHEMES.items(), (-0.005, 0.005), "os", strict=True
            ):
                mean, margin = interval(accuracies.of[table.name, name, scheme])
                style = {"color": colour, "marker": mark, "markersize": 3, "label": scheme}
                style |= {"linewidth": 1, "elinewidth": 0.8}
                axes.errorbar(accuracies.noise + shift, 100 * mean, yerr=100 * margin, **style)
            axes.set_title(f"{table.name}, {name}")
        panels[-1, j].set_xlabel("noise v")
    for axes in panels[:, 0]:
        axes.set_ylabel("accuracy (%)")
    legend(drawn, panels[0, 0], ncols=len(SCHEMES))
    return drawn


def columns_of(accuracies: Accuracies) -> Columns:
    """Return means and intervals as columns."""
    blocks = []
    for (data, classifier, scheme), rows in accuracies.of.items():
        mean, margin = interval(rows)
        block = {"data": data, "classifier": classifier, "scheme": scheme}
        numbers = {"noise": accuracies.noise, "accuracy": mean, "margin": margin}
        blocks.append(block | {name: values.tolist() for name, values in numbers.items()})
    return stacked(blocks)


def run(setting: Setting) -> Result:
    """Measure, state and draw, on iris and breast cancer."""
    tables = (iris(), cancer())
    accuracies = measure(setting, tables)
    effort = setting.effort
    caption = (
        f"Accuracy by {effort.folds}-fold cross validation on copies: means with "
        f"{CONFIDENCE:.0%} intervals over "
        + " and ".join(f"{seeds_of(t, effort.utility_seeds)} seeds ({t.name})" for t in tables)
        + "."
    )
    drawing = Drawing("fig4", caption, lambda: draw(accuracies, tables))
    text = (
        "Iris (150 rows, 4 attributes) and Wisconsin breast cancer (699 rows, 9 attributes; "
        f"{tables[1].note}), {effort.utility_levels} noise levels: at each level one copy of ours, "
        "made on demand, and one with independent noise."
    )
    title = "Figure 4: accuracy of classifiers on copies"
    return Result(title, text, state(accuracies), (drawing,), {"fig4": columns_of(accuracies)})
