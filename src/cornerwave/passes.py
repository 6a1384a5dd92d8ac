"""One look at every row, whatever runs it: threads of this process here, a cluster in `engines`.

    of(block)   what some rows show: a pure function, for any thread and any machine
    +           what several parts show, in any order
    finish      what all rows show together

A block is some rows of whatever is looked at: of a table, or of a source and its copies.
"""

import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import lru_cache
from typing import Any, Generic, Protocol, Self, TypeVar

from threadpoolctl import ThreadpoolController

from cornerwave.noise import available_threads


class Additive(Protocol):
    """What some rows show; `a + b` is what both parts show."""

    def __add__(self, other: Self, /) -> Self: ...

    def trimmed(self) -> Self:
        """Return the same without what is too much, to be sent."""


class Bounded:
    """What is never too much to be sent, however many rows it is of."""

    def trimmed(self) -> Self:
        """Return the same."""
        return self


Item = TypeVar("Item")
Result = TypeVar("Result")
Rows = TypeVar("Rows")
Found = TypeVar("Found", bound=Additive)
Result_co = TypeVar("Result_co", covariant=True)


class Pass(ABC, Generic[Rows, Found, Result_co]):
    """One look at every row, block by block."""

    compares_keys = False
    """Whether the engine sees to it that no two rows have one key."""

    @property
    def reads(self) -> Sequence[str] | None:
        """The columns that it looks at, the key among them; None for all of registration's."""
        return None

    @abstractmethod
    def nothing(self) -> Found:
        """Return what no rows show: what others are added to."""

    @abstractmethod
    def of(self, block: Rows, known: Found) -> Found:
        """Return what some rows show.

        If it is added to what is `known` of others, and to nothing before that, what cannot matter
        there may be left out. Raises SourceError for rows that cannot be used.
        """

    def outline(self, total: Found) -> Found:
        """Return what `of` has to know of other rows: what was found of them, or less of it."""
        return total

    @abstractmethod
    def finish(self, total: Found) -> Result_co:
        """Return what all rows show together. Raises SourceError if they cannot be used."""


class Adding(Pass[Rows, Found, Found]):
    """A pass whose parts need only be added up."""

    def finish(self, total: Found) -> Found:
        """Return what all rows show: the sum."""
        return total


def add_up(
    pass_: Pass[Rows, Found, Result_co],
    items: Iterable[Item],
    block_of: Callable[[Item], Rows],
    *,
    seen: Callable[[Rows], None],
    threads: int | None = None,
) -> Found:
    """Return what all blocks show, before it is finished.

    Threads make the blocks of items, and look at them; this one has `seen` each, in their order.
    """
    total = pass_.nothing()
    # this thread alone adds up: each block takes along what is known when it is handed out
    handed_out = ((item, pass_.outline(total)) for item in items)

    def look(given: tuple[Item, Found]) -> tuple[Rows, Found]:
        block = block_of(given[0])
        return block, pass_.of(block, given[1])

    with in_threads(look, handed_out, threads) as parts:
        for block, part in parts:
            seen(block)
            total = total + part
    return total


@contextmanager
def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int | None
) -> Iterator[Iterator[Result]]:
    """Give work(item) for each item, in order, a few of them under way at a time."""
    count = threads or available_threads()
    under_way: deque[Future[Result]] = deque()

    def results() -> Iterator[Result]:
        for item in items:
            # as here: whether arithmetic that overflows is an error, for example
            under_way.append(pool.submit(copy_context().run, work, item))
            if len(under_way) > count:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()

    # more threads of BLAS than one for each of ours would wait for each other, busily
    with one_thread("blas"), ThreadPoolExecutor(count) as pool:
        try:
            yield results()
        finally:
            for waiting in under_way:
                waiting.cancel()


def one_thread(of: str | None = None) -> AbstractContextManager[Any]:
    """Give libraries of a kind ("blas", "openmp"; by default all) one thread each for a while."""
    loaded = _with_libraries(len(sys.modules))
    limited: AbstractContextManager[Any] = _libraries(loaded).limit(limits=1, user_api=of)
    return limited


_WITH_LIBRARIES = ("numpy.", "scipy.", "sklearn.")


@lru_cache(maxsize=1)
def _with_libraries(modules: int) -> int:
    """Return how many of the loaded modules may have brought one; there are so many in all."""
    return sum(name.startswith(_WITH_LIBRARIES) for name in list(sys.modules))


@lru_cache(maxsize=1)
def _libraries(loaded: int) -> ThreadpoolController:
    """Return the libraries that have threads. Looking for them takes as long as a small table."""
    return ThreadpoolController()
