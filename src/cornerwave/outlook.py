"""Which privacy to pick: what each hides, in the columns' own units, and what it costs a recipient.

half a 90 % interval of a value     1.645 s sqrt(hidden)       (s: the column's deviation)
    on a scale g                    (g^-1(t + h) - g^-1(t - h)) / 2 of this h, mean over estimates t
standard error of a mean            sqrt(1 + v) times the original's
of a regression coefficient         about 1 + v times: both sides carry noise
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from cornerwave import document as doc
from cornerwave.arrays import Floats
from cornerwave.columns import chain, listed, to_distances
from cornerwave.document import seconds_of, span_of
from cornerwave.levels import HALF, LINEAR, THOUSANDTHS, Level, Privacy
from cornerwave.privacy import OF_HISTORY, CategoryDistribution, guess, unreachable
from cornerwave.sources import Source
from cornerwave.spine.frozen import BURIED, Frozen

if TYPE_CHECKING:
    from cornerwave.audit import Exposed
    from cornerwave.editions import Edition

SHOWN = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_HALF_WIDTH = NormalDist().inv_cdf(0.95)
_QUANTILES = [NormalDist().inv_cdf((place + 0.5) / 99) for place in range(99)]


@dataclass(frozen=True)
class Outlook:
    """What a privacy means for one dataset.

    `hidden` is the share of each column's variance that stays hidden, `within` how far a typical
    value of a number is hidden, in its own units,
    `right` how often the best guess of a category is right, `blind` how often without a copy;
    `stand_out` is how many records the noise does not hide, None if they were not counted;
    `bayes` is the share of each column that an adversary who knows how rows are distributed left,
    from all columns of a copy together, as measured at registration: others may recover more.
    It is empty if it was not measured.
    """

    privacy: float
    level: Level
    hidden: Mapping[str, float]
    within: Mapping[str, float]
    right: Mapping[str, float]
    blind: Mapping[str, float]
    units: Mapping[str, str | None]
    stand_out: int | None = None
    bayes: Mapping[str, float] = field(default_factory=dict)

    def in_words(self, column: str) -> str:
        """Return what stays hidden of a column in words that its owner uses."""
        if column in self.within:
            return f"±{in_units(self.within[column], self.units[column])}"
        if column in self.right:
            return f"{self.right[column]:.0%} right"
        return f"{self.hidden[column]:.0%} hidden"

    @property
    def mean_error(self) -> float:
        """The standard error of a mean, as a multiple of the original's."""
        return float(np.sqrt(1 + self.level.noise))

    @property
    def regression_error(self) -> float:
        """About that of a regression coefficient."""
        return 1 + self.level.noise


def see(frozen: Frozen, source: Source, noise: Sequence[float]) -> "Exposed":
    """Read a registered table for the records that copies at each noise do not hide."""
    from cornerwave.audit import count_exposed  # not on import: registering needs no audit

    def blocks() -> Iterator[Floats]:
        for block in _numbers(source, frozen.schema.perturbed):
            to_distances(block, frozen.schema.perturbed, frozen.schema.relative)
            yield frozen.scaled(block, partial(_any_draws, block.shape[1]))

    return count_exposed(
        blocks(), rows=frozen.rows, mean=frozen.mean, covariance=frozen.covariance, noise=noise
    )


def outlooks(
    frozen: Frozen, source: Source | None = None, *, against: str = LINEAR
) -> list[Outlook]:
    """Return what the privacies SHOWN mean; those that no level reaches are left out.

    Their levels are chosen against an adversary. The records that stand out are counted in the
    source, if it is given.
    """
    chosen = {p: frozen.level_against(Privacy(p, against)) for p in SHOWN}
    levels = {p: level for p, level in chosen.items() if level is not None}
    noise = [level.noise for level in levels.values()]
    seen = None if source is None else see(frozen, source, noise)
    return [
        _outlook(frozen, privacy, level, seen, place)
        for place, (privacy, level) in enumerate(levels.items())
    ]


def outlook_of(frozen: Frozen, privacy: float) -> Outlook | None:
    """Return what one privacy means, without the table; None if no level reaches it."""
    level = frozen.hidden.level_of(Privacy(privacy).thousandths)
    return None if level is None else _outlook(frozen, privacy, level)


def outlook_at(frozen: Frozen, level: Level) -> Outlook:
    """Return what a level of the lattice means, without the table."""
    return _outlook(frozen, frozen.hidden.promised(level), level)


def _outlook(
    frozen: Frozen, privacy: float, level: Level, seen: "Exposed | None" = None, place: int = 0
) -> Outlook:
    names, hidden = frozen.schema.perturbed, frozen.hidden.at(level)
    parts = {
        name: [names.index(part) for part in chain(name, frozen.schema.relative)] for name in names
    }
    guesses = {
        "+".join(each.columns): guess(CategoryDistribution(each.counts, each.base), [level.noise])
        for each in frozen.categories
    }
    return Outlook(
        privacy=privacy,
        level=level,
        hidden=hidden,
        within={
            name: _half_width(frozen, parts[name], hidden[name])
            for name in names
            if name in hidden and _is_plain(frozen, parts[name])
        },
        right={name: each.best for name, each in guesses.items()},
        blind={name: each.blind for name, each in guesses.items()},
        units={name: frozen.schema.column(name).unit for name in names},
        stand_out=None if seen is None else int(seen.rows[place]),
        bayes=frozen.left_by_joint(level),
    )


def _is_plain(frozen: Frozen, parts: Sequence[int]) -> bool:
    """Whether a column has one scale: a sum of columns that have others has none."""
    return len(parts) == 1 or all(frozen.scales[part].name is None for part in parts)


def _half_width(frozen: Frozen, parts: Sequence[int], hidden: float) -> float:
    """Return half the width of a 90 % interval of a value, in the column's own units."""
    scale = frozen.scales[parts[0]]
    # of a sum of columns, the sum of their covariances
    variance = max(float(frozen.covariance[np.ix_(parts, parts)].sum()), 0.0)
    half = _HALF_WIDTH * np.sqrt(variance * hidden)
    if scale.name is None:
        return float(half)
    # estimates vary by what is not hidden
    mean = float(frozen.mean[parts[0]])
    estimates = mean + np.sqrt(variance * (1 - hidden)) * np.array(_QUANTILES)
    return float(np.mean(scale.backward(estimates + half) - scale.backward(estimates - half)) / 2)


def in_units(value: float, unit: str | None = None) -> str:
    """Write a distance between values with three digits; one in time as people write it.

    >>> in_units(18520.3), in_units(0.12345), in_units(7200.0, "seconds"), in_units(400.0, "days")
    ('18,500', '0.123', '2 hours', '400 days')
    """
    if unit is not None:
        seconds = seconds_of(value, unit)
        name, size = span_of(seconds)
        return f"{in_units(seconds / size)} {name}"
    digits = float(f"{value:.3g}")
    return f"{digits:,.0f}" if 1000 <= digits < 1e9 else f"{digits:g}"


def _any_draws(rows: int, column: str) -> Floats:
    """Return draws with the distribution of the keyed ones, the same for every column."""
    return np.random.default_rng(0).random(rows)


def _numbers(source: Source, names: Sequence[str]) -> Iterator[Floats]:
    """Yield blocks (columns, rows) of a table's numbers."""
    from cornerwave.miner import CopyColumn, number_blocks  # not on import, as the audit

    columns = [CopyColumn(name, is_number=True) for name in names]
    for block in number_blocks(source, columns) if columns else ():
        yield np.ascontiguousarray(block.T)


def recognised(known: Sequence[Outlook]) -> Iterator[str]:
    """Yield a sentence on columns that a joint adversary who knows the distribution recovers."""
    half = next((each for each in known if each.privacy == HALF / THOUSANDTHS), None)
    if half is None:
        return
    least = {
        name: left
        for name, left in sorted(half.bayes.items(), key=lambda each: each[1])
        if left < half.hidden[name] * (1 - MUCH)
    }
    if least:
        named = [f"{left:.0%} of {name}" for name, left in least.items()][:MOST_NAMED]
        more = f" and little of {len(least) - len(named)} columns more" * (len(least) > len(named))
        yield (
            "at privacy 0.5, a joint adversary who knows how rows are distributed left only "
            f"{', '.join(named)}{more}; others may recover more. The noise can be chosen "
            "against bayes, so that a share stays hidden from this adversary too"
        )


def explained(frozen: Frozen) -> Iterator[str]:
    """Yield sentences: persons, which columns reveal which, and what would lower the noise."""
    hidden = frozen.hidden
    if frozen.people is not None:
        yield from frozen.people.sentences(frozen.schema)
    strongest = sorted(hidden.strongest.items(), key=lambda each: -each[1].share)
    named = [each.of(name) for name, each in strongest if each.share >= WORTH_NAMING]
    yield from named[:MOST_NAMED]
    if more := len(named) - MOST_NAMED if len(named) > MOST_NAMED + 1 else 0:
        yield f"and of {more} columns more, {WORTH_NAMING:.0%} or above is revealed"
    half = hidden.level_of(HALF)
    yield from _buried(frozen, NOISE_OF_HALF if half is None else half.noise)
    if hidden.highest < HIGH:
        yield unreachable(hidden, frozen.schema.unit)
    if half is None or half.noise <= NOISE_OF_HALF * (1 + LITTLE):
        return
    shown = listed([*dict.fromkeys(each.by.name for each in hidden.bounds.values())])
    given = f"given what copies show without noise ({shown}), " if shown else ""
    if half.noise < BURIED:
        yield f"{given}privacy 0.5 takes noise {half.noise:.3g} instead of {NOISE_OF_HALF:g}"
    else:
        yield f"{given}privacy 0.5 would bury every column: the noise has {_times(half.noise)}"
    if frozen.schema.unit is not None:  # what remedies bring is measured for rows alone
        return
    for remedy in hidden.remedies:
        if remedy.needed is not None and remedy.needed < half.noise * (1 - LITTLE):
            yield f"{remedy} it would take {remedy.needed:.3g}"


def _buried(frozen: Frozen, noise: float) -> Iterator[str]:
    """Yield which columns alone have noise out of all proportion at a noise."""
    shape = zip(np.diag(frozen.covariance), np.diag(frozen.excess), strict=True)
    # v S_jj / K_jj
    times = [noise * (1 + more / variance) if variance > 0 else 0.0 for variance, more in shape]
    names = [n for n, each in zip(frozen.schema.perturbed, times, strict=True) if each >= BURIED]
    if names and noise < BURIED:
        yield (
            f"privacy 0.5 would bury {listed(names)}: missing values leave so uncertain how these "
            f"vary that their noise has up to {_times(max(times))}; see drop"
        )


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times the variance of the values"


HIGH = 0.8
"""If so high a privacy is not possible, the reason is stated before anybody asks for it."""
MOST_NAMED = 8
"""So many columns of which others reveal much are named."""
NOISE_OF_HALF = 1.0
"""The noise that privacy 0.5 takes where no column reveals another."""
MUCH = 0.2
"""A column that loses a larger share of what is hidden to its distribution is named."""
LITTLE = 0.05
"""Noise that differs by a smaller share is not worth a sentence."""
WORTH_NAMING = 0.2
"""A column that reveals less of another is not named."""


# --------------------------------------------------------------------------------------------------
# The document about the privacies of a dataset.

DRAWN = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The privacies that each column is shown at."""

PROMISE = (
    "A copy at a privacy hides that share of the variance of every column from the best estimate "
    "that is linear in what it shows with noise. Adversaries who know more may recover more."
)
NONE = "No privacy of 0.1 or more is possible: columns without noise reveal too much of others."
CHOOSE = "Choose the lowest privacy that hides enough; more noise costs recipients precision."
HIDDEN = (
    "Share of each column’s variance that stays hidden. More than its privacy is hidden of a "
    "column that gets more noise than it needs, because another column needs it. Beside the share: "
    "of a number, half the width of a 90 % interval around the best estimate of a value; of a "
    "category, how often the best guess is right."
)
JOINT = (
    "Share of each column that a joint adversary left who knows how rows are distributed, measured "
    "at registration, from the whole copy. There is no bound: others may recover more."
)
COSTS = (
    "Standard errors of a mean and of a regression slope from a copy, as multiples of the "
    "original’s: 2 means that four times as many rows would be needed. A record stands out if it "
    "lies further out, in a column or in their combination, than any of as many Gaussian records "
    "would in the copy."
)
EDITIONS = (
    "Rows that did not change have the same noise in every edition. Hidden: the least share "
    "of a column that a copy at privacy 0.5 hides of the rows that came or changed. Which rows "
    "came, went and changed is visible to holders of two editions."
)


def levels_title(name: str) -> str:
    """Return the title of the document about the privacies of a dataset."""
    return f"Which privacy for {name}?"


def levels_document(
    name: str,
    known: Sequence[Outlook],
    sentences: Sequence[str],
    editions: Sequence["Edition"] = (),
    changing: Sequence[Mapping[str, float]] = (),
) -> doc.Document:
    """Return what each privacy of a dataset hides and costs.

    `changing` is what copies of all editions at each privacy hide of rows that changed.
    """
    shown = [each for each in known if each.privacy in DRAWN] or list(known)
    sections = (
        [_hidden_section(shown), *_joint_section(shown), _cost_section(known)] if known else []
    )
    pairs = zip(known, changing or [{}] * len(known), strict=True)
    return doc.Document(
        title=levels_title(name),
        verdict=PROMISE if known else NONE,
        facts=CHOOSE + (f" This is edition {len(editions)}." if len(editions) > 1 else ""),
        sections=(
            *sections,
            *editions_section(editions, *_of_changing(known, changing)),
            *([doc.Section("What to consider", [doc.Bullets(sentences)])] if sentences else ()),
        ),
        footer="This page shows no cell of the table.",
        data=[_data(each, len(editions), left) for each, left in pairs],
    )


def _data(each: Outlook, edition: int, changing: Mapping[str, float]) -> dict[str, object]:
    errors = {"mean_error": each.mean_error, "regression_error": each.regression_error}
    return asdict(each) | errors | {"edition": edition, "changing_rows": dict(changing)}


def editions_section(editions: Sequence["Edition"], *parts: doc.Part) -> list[doc.Section]:
    """Return the section on the editions of a table; nothing if it has one only."""
    if len(editions) < 2:
        return []
    from cornerwave.editions import editions_table  # not on import: `inspect` has no ledger

    return [doc.Section("Editions", [doc.Paragraph(EDITIONS), editions_table(editions), *parts])]


def _hidden_section(shown: Sequence[Outlook]) -> doc.Section:
    middle = shown[len(shown) // 2]
    rows = [
        doc.ShareRow(
            column,
            dots=[(each.hidden[column], f"privacy {each.privacy:g}") for each in shown],
            ring=middle.bayes.get(column),
            words=f"{middle.in_words(column)} at {middle.privacy:g}",
        )
        for column in middle.hidden
    ]
    dots = ", ".join(f"{i}: {each.privacy:g}" for i, each in enumerate(shown, 1))
    ring = (
        f"left at privacy {middle.privacy:g} by a joint adversary who knows how rows are "
        "distributed; no bound, others may recover more"
    )
    dot = f"from the best linear estimate, at privacy {dots}"
    marks = [("dot", dot), *[("ring", ring)] * bool(middle.bayes)]
    picture = doc.Picture(doc.Shares(rows, "What stays hidden of each column, by privacy"))
    figures = [(name, *(_figure(each, name) for each in shown)) for name in middle.hidden]
    table = doc.DataTable(_header(shown), figures)
    return doc.Section(
        "What stays hidden", [doc.Paragraph(HIDDEN), doc.Legend(marks), picture, table]
    )


def _header(shown: Sequence[Outlook]) -> tuple[str, ...]:
    return ("column", *(f"privacy {each.privacy:g}" for each in shown))


def _figure(each: Outlook, column: str) -> str:
    """Write the share of a column that stays hidden, and what that means in its own units."""
    meaning = column in each.within or column in each.right
    return f"{each.hidden[column]:.0%}" + (f", {each.in_words(column)}" if meaning else "")


def _joint_section(shown: Sequence[Outlook]) -> list[doc.Section]:
    rows = [(name, *(f"{each.bayes[name]:.0%}" for each in shown)) for name in shown[0].bayes]
    title = "Against a recipient who knows the distributions"
    return (
        [doc.Section(title, [doc.Paragraph(JOINT), doc.DataTable(_header(shown), rows)])]
        if rows
        else []
    )


def _cost_section(known: Sequence[Outlook]) -> doc.Section:
    lines = {
        "mean": [(each.privacy, each.mean_error) for each in known],
        "regression": [(each.privacy, each.regression_error) for each in known],
    }
    chart = doc.Picture(doc.Curves(lines, "What a recipient pays, by privacy", "privacy"))
    rows = [
        (
            f"{each.privacy:g}",
            f"{each.level.noise:.4g}",
            f"{each.mean_error:.2f}",
            f"{each.regression_error:.2f}",
            "not counted" if each.stand_out is None else f"{each.stand_out:,}",
        )
        for each in known
    ]
    header = ("privacy", "noise", "mean", "regression slope", "records that stand out")
    return doc.Section(
        "What it costs a recipient", [doc.Paragraph(COSTS), chart, doc.DataTable(header, rows)]
    )


def _of_changing(
    known: Sequence[Outlook], changing: Sequence[Mapping[str, float]]
) -> Iterator[doc.DataTable]:
    """Yield what copies of all editions hide of rows that changed; nothing if none did."""
    if any(changing):
        rows = [
            (f"{each.privacy:g}", *(f"{left[name]:.3f}" for name in OF_HISTORY))
            for each, left in zip(known, changing, strict=True)
        ]
        title = "What the numbers of all editions hide of rows that changed every time"
        yield doc.DataTable(("privacy", *OF_HISTORY.values()), rows, title)
