"""What a copy tells about a person: figures for every recipient and every level.

    LinkageCurve, Linkage    how often somebody who knows a row finds it in a copy: at every level
                             (`at`), and the least level that keeps it rare (`level_of`)
    bits_of_numbers, bits_of_category, bits_of_person
                             how many bits a copy tells at most, to anybody
    epsilon                  differential privacy of a copy, for owners who meet its assumptions
    Risks                    all of it for a copy at one level
    risks_section, risks_data, FIGURES, in_words, share
                             the figures in a document, for programs, and in words

`attack` finds rows, registration keeps what it found (`Frozen.linkage`), and `spine.telling` puts
the figures of a dataset together. A coalition's figures are those of its least noisy copy. Nothing
here has a key, and nothing reads a row.
"""

from cornerwave.risks._curve import FIGURES, MEASURED, Linkage, LinkageCurve, in_words, share
from cornerwave.risks._epsilon import epsilon
from cornerwave.risks._information import (
    Risks,
    bits_of_category,
    bits_of_numbers,
    bits_of_person,
)
from cornerwave.risks._risk_section import bits_in_words, risks_data, risks_section

__all__ = [
    "FIGURES",
    "MEASURED",
    "Linkage",
    "LinkageCurve",
    "Risks",
    "bits_in_words",
    "bits_of_category",
    "bits_of_numbers",
    "bits_of_person",
    "epsilon",
    "in_words",
    "risks_data",
    "risks_section",
    "share",
]
