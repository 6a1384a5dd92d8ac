"""The data dictionary of a copy: what each column is, its noise, and how to compute with it.

It is a function of the copy alone: of its metadata, and of what anybody who holds it can
compute. The noise in a column's own units is one of these: in Y = X + W with W ~ N(0, v K) the
deviation sqrt(v K) is estimated from the copy's variance (1 + v) K; of c + f (Y - c), which varies
as the table does, it is f times that. It names neither the copy's
file nor its recipient: the same copy has the same dictionary, byte for byte.

    described         the metadata of a copy, with a sentence about each column
    dictionary_of     the whole dictionary of a copy in a file
    write_dictionary  it as a page and as CSV, beside the copy
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from cornerwave import document as doc
from cornerwave.choices import CATEGORY, DERIVED, KEPT, PERTURBED, UNIFORM, UNIT
from cornerwave.columns import distance_name
from cornerwave.document import DAY, count, is_date, moment, seconds_of
from cornerwave.documents import page
from cornerwave.errors import ColumnError, OutputError, SourceError, collecting_warnings
from cornerwave.miner import LOG1P, MIXED, RANK, Copy, CopyColumn, Estimate
from cornerwave.outlook import in_units
from cornerwave.outputs import check_place, read_metadata, write_text
from cornerwave.sources import Address, DatabaseAddress, Place, place_of
from cornerwave.spec import ColumnMetadata, CopyMetadata


@dataclass(frozen=True)
class ColumnNote:
    """What a recipient should know of a column; a text is empty where it does not apply."""

    column: str
    description: str
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
    """The entries of a copy's columns, and a program that runs on the copy, with what it prints.

    `spread` is whether numbers with noise vary as those of the original.
    """

    rows: int
    edition: int
    privacy: float
    noise: float
    entries: tuple[ColumnNote, ...]
    program: str
    printed: str
    spread: bool = False

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
        name: replace(about, about=". ".join(_about(name, about, metadata.noise)))
        for name, about in metadata.columns.items()
    }
    return replace(metadata, columns=columns)


def _about(name: str, about: ColumnMetadata, noise: float) -> Iterator[str]:
    parts = (what(about), drawn(about, noise), use(name, about), mind(about, noise))
    yield from (part[0].upper() + part[1:] for part in parts if part)


def dictionary_of(path: Path | Address) -> DataDictionary:
    """Return the dictionary of a copy. Raises SourceError if its metadata states too little."""
    stated = read_metadata(path)
    if stated is None or stated.rows is None or stated.privacy is None or stated.noise is None:
        raise SourceError(f"the metadata of {path.name} states too little for a dictionary")
    copy = Copy.open(path)
    with collecting_warnings():  # each column's entry states its bias
        spreads = _spreads(copy)
        steps = list(_example(copy))
    return DataDictionary(
        rows=stated.rows,
        edition=stated.edition or 1,
        privacy=stated.privacy,
        noise=stated.noise,
        entries=tuple(
            _entry(name, about, spreads, stated.noise) for name, about in stated.columns.items()
        ),
        program=PROGRAM + "".join(f"show({title!r}, {code})\n" for title, code, _ in steps),
        printed="".join(f"{_shown(title, estimate)}\n" for title, _, estimate in steps),
        spread=all(
            about.spread is not None for about in stated.columns.values() if about.role == PERTURBED
        ),
    )


GAPS = {"shown": "as in the original", "hidden": "hidden"}


def _entry(
    name: str, about: ColumnMetadata, spreads: Mapping[str, float], noise: float
) -> ColumnNote:
    unit = about.unit
    low, high = about.clipped or (None, None)
    step = about.rounded
    return ColumnNote(
        column=name,
        description=about.description or "",
        role=about.role or "",
        what=what(about),
        type=about.type or "",
        unit=unit or "",
        noise=_in_own_units(about, spreads.get(name)) or drawn(about, noise),
        lowest="" if low is None else _value(low, unit),
        highest="" if high is None else _value(high, unit),
        step=_step(step, _plain(unit)) if step else "",
        missing=GAPS.get(about.missing or "", ""),
        use=use(name, about),
        mind=mind(about, noise),
    )


# --- what the metadata states, in words -------------------------------------------------


def what(about: ColumnMetadata) -> str:
    """Return what a column is."""
    role, unit = about.role, about.unit
    if role == PERTURBED:
        kind = f"{_kind(about)} with noise"
        if unit and not about.rounded:
            kind += f", counted in {unit}"
        scale = {LOG1P: ", added to log(1 + x)", RANK: ", added on the scale of ranks"}
        scaled = scale.get(about.transform or "", "")
        if about.relative_to:
            return f"{kind} on its distance from the copy’s {about.relative_to}{scaled}"
        return kind + scaled
    if role == CATEGORY:
        partners = about.together
        joined = f", drawn together as {' + '.join(partners)}" if partners else ""
        pooled = ", rare values pooled" if about.pooled else ""
        number = "?" if about.categories is None else about.categories
        return f"category of {number} values, some redrawn{joined}{pooled}"
    if role == DERIVED and about.sum_of:
        return f"computed from the copy’s columns: {' + '.join(about.sum_of)}"
    if role == DERIVED:
        bands = ""
        if about.limits:
            limits = ", ".join(_value(limit, None) for limit in about.limits)
            bands = f", with another value from each of {limits} on"
        return f"follows from {about.follows}: computed from the copy’s {about.follows}{bands}"
    if role == KEPT:
        return "unchanged"
    if role == UNIT and about.pseudonym:
        return "pseudonym of the person that rows belong to, the same in all copies of this dataset"
    if role == UNIT:
        return "names the person that rows belong to, unchanged"
    if about.pseudonym:
        return "pseudonym that identifies the row, the same in all copies of this dataset"
    return "identifies the rows, unchanged"


def drawn(about: ColumnMetadata, noise: float) -> str:
    """Return how many cells of a category were redrawn, and from what."""
    if about.role != CATEGORY:
        return ""
    base = "evenly from all values" if about.base == UNIFORM else "from the column’s frequencies"
    return f"{(1 + noise) ** -0.5:.1%} of the cells retained, the others redrawn {base}"


def use(name: str, about: ColumnMetadata) -> str:
    """Return how the miner is asked about a column."""
    if about.role == CATEGORY:
        if about.base == UNIFORM and about.together:
            return f"copy.two_way{tuple(about.together[:2])!r}"
        return f"copy.frequencies({name!r})"
    if about.role != PERTURBED:
        return ""
    if about.relative_to:
        distance = distance_name(name, about.relative_to)
        return f"copy.original_mean({name!r}), copy.distribution({distance!r})"
    mean = "original_mean" if about.transform in (LOG1P, RANK) else "mean"
    return f"copy.{mean}({name!r}), copy.distribution({name!r})"


def mind(about: ColumnMetadata, noise: float) -> str:
    """Return what is biased in a column if it is used as if it had no noise, or in any case."""
    role = about.role
    if role == CATEGORY:
        weaker = f"relations to other columns are weaker by the factor {(1 + noise) ** -0.5:.3g}"
        even = about.base == UNIFORM
        return f"shares are drawn towards each other, and {weaker}" if even else weaker
    if role == DERIVED and about.sum_of:
        return f"as uncertain as its parts; ask the miner about {', '.join(about.sum_of)}"
    if role == DERIVED:
        return f"as uncertain as {about.follows}; ask the miner about {about.follows}"
    if role != PERTURBED:
        return ""
    of = f"its distance from {about.relative_to}: " if about.relative_to else ""
    lines = [of + _spread_of(about, noise)]
    if about.clipped:
        lines.append("cut off at its bounds, so estimates are biased by an unknown amount")
    if about.present_if:
        lines.append(
            f"present just where {about.present_if} lets it be: where that was redrawn, so are "
            "values, and estimates are biased by an unknown amount"
        )
    elif about.missing == "hidden":
        lines.append("missing values were filled in, so estimates are biased by an unknown amount")
    return "; ".join(lines)


def _spread_of(about: ColumnMetadata, noise: float) -> str:
    """Return how a number with noise varies, beside the original."""
    of_what = "variances of log(1 + x)" if about.transform == LOG1P else "variances"
    if about.spread is None and about.transform == RANK:
        return "its values are drawn apart: averages of the copy are not those of the original"
    if about.spread is None:
        return f"{of_what} are about {1 + noise:.4g} times the original’s"
    # Var(Z) = f^2 (K + v S), the variance of the original: f^2 of it is not noise
    factor = about.spread.factor
    share = f"{1 - factor**2:.0%} of it noise: relations to columns without noise, and to "
    weaker = f"categories, are weaker by the factor {factor:.3g}"
    if about.transform == RANK:
        return f"distributed as the original; its ranks vary as those do, {share}{weaker}"
    return f"{of_what} are about the original’s, {share}{weaker}"


def _kind(about: ColumnMetadata) -> str:
    """Return what kind of numbers a perturbed column holds."""
    if about.unit is None:
        return "number"
    kind = (about.type or "").partition("[")[0].rstrip("3264")
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
    noisy = [column for column in copy.columns.values() if column.noise]
    names = [column.name for column in noisy if column.transform not in (RANK, MIXED)]
    try:
        covariance = copy.covariance(names, of="table") if names else None
    except ColumnError:  # a column without two values
        return {}
    columns = [copy.columns[name] for name in names]
    if covariance is None:
        return {}
    return {c.name: _deviation(c, float(covariance[c.name, c.name].value)) for c in columns}


def _deviation(column: CopyColumn, variance: float) -> float:
    # the noise has variance v (S_jj + excess_j), where S is the table's covariance
    variance = max(variance, 0.0) + column.excess.get(column.name, 0.0)
    drawn = [part.spread.factor if part.spread else 1.0 for part in column.summands]
    return max(drawn) * float(np.sqrt(column.noise * variance))


def _in_own_units(about: ColumnMetadata, deviation: float | None) -> str:
    if about.transform == RANK:
        return f"hides {about.hidden or 0.0:.0%} of the ranks’ variance"
    if deviation is None:
        return ""
    if about.transform == LOG1P:
        return f"a factor of {in_units(float(np.exp(deviation)))} for one standard deviation"
    return f"standard deviation {in_units(deviation, _plain(about.unit))}"


PROGRAM = """\
# Save as example.py, and run it with the copy: python example.py COPY
import sys

from cornerwave.miner import Copy


def show(what, result):
    low, high = result.interval(0.95)
    print(f"{what}: {result.value:.6g} ± {result.standard_error:.4g}, in {low:.6g} to {high:.6g}")


copy = Copy.open(sys.argv[1])
"""
Step = tuple[str, str, Estimate]
"""A question in words, the question to the miner, and the answer."""


def _shown(what: str, result: Estimate) -> str:
    low, high = result.interval(0.95)
    return f"{what}: {result.value:.6g} ± {result.standard_error:.4g}, in {low:.6g} to {high:.6g}"


def _example(copy: Copy) -> Iterator[Step]:
    """Yield questions that this copy answers; one that it refuses ends them."""
    columns = copy.columns.values()
    numbers = [c for c in columns if c.noise > 0 and not c.transform]
    plain = [c for c in numbers if not c.clipped and not c.hides_missing]
    drawn = [c.name for c in columns if c.retention < 1.0 and c.base != UNIFORM]
    names = [column.name for column in plain or numbers]
    others = [column.name for column in columns if column.noise > 0 and column.transform]
    with suppress(ColumnError):  # too few rows, or too much noise
        for last in others[-1:] if not names else ():
            yield f"mean of {last}", f"copy.original_mean({last!r})", copy.original_mean(last)
        yield from _about_numbers(copy, names)
        yield from _about_categories(copy, names[-1:], drawn[:1])


def _about_numbers(copy: Copy, numbers: Sequence[str]) -> Iterator[Step]:
    for last in numbers[-1:]:
        yield f"mean of {last}", f"copy.mean([{last!r}])[{last!r}]", copy.mean([last])[last]
    for one, last in [(numbers[0], numbers[-1])] if len(numbers) > 1 else ():
        correlation = copy.correlation([one, last])[one, last]
        code = f"copy.correlation([{one!r}, {last!r}])[{one!r}, {last!r}]"
        yield f"correlation of {one} and {last}", code, correlation
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


# --- the dictionary as a page and as CSV ------------------------------------------------


def write_dictionary(
    copy: str | Place, *, force: bool = False, beside: Path | Address | None = None
) -> list[Path | Address]:
    """Write the dictionary of a copy beside it, as COPY.dictionary.html and .csv.

    Or `beside` another name, as that of a table in an archive. The copy is a file or a directory,
    or lies in a store. Raises SourceError if its metadata states too little, and OutputExists,
    unless `force`, for files with other contents.
    """
    path = place_of(copy)
    if isinstance(path, DatabaseAddress):
        raise OutputError(f"a dictionary is a file beside a copy, and {path} is a table")
    made, places = dictionary_of(path), dictionary_places(beside or path)
    for place, text in zip(places, (page(dictionary_document(made)), made.csv()), strict=True):
        check_place(place, force=True)
        write_text(place, text, force=force)
    return places


def dictionary_places(near: Path | Address) -> list[Path | Address]:
    """Return where the page and the table of a dictionary lie that is beside a place."""
    return [near.with_name(f"{near.name}.dictionary.{ending}") for ending in ("html", "csv")]


def dictionary_document(made: DataDictionary) -> doc.Document:
    """Return a dictionary as a document."""
    return doc.Document(
        title="Data dictionary",
        verdict="This table was released with noise. Single cells are not those of the original; "
        "statistics over many rows can be estimated, with errors that are known.",
        facts=f"edition {made.edition}, {count(made.rows, 'row')}, "
        f"{count(len(made.entries), 'column')}; privacy {made.privacy:.4g}: at least this share "
        f"of the variance of every column with noise stays hidden; noise {made.noise:.4g}",
        sections=[_columns(made.entries), _computing(made), *_example_section(made)],
        footer="Made from the copy alone. docs/miner.md explains the estimates.",
    )


def _columns(entries: Sequence[ColumnNote]) -> doc.Section:
    header = ["column", "what it is", "type of the original", "noise", "range", "missing values"]
    rows = [
        [e.column, e.what, e.type, e.noise or "none", _range(e), e.missing or "as in the original"]
        for e in entries
    ]
    if any(entry.description for entry in entries):
        header.insert(1, "what it means")
        for row, entry in zip(rows, entries, strict=True):
            row.insert(1, entry.description or "–")
    return doc.Section("Columns", [doc.DataTable(header, rows)])


def _range(entry: ColumnNote) -> str:
    ends = [f"from {entry.lowest}"] * bool(entry.lowest) + [f"to {entry.highest}"] * bool(
        entry.highest
    )
    steps = [f"rounded to steps of {entry.step}"] * bool(entry.step)
    return ", ".join([" ".join(ends), *steps] if ends else steps) or "open"


AS_THE_ORIGINAL = [
    "Numbers with noise vary as those of the original do: variances, covariances, correlations and "
    "regression coefficients among them are about those of the original as they are. Means are up "
    "to two standard errors off.",
    "Relations of numbers to columns without noise, and to categories, are weaker than in the "
    "original. The miner’s are right.",
    "Ordinary standard errors are too small, because the noise has the table’s covariance. The "
    "miner’s are right.",
]


def _as_left(noise: float) -> list[str]:
    """Return the rules of a copy that shows what the noise left."""
    return [
        "Means of numbers with noise are unbiased, and their ordinary standard errors are right.",
        f"Variances and covariances are {1 + noise:.4g} times those of the original; correlations "
        "and regression coefficients among numbers with noise are unbiased as they are.",
        "The ordinary standard errors of variances, correlations and regressions are too small, "
        "because the noise has the table’s covariance. The miner’s are right.",
    ]


def _computing(made: DataDictionary) -> doc.Section:
    rules = AS_THE_ORIGINAL if made.spread else _as_left(made.noise)
    numbers = any(entry.role == PERTURBED for entry in made.entries)
    rows = [(e.column, e.use or "–", e.mind or "–") for e in made.entries if e.use or e.mind]
    parts: list[doc.Bullets | doc.DataTable] = [doc.Bullets(rules)] if numbers else []
    parts += [doc.DataTable(("column", "ask the miner", "note"), rows)] if rows else []
    return doc.Section("How to compute with it", parts)


def _example_section(made: DataDictionary) -> list[doc.Section]:
    if not made.printed:
        return []
    explained = (
        "The miner is part of Cornerwave (pip install cornerwave). It needs the copy alone: no "
        "key, no ledger, no original. Each line is an estimate of the population that the "
        "original’s rows are a sample of, its standard error and a 95 % interval."
    )
    printed = (doc.Paragraph("It prints:"), doc.Code(made.printed))
    return [
        doc.Section(
            "An example that runs", [doc.Paragraph(explained), doc.Code(made.program), *printed]
        )
    ]
