"""What an owner decides about a table: every choice declared once, and how its cells are spelled.

    _declared           `Choices`: each field with its kind, help, roles and words
    _reading_settings   `ReadingSettings`: the same for the spelling of cells
    _toml               names and values as schema files write them

The command line, the schema file, the console's form and the docs are made from the declarations.
This room imports nothing heavy, so that help is quick.
"""

from cornerwave.choices._declared import (
    CATEGORY,
    COLUMN,
    COLUMNS,
    DECIDE,
    DECLARED,
    DOES,
    DROPPED,
    HIDDEN,
    KEEP_ORDER,
    KEPT,
    KEY,
    MARGINAL,
    ORDERS,
    PERTURBED,
    SHUFFLE,
    TABLE,
    TRANSFORMS,
    UNIFORM,
    VALUES,
    Bounds,
    Choice,
    ChoiceArguments,
    Choices,
    bound_of,
    names_of,
)
from cornerwave.choices._reading_settings import (
    COMMAS,
    POINT,
    SETTINGS,
    SPACES,
    TEXTS,
    UTF_8,
    ReadingSettings,
    date_pattern,
)
from cornerwave.choices._toml import fits, is_wildcard, toml_comment, toml_text

__all__ = [
    "CATEGORY",
    "COLUMN",
    "COLUMNS",
    "COMMAS",
    "DECIDE",
    "DECLARED",
    "DOES",
    "DROPPED",
    "HIDDEN",
    "KEEP_ORDER",
    "KEPT",
    "KEY",
    "MARGINAL",
    "ORDERS",
    "PERTURBED",
    "POINT",
    "SETTINGS",
    "SHUFFLE",
    "SPACES",
    "TABLE",
    "TEXTS",
    "TRANSFORMS",
    "UNIFORM",
    "UTF_8",
    "VALUES",
    "Bounds",
    "Choice",
    "ChoiceArguments",
    "Choices",
    "ReadingSettings",
    "bound_of",
    "date_pattern",
    "fits",
    "is_wildcard",
    "names_of",
    "toml_comment",
    "toml_text",
]
