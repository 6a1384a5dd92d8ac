"""What a verdict does not cover: columns of copies that should hide something, and could not be
tested. Constant columns hide nothing; kept columns and keys are as the owner wanted them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cornerwave.audit._alignment import Aligned
from cornerwave.audit._whole import Left
from cornerwave.columns import KEPT, KEY

if TYPE_CHECKING:
    from cornerwave.audit._audit import CategoryAudit, NumberAudit


def measured(left: Left) -> bool:
    """Whether a hidden share, which lies between 0 and 1, is known better than that.

    >>> measured(Left("wage", 0.51, 0.01, 0.04, 0.5)), measured(Left("wage", 1.4, 2.6, 10.5, 0.5))
    (True, False)
    """
    return left.margin < 1


def untested(
    aligned: Aligned,
    left_out: Mapping[str, str],
    numbers: "NumberAudit | None",
    categories: "CategoryAudit | None",
    whole: Sequence[Sequence[Left]],
) -> dict[str, str]:
    """Return the columns and copies that the verdict does not cover, and why."""
    found = dict(left_out)
    for name in categories.boundless if categories else ():
        found[name] = f"{name} has too many values for a category"
    owed = {name: why for name, why in found.items() if not _as_it_is(aligned, name)}
    vague = _vague_gains(numbers) | _vague_shares(aligned.names, numbers, whole)
    return owed | dict(_unmeasured(aligned, numbers, whole)) | vague


def _vague_shares(
    copies: Sequence[str], numbers: "NumberAudit | None", whole: Sequence[Sequence[Left]]
) -> dict[str, str]:
    """Return the columns of which chance hides whether copies hide what they state.

    Not numbers whose promise was tested in all rows, where chance is less.
    """
    tested, found = _promised(numbers), dict[str, list[str]]()
    for i, own in enumerate(whole):
        for left in own:
            known = numbers is not None and i in tested and left.column in numbers.columns
            if left.stated is not None and not measured(left) and not known:
                found.setdefault(left.column, []).append(copies[i])
    return {
        column: f"{column}: what {' and '.join(names)} {'hide' if len(names) > 1 else 'hides'} of "
        "it was not measured precisely enough to judge"
        for column, names in found.items()
    }


def _promised(numbers: "NumberAudit | None") -> set[int]:
    """Return the copies whose promise was tested by their numbers alone, in all rows."""
    checks = numbers.checks if numbers else ()
    return {i for check in checks if check.name == "promise" for i in check.copies}


def _vague_gains(numbers: "NumberAudit | None") -> dict[str, str]:
    """Return the columns in which a coalition that recovers everything would not be seen."""
    if numbers is None or not numbers.gains:
        return {}
    margins = np.max([gain.margin for gain in numbers.gains], axis=0)
    return {
        column: f"{column}: what coalitions gain was not measured precisely enough to judge"
        for column, margin in zip(numbers.columns, margins.tolist(), strict=True)
        if not margin < 1
    }


def _as_it_is(aligned: Aligned, name: str) -> bool:
    """Whether every copy that says anything about a column says that it was not perturbed."""
    told = [role for part in name.split("+") for role in aligned.stated.roles(part)]
    return bool(told) and all(role in (KEPT, KEY) for role in told)


def _unmeasured(
    aligned: Aligned, numbers: "NumberAudit | None", whole: Sequence[Sequence[Left]]
) -> Iterator[tuple[str, str]]:
    """Yield the copies that state a privacy which neither all of it nor its numbers could test.

    Categories alone are tested by their retention.
    """
    if numbers is None:
        return
    promised = _promised(numbers)
    for i, (name, stated) in enumerate(zip(aligned.names, aligned.stated.whole, strict=True)):
        if stated is not None and not whole[i] and i not in promised:
            yield name, f"{name}: too few rows to measure what it hides"
