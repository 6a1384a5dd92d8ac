"""What a verdict does not cover: columns of copies that should hide something, and could not be
tested. Constant columns hide nothing; kept columns and keys are as the owner wanted them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cornerwave.audit._alignment import Aligned
from cornerwave.table import KEPT, KEY

if TYPE_CHECKING:
    from cornerwave.audit._audit import CategoryAudit, NumberAudit
    from cornerwave.audit._whole import Left


def untested(
    aligned: Aligned,
    left_out: Mapping[str, str],
    numbers: "NumberAudit | None",
    categories: "CategoryAudit | None",
    whole: Sequence[Sequence["Left"]],
) -> dict[str, str]:
    """Return the columns and copies that the verdict does not cover, and why."""
    found = dict(left_out)
    for name in categories.boundless if categories else ():
        found[name] = f"{name} has too many values for a category"
    owed = {name: why for name, why in found.items() if not _as_it_is(aligned, name)}
    return owed | dict(_unmeasured(aligned, numbers, whole))


def _as_it_is(aligned: Aligned, name: str) -> bool:
    """Whether every copy that says anything about a column says that it was not perturbed."""
    told = [role for part in name.split("+") for role in aligned.stated.told(part, "role")]
    return bool(told) and all(role in (KEPT, KEY) for role in told)


def _unmeasured(
    aligned: Aligned, numbers: "NumberAudit | None", whole: Sequence[Sequence["Left"]]
) -> Iterator[tuple[str, str]]:
    """Yield the copies that state a privacy which neither all of it nor its numbers could test.

    Categories alone are tested by their retention.
    """
    if numbers is None:
        return
    promised = {i for check in numbers.checks if check.name == "promise" for i in check.copies}
    for i, (name, stated) in enumerate(zip(aligned.names, aligned.stated.whole, strict=True)):
        if stated is not None and not whole[i] and i not in promised:
            yield name, f"{name}: too few rows to measure what it hides"
