"""Which privacy to pick: what each hides and costs, what is fit for a use, and what to change.

_outlook       one privacy in the columns' own units, and records that stand out
_advice        what exposes what, what it costs, what to do; the figures behind it
_kept_groups   rows that agree in what copies show unchanged
_uses          limits of a use, with their sources, and the level that keeps them
_waves         what differs from an earlier table of the same columns
_document      all of it as a document
"""

from cornerwave.outlook._advice import Advice, advice, recognised
from cornerwave.outlook._document import (
    PROMISE,
    consider_section,
    editions_section,
    found_out_section,
    levels_document,
    levels_title,
    recommendations_section,
)
from cornerwave.outlook._kept_groups import KeptGroups, kept_groups
from cornerwave.outlook._outlook import (
    SHOWN,
    Outlook,
    half_width,
    in_units,
    outlook_at,
    outlook_of,
    outlooks,
    see,
)
from cornerwave.outlook._uses import (
    LIMITS,
    PRIVACIES,
    USES,
    Candidate,
    Fitness,
    Limit,
    Recommendation,
    checked_uses,
    recommend,
    recommend_for_all,
    violations_of,
)
from cornerwave.outlook._waves import changed_since, is_same_survey

__all__ = [
    "LIMITS",
    "PRIVACIES",
    "PROMISE",
    "SHOWN",
    "USES",
    "Advice",
    "Candidate",
    "Fitness",
    "KeptGroups",
    "Limit",
    "Outlook",
    "Recommendation",
    "advice",
    "changed_since",
    "checked_uses",
    "consider_section",
    "editions_section",
    "found_out_section",
    "half_width",
    "in_units",
    "is_same_survey",
    "kept_groups",
    "levels_document",
    "levels_title",
    "outlook_at",
    "outlook_of",
    "outlooks",
    "recognised",
    "recommend",
    "recommend_for_all",
    "recommendations_section",
    "see",
    "violations_of",
]
