"""Is a dossier as it was signed, and does the table still say the same?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cornerwave.dossier._dossier import Dossier
from cornerwave.dossier._facts import FORMAT
from cornerwave.dossier._signed import PAGE, SignedDossier
from cornerwave.errors import CornerwaveError, DossierError, LedgerDamaged
from cornerwave.kinds import Json, JsonObject
from cornerwave.sources import Progress, silent
from cornerwave.vault import Dataset, LinkedDataset, Vault

ABSENT = "nothing"
_NOTED = ("versions", "heads", PAGE)
"""What may differ without a figure being wrong; heads are compared with the ledger instead."""
SLACK = 1.0001
"""Figures are written with few digits: another processor may round one of them the other way."""


@dataclass(frozen=True)
class Checked:
    """What a check of a dossier found: what was checked, what differs, and what is only noted."""

    checked: tuple[str, ...]
    differs: tuple[str, ...]
    noted: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether nothing differs."""
        return not self.differs


def check_signature(path: Path, public_key: bytes) -> Checked:
    """Check that a dossier is as it was signed, by who has the key of this public half.

    Nothing is measured. Raises DossierError for a file that is none, WrongKey.
    """
    read = SignedDossier.read(path)
    faults = tuple(read.faults(public_key))
    words = "the signature, over every figure" + " and every word of the page" * bool(read.page)
    return Checked((words,), faults, ("nothing was measured again: that takes vault and table",))


def check_dossier(
    vault: Vault,
    path: Path,
    *,
    find: Callable[[str], Dataset | LinkedDataset] | None = None,
    progress: Progress = silent,
) -> Checked:
    """Check the signature of a dossier, measure all of it again, and state what differs.

    `find` returns the table of a name, by default the one of the vault where it was. What cannot
    be measured again is a difference. Raises DossierError for a file that is no dossier.
    """
    read = SignedDossier.read(path)
    if faults := read.faults(vault.public_key):
        return Checked(("the signature",), tuple(faults), ("so nothing was measured again",))
    stated = read.stated
    try:
        again = _again(vault, stated, find, progress)
    except CornerwaveError as error:
        return Checked(("the signature",), (f"cannot be measured again: {error}",))
    return Checked(
        (
            "the signature, over every figure" + " and every word of the page" * bool(read.page),
            "every figure, measured again from table and ledger",
        ),
        (*_of_ledger(vault, stated), *_differences(stated, again)),
        tuple(_notes(stated, again)),
    )


def _again(
    vault: Vault,
    stated: JsonObject,
    find: Callable[[str], Dataset | LinkedDataset] | None,
    progress: Progress,
) -> JsonObject:
    """Return what a dossier of the same table would state of the same time now."""
    if stated.get("format") != FORMAT:
        raise DossierError(
            f"it has the format {stated.get('format')!r}, and this version makes {FORMAT!r}"
        )
    name = str(stated["name"])
    if find is None:
        find = vault.linked if vault.has_linked(name) else vault.dataset
    return Dossier.of(
        vault,
        find(name),
        recipients=_names(stated["only"]),
        coalitions=[_names(each) for each in _list(stated["coalitions"])],
        at=datetime.fromisoformat(str(stated["made_at"])),
        progress=progress,
    ).to_json()


def _names(value: Json) -> list[str]:
    return [str(each) for each in _list(value)]


def _list(value: Json) -> Sequence[Json]:
    assert isinstance(value, Sequence), "a signed dossier has the form that it was written in"
    return value


def _of_ledger(vault: Vault, stated: JsonObject) -> Iterator[str]:
    """Yield which of the heads that are stated are no longer part of the ledger."""
    heads = stated["heads"]
    assert isinstance(heads, Mapping), "a signed dossier has the form that it was written in"
    for name, head in heads.items():
        try:
            vault.check_since({name: str(head)})
        except LedgerDamaged as error:
            yield f"ledger: {error}"


def _notes(stated: JsonObject, again: JsonObject) -> Iterator[str]:
    """Yield versions that differ, and how many lines the ledger has since."""
    for key, word in (("versions", "made with"), ("heads", "ledger of")):
        was, now = stated[key], again[key]
        assert isinstance(was, Mapping), "a signed dossier has the form that it was written in"
        assert isinstance(now, Mapping), "what is made now has it too"
        for name, text in was.items():
            if text == now.get(name):
                continue
            if key == "versions":
                yield f"{word} {name} {text}, measured again with {now.get(name)}"
            else:
                more = _length(now.get(name)) - _length(text)
                lines = "line was" if more == 1 else "lines were"
                yield f"{word} {name or 'the vault'}: {more} {lines} added since"


def _length(head: Json) -> int:
    return int(str(head).rsplit(":", 2)[1])


def _differences(stated: JsonObject, again: JsonObject) -> Iterator[str]:
    """Yield each value that differs, by its path."""
    without = [{k: v for k, v in each.items() if k not in _NOTED} for each in (stated, again)]
    yield from _differ("", *without)


def _differ(path: str, was: Json, now: Json) -> Iterator[str]:
    """Yield what differs between two values; members of lists are found by what names them."""
    if isinstance(was, Mapping) and now is None:
        yield f"{path}: stated, not there now"
    elif isinstance(now, Mapping) and was is None:
        yield f"{path}: not stated, there now"
    elif isinstance(was, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*was, *now]):
            yield from _differ(f"{path}.{name}" if path else name, was.get(name), now.get(name))
    elif _is_list(was) and _is_list(now):
        before, after = _by_name(_list(was)), _by_name(_list(now))
        for name in dict.fromkeys([*before, *after]):
            yield from _differ(f"{path}[{name}]", before.get(name), after.get(name))
    elif not _same(was, now):
        yield f"{path}: {_written(was)} stated, {_written(now)} now"


def _is_list(value: Json) -> bool:
    return isinstance(value, list | tuple)


def _by_name(values: Sequence[Json]) -> dict[str, Json]:
    """Return the members of a list by what names them, or by their places."""
    named: dict[str, Json] = {}
    for place, each in enumerate(values, start=1):
        name = _name_of(each) or str(place)
        while name in named:  # the same recipient twice, say
            name += "'"
        named[name] = each
    return named


def _name_of(value: Json) -> str:
    """Return what names a member of a list: the texts that do not change with its figures."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        return ""
    if value.get("everybody"):
        return "everybody"
    if members := value.get("members"):
        return " + ".join(_names(members))
    keys = ("table", "recipient", "name", "column", "noise", "promise")
    return ", ".join(str(value[key]) for key in keys if key in value)


def _same(was: Json, now: Json) -> bool:
    """Whether two values are the same; figures may differ by one in their last digit."""
    numbers = (int, float)
    if isinstance(was, bool) or isinstance(now, bool):
        return was is now
    if isinstance(was, numbers) and isinstance(now, numbers):
        return was == now or (_digit(was) == _digit(now) and abs(was - now) <= _digit(was) * SLACK)
    return was == now


def _digit(value: float) -> float:
    """Return one in the last digit of a figure as it is written; 0 of a whole number.

    >>> _digit(0.125), _digit(20.7), _digit(3)
    (0.001, 0.1, 0.0)
    """
    if isinstance(value, int):
        return 0.0
    digits = f"{value:.10f}".rstrip("0").partition(".")[2]
    return float(f"{10.0 ** -len(digits):.12g}") if digits else 0.0


def _written(value: Json) -> str:
    if value is None:
        return ABSENT
    return f"{value:g}" if isinstance(value, float) else str(value)
