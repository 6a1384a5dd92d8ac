"""What copies tell about a person, side by side, as a section of a document."""

from collections.abc import Mapping
from dataclasses import asdict

from cornerwave import document as doc
from cornerwave.kinds import JsonObject
from cornerwave.risks._curve import FIGURES, in_words
from cornerwave.risks._information import Risks

TITLE = "What a copy tells about a person"
FOUND = (
    "Found: how often somebody who knows all of {what} finds it in the copy, by taking what fits "
    "best; measured at registration on simulated copies. The worst tenth are those that are "
    "easiest to find."
)
BITS = (
    "Bits: what anybody can learn from the noisy columns, at most. Kept columns and gaps are shown "
    "as they are, and are not counted. No epsilon is claimed: values have no bound that was chosen "
    "without the table, and the shape of the noise and the frequencies of categories come from it."
)
NOT_FOUND = "How often rows are found was not measured for this table."
SMALL = 0.1
"""Fewer bits are written with more digits."""


def risks_section(heading: str, by_level: Mapping[str, tuple[float, Risks]]) -> doc.Section:
    """Return what copies tell, by what they are called: the share that each hides, and its risks.

    `heading` is what the names are.
    """
    every = [risks for _, risks in by_level.values()]
    is_found = all(each.linkage is not None for each in every)
    of_persons = any(each.person_bits is not None for each in every)
    rows = [
        (
            name,
            f"{hidden:.0%}",
            *(in_words(risks.linkage) if is_found and risks.linkage else ()),
            bits_in_words(risks.bits),
            *([bits_in_words(risks.person_bits or 0.0)] if of_persons else []),
        )
        for name, (hidden, risks) in by_level.items()
    ]
    typical = every[0].person_rows if every else None
    header = (
        heading,
        "hidden",
        *(FIGURES if is_found else ()),
        "bits of a row",
        *([f"bits of a person of {doc.count(typical or 1, 'row')}"] if of_persons else []),
    )
    found = FOUND.format(what="a person’s rows" if of_persons else "a row")
    words = f"{found if is_found else NOT_FOUND} {BITS}"
    return doc.Section(TITLE, [doc.Paragraph(words), doc.DataTable(header, rows)])


def bits_in_words(bits: float) -> str:
    """Write a number of bits.

    >>> bits_in_words(12.34), bits_in_words(0.0456)
    ('12.3', '0.046')
    """
    return f"{bits:.1f}" if bits >= SMALL else f"{bits:.2g}"


def risks_data(risks: Risks) -> JsonObject:
    """Return the risks of a copy for programs."""
    return asdict(risks)
