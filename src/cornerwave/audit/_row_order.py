"""What the order of the rows tells: a check of the source, whose order the copies show."""

from collections.abc import Sequence

from cornerwave.audit._alignment import BLOCK_ROWS, Aligned
from cornerwave.audit._chance import Check
from cornerwave.neighbours import MATTERS, RowOrder
from cornerwave.table import KEEP_ORDER

NAME = "order"


def check_order(
    aligned: Aligned,
    *,
    numbers: Sequence[str],
    categories: Sequence[str],
    seen: RowOrder | None = None,
) -> tuple[Check, ...]:
    """Return a failed check of the copies in the source's order, if that tells a column.

    It is a note, and no fault, if every such copy states that the owner chose to keep the
    order. Value and limit are shares of variance. `seen` are the runs of all numbers of the
    source, if they were looked at already.
    """
    names = enumerate(aligned.names)
    shown = tuple(i for i, name in names if name not in aligned.sorted_copies)
    if not shown:
        return ()
    order, columns = seen, [*numbers, *categories]
    if order is None or columns != list(aligned.columns):
        order, start = RowOrder(columns), 0
        for table in aligned.source.groups(columns, BLOCK_ROWS):
            order.add(start, table)
            start += table.num_rows
    told = order.told(numbers, categories)
    if not told:
        return ()
    chosen = all(aligned.stated.copies[i].get("order") == KEEP_ORDER for i in shown)
    note = f"the order of the rows tells {', '.join(each.column for each in told)}: {told[0]}"
    return (Check(shown, told[0].share, MATTERS, chosen, note, NAME),)
