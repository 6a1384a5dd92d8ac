"""The data dictionary of a copy: what each column is, its noise, and how to compute with it.

It is a function of the copy alone: of what the copy says about itself, and of what anybody who
holds it can compute. The noise in a column's own units is one of these: in Y = X + W with
W ~ N(0, v K) the deviation sqrt(v K) is estimated from the copy's variance (1 + v) K.

    described      the metadata of a copy, with a sentence about each column
    dictionary_of  the whole dictionary of a copy in a file
"""

import csv
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from cornerwave.columns import CATEGORY, KEPT, PERTURBED, UNIFORM
from cornerwave.errors import BiasWarning, ColumnError, SourceError
from cornerwave.miner import LOG1P, RANK, Copy, CopyColumn, Estimate
from cornerwave.outlook import in_units
from cornerwave.outputs import read_metadata
from cornerwave.sources import Address
from cornerwave.spec import ColumnMetadata, CopyMetadata
from cornerwave.times import DAY, is_date, moment, seconds_of


@dataclass(frozen=True)
class ColumnNote:
    """What a recipient should know of a column; an empty text says that there is nothing to say."""

    column: str
    role: str
    what: str
    type: str
    unit: str
    noise: str
    lowest: str
    highest: str
    step: str
    missing: str
    use: str
    mind: str


@dataclass(frozen=True)
class DataDictionary:
    """The entries of a copy's columns, and a program that runs on the copy, with what it prints."""

    rows: int
    edition: int
    privacy: float
    noise: float
    entries: tuple[ColumnNote, ...]
    program: str
    printed: str

    def csv(self) -> str:
        """Return the entries as CSV."""
        text = io.StringIO()
        names = list(ColumnNote.__dataclass_fields__)
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, self.entries))
        return text.getvalue()


def described(metadata: CopyMetadata) -> CopyMetadata:
    """Return the metadata of a copy with a sentence about each of its columns."""
    assert metadata.noise is not None
    columns = {
        name: replace(told, about=". ".join(_about(name, told, metadata.noise)))
        for name, told in metadata.columns.items()
    }
    return replace(metadata, columns=columns)


def _about(name: str, told: ColumnMetadata, noise: float) -> Iterator[str]:
    parts = (what(told), drawn(told, noise), use(name, told), mind(told, noise))
    yield from (part[0].upper() + part[1:] for part in parts if part)


def dictionary_of(path: Path | Address) -> DataDictionary:
    """Return the dictionary of a copy. Raises SourceError if it says nothing about itself."""
    stated = read_metadata(path)
    if stated is None or stated.rows is None or stated.privacy is None or stated.noise is None:
        raise SourceError(f"the metadata of {path.name} states too little for a dictionary")
    copy = Copy.open(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BiasWarning)
        spreads = _spreads(copy)
        steps = list(_example(copy))
    return DataDictionary(
        rows=stated.rows,
        edition=stated.edition or 1,
        privacy=stated.privacy,
        noise=stated.noise,
        entries=tuple(
            _entry(name, told, spreads, stated.noise) for name, told in stated.columns.items()
        ),
        program=PROGRAM + "".join(f"show({title!r}, {code})\n" for title, code, _ in steps),
        printed="".join(f"{_shown(title, found)}\n" for title, _, found in steps),
    )


GAPS = {"shown": "as in the original", "hidden": "hidden"}


def _entry(
    name: str, told: ColumnMetadata, spreads: Mapping[str, float], noise: float
) -> ColumnNote:
    unit = told.unit
    low, high = told.clipped or (None, None)
    step = told.rounded
    return ColumnNote(
        column=name,
        role=told.role or "",
        what=what(told),
        type=told.type or "",
        unit=unit or "",
        noise=_in_own_units(told, spreads.get(name)) or drawn(told, noise),
        lowest="" if low is None else _value(low, unit),
        highest="" if high is None else _value(high, unit),
        step=_step(step, _plain(unit)) if step else "",
        missing=GAPS.get(told.missing or "", ""),
        use=use(name, told),
        mind=mind(told, noise),
    )


# --- what the metadata says, in words ---------------------------------------------------


def what(told: ColumnMetadata) -> str:
    """Say what a column is."""
    role, unit = told.role, told.unit
    if role == PERTURBED:
        kind = f"{_kind(told)} with noise"
        if unit and not told.rounded:
            kind += f", counted in {unit}"
        scale = {LOG1P: ", added to log(1 + x)", RANK: ", added on the scale of ranks"}
        return kind + scale.get(told.transform or "", "")
    if role == CATEGORY:
        partners = told.together
        joined = f", drawn together as {' + '.join(partners)}" if partners else ""
        pooled = ", rare values pooled" if told.pooled else ""
        number = "?" if told.categories is None else told.categories
        return f"category of {number} values, some redrawn{joined}{pooled}"
    if role == KEPT:
        return "unchanged"
    if told.pseudonym:
        return "pseudonym that identifies the row, the same in all copies of this dataset"
    return "identifies the rows, unchanged"


def drawn(told: ColumnMetadata, noise: float) -> str:
    """Say how many cells of a category were redrawn, and from what."""
    if told.role != CATEGORY:
        return ""
    base = "evenly from all values" if told.base == UNIFORM else "from the column’s own frequencies"
    return f"{(1 + noise) ** -0.5:.1%} of the cells retained, the others redrawn {base}"


def use(name: str, told: ColumnMetadata) -> str:
    """Say how the miner is asked about a column."""
    if told.role == CATEGORY:
        if told.base == UNIFORM and told.together:
            return f"copy.two_way{tuple(told.together[:2])!r}"
        return f"copy.frequencies({name!r})"
    if told.role != PERTURBED:
        return ""
    mean = "original_mean" if told.transform in (LOG1P, RANK) else "mean"
    return f"copy.{mean}({name!r}), copy.distribution({name!r})"


def mind(told: ColumnMetadata, noise: float) -> str:
    """Say what is biased in a column if it is used as if it had no noise, or in any case."""
    role = told.role
    if role == CATEGORY:
        weaker = f"relations to other columns are weaker by the factor {(1 + noise) ** -0.5:.3g}"
        even = told.base == UNIFORM
        return f"shares are drawn towards each other, and {weaker}" if even else weaker
    if role != PERTURBED:
        return ""
    if told.transform == RANK:
        return "its values are drawn apart: averages of the copy are not those of the original"
    lines = [f"variances are about {1 + noise:.4g} times the original’s"]
    if told.transform == LOG1P:
        lines = [f"variances of log(1 + x) are about {1 + noise:.4g} times the original’s"]
    if told.clipped:
        lines.append("cut off at its bounds, so estimates are biased by an unknown amount")
    if told.missing == "hidden":
        lines.append("missing values were filled in, so estimates are biased by an unknown amount")
    return "; ".join(lines)


def _kind(told: ColumnMetadata) -> str:
    """Return what kind of numbers a perturbed column holds."""
    if told.unit is None:
        return "number"
    kind = (told.type or "").partition("[")[0].rstrip("3264")
    return {"timestamp": "date and time", "time": "time of day"}.get(kind, kind)


def _step(step: float, unit: str | None) -> str:
    """Write a step.

    >>> _step(1.0, "days"), _step(0.01, None)
    ('1 day', '0.01')
    """
    text = in_units(step, unit)
    return text.removesuffix("s") if text.startswith("1 ") else text


def _plain(unit: str | None) -> str | None:
    """Return the unit of a distance between two values of a unit."""
    return unit.split(" ")[0] if unit else None


def _value(value: float, unit: str | None) -> str:
    if unit is None:
        return f"{value:,.10g}"
    if not is_date(unit):
        return in_units(value, unit)
    return moment(seconds_of(value, unit), within=DAY if unit.startswith("days") else 1.0)


# --- what anybody can compute from the copy ---------------------------------------------


def _spreads(copy: Copy) -> dict[str, float]:
    """Return the standard deviation of each number's noise, estimated from the copy."""
    names = [c.name for c in copy.columns.values() if c.noise and c.transform != RANK]
    try:
        found = copy.covariance(names, of="table") if names else None
    except ColumnError:  # a column without two values
        return {}
    columns = [copy.columns[name] for name in names]
    return {c.name: _deviation(c, float(found[c.name, c.name].value)) for c in columns if found}


def _deviation(column: CopyColumn, variance: float) -> float:
    own = max(variance, 0.0) + column.excess.get(column.name, 0.0)
    return float(np.sqrt(column.noise * own))


def _in_own_units(told: ColumnMetadata, deviation: float | None) -> str:
    if told.transform == RANK:
        return f"hides {told.hidden or 0.0:.0%} of the ranks’ variance"
    if deviation is None:
        return ""
    if told.transform == LOG1P:
        return f"a factor of {in_units(float(np.exp(deviation)))} for one standard deviation"
    return f"standard deviation {in_units(deviation, _plain(told.unit))}"


PROGRAM = """\
# Save as example.py, and run it with the copy: python example.py COPY
import sys

from cornerwave.miner import Copy


def show(what, found):
    low, high = found.interval(0.95)
    print(f"{what}: {found.value:.6g} ± {found.standard_error:.4g}, in {low:.6g} to {high:.6g}")


copy = Copy.open(sys.argv[1])
"""
Step = tuple[str, str, Estimate]
"""A question in words, the question to the miner, and the answer."""


def _shown(what: str, found: Estimate) -> str:
    low, high = found.interval(0.95)
    return f"{what}: {found.value:.6g} ± {found.standard_error:.4g}, in {low:.6g} to {high:.6g}"


def _example(copy: Copy) -> Iterator[Step]:
    """Yield questions that this copy answers; one that it refuses ends them."""
    columns = copy.columns.values()
    numbers = [c for c in columns if c.noise > 0 and not c.transform]
    plain = [c for c in numbers if not c.clipped and not c.hides_missing]
    drawn = [c.name for c in columns if c.retention < 1.0 and c.base != UNIFORM]
    names = [column.name for column in plain or numbers]
    with suppress(ColumnError):  # too few rows, or too much noise
        yield from _about_numbers(copy, names)
        yield from _about_categories(copy, names[-1:], drawn[:1])


def _about_numbers(copy: Copy, numbers: Sequence[str]) -> Iterator[Step]:
    for last in numbers[-1:]:
        yield f"mean of {last}", f"copy.mean([{last!r}])[{last!r}]", copy.mean([last])[last]
    for one, last in [(numbers[0], numbers[-1])] if len(numbers) > 1 else ():
        found = copy.correlation([one, last])[one, last]
        code = f"copy.correlation([{one!r}, {last!r}])[{one!r}, {last!r}]"
        yield f"correlation of {one} and {last}", code, found
        slope = copy.regression(last, on=[one]).coefficients[one]
        code = f"copy.regression({last!r}, on=[{one!r}]).coefficients[{one!r}]"
        yield f"slope of {last} on {one}", code, slope


def _about_categories(copy: Copy, numbers: Sequence[str], labels: Sequence[str]) -> Iterator[Step]:
    for name in labels:
        shares = copy.frequencies(name)
        value = shares.labels[0][int(np.argmax(shares.value))]
        if not isinstance(value, str | int):  # what a program writes as it is
            continue
        yield f"share of {name} = {value}", f"copy.frequencies({name!r})[{value!r}]", shares[value]
        for number in numbers:
            means = copy.group_means(number, by=name)
            code = f"copy.group_means({number!r}, by={name!r})[{value!r}]"
            yield f"mean of {number} where {name} = {value}", code, means[value]
