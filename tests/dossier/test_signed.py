"""A dossier that was changed is not taken for one that was signed, whatever was changed."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cornerwave.dossier import SignedDossier, check_signature
from cornerwave.errors import DossierError, WrongKey
from cornerwave.kinds import canonical
from cornerwave.ledger import Key
from tests.dossier.conftest import World


def accepted(path: Path, key: bytes) -> bool:
    """Whether a file passes the check of its signature."""
    try:
        return check_signature(path, key).holds
    except DossierError:
        return False


def write(folder: Path, signed: SignedDossier) -> tuple[Path, Path]:
    page, data = folder / "people.html", folder / "people.json"
    page.write_text(signed.as_page, encoding="utf-8")
    data.write_text(signed.text, encoding="utf-8")
    return page, data


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value that is neither an object nor a list, and of each empty one."""
    if isinstance(value, dict | list) and value:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))
    else:
        yield path


def changed(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
        case None:
            return 0
    return [1]


def test_an_honest_dossier_is_accepted_in_both_forms(world, signed, tmp_path):
    for path in write(tmp_path, signed):
        assert check_signature(path, world.vault.public_key).holds
        assert SignedDossier.read(path).stated == json.loads(canonical(signed.stated))


def test_no_field_can_be_changed(world, signed, tmp_path):
    _, path = write(tmp_path, signed)
    kept = json.loads(path.read_text())
    paths = list(leaves(kept))
    assert len(paths) > 200
    file = tmp_path / "forged.json"
    for *to, last in paths:
        at: Any = kept
        for key in to:
            at = at[key]
        before, at[last] = at[last], changed(at[last])
        file.write_text(canonical(kept) + "\n")
        assert not accepted(file, world.vault.public_key), (*to, last)
        at[last] = before
    file.write_text(canonical(kept) + "\n")
    assert accepted(file, world.vault.public_key)
    for name in kept["dossier"]:
        less = {key: value for key, value in kept["dossier"].items() if key != name}
        file.write_text(canonical({**kept, "dossier": less}) + "\n")
        assert not accepted(file, world.vault.public_key), name


def test_no_word_of_the_page_can_be_changed(world, signed, tmp_path):
    path, _ = write(tmp_path, signed)
    text = path.read_text(encoding="utf-8")
    for old, new in (
        ("20", "90"),
        ("institute", "institutf"),
        ("person", "people"),
        ("80%", "99%"),
    ):
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        assert not accepted(path, world.vault.public_key)
    drawn = random.Random(3)
    for place in drawn.sample(range(len(text)), 60):
        other = "~" if text[place] != "~" else "!"
        path.write_text(text[:place] + other + text[place + 1 :], encoding="utf-8")
        assert not accepted(path, world.vault.public_key), place
    for more in ("<p>all is well</p>", " ", "\n"):
        path.write_text(text + more, encoding="utf-8")
        assert not accepted(path, world.vault.public_key)


def test_parts_of_two_honest_dossiers_are_no_third(world, signed, tmp_path):
    other = world.signed(recipients=["partner"])
    key = world.vault.public_key
    for forged in (replace(signed, value=other.value), replace(signed, page=other.page)):
        path, _ = write(tmp_path, forged)
        assert not accepted(path, key)
    for honest in (signed, other):
        assert accepted(write(tmp_path, honest)[0], key)


def test_another_key_is_refused_by_its_fingerprint(signed, tmp_path):
    _, path = write(tmp_path, signed)
    [fault] = check_signature(path, Key.generate().public_key).differs
    assert "another key" in fault
    # signed by somebody else, in the name of this key
    mallory = Key.generate()
    forged = SignedDossier.of(
        signed.stated, signed.page or "", sign=mallory.sign, key=mallory.public_key
    )
    path.write_text(replace(forged, key=signed.key).text)
    assert not accepted(path, mallory.public_key)
    with pytest.raises(WrongKey):
        check_signature(path, b"no key")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff\xfe",
        b'{"dossier":{},"signature":{}}',
        b'{"dossier":[],"signature":{"algorithm":"Ed25519","key":"","value":""}}',
        b'{"a":' * 100_000,
        b"<html><body>a page</body></html>",
    ],
)
def test_what_is_no_dossier_is_refused_in_words(world, tmp_path, content):
    for name in ("x.json", "x.html", "x"):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(DossierError, match=r"x(\.\w+)? (is not a dossier|cannot be read)"):
            check_signature(path, world.vault.public_key)
    with pytest.raises(DossierError, match="there is no file"):
        check_signature(tmp_path / "gone.json", world.vault.public_key)


def test_another_form_of_the_same_data_is_refused(world, signed, tmp_path):
    """A name that stands twice is read differently by different programs."""
    _, path = write(tmp_path, signed)
    text = path.read_text()
    twice = text.replace('"name":"people"', '"name":"others","name":"people"', 1)
    for other in (json.dumps(json.loads(text), indent=1), twice):
        path.write_text(other)
        with pytest.raises(DossierError, match="not in the form"):
            check_signature(path, world.vault.public_key)


def test_other_tools_read_key_and_signature(world, signed):
    """By the standards alone: PEM, Ed25519, JSON with sorted names and no spaces."""
    import base64

    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    kept = json.loads(signed.text)
    content = json.dumps(kept["dossier"], sort_keys=True, separators=(",", ":")).encode()
    key: Any = load_pem_public_key(world.vault.public_key)
    key.verify(base64.b64decode(kept["signature"]["value"]), content)


def test_names_from_outside_end_no_element_of_the_page(world: World, signed):
    data = signed.as_page.partition('<script type="application/json" id="data">')[2]
    assert "<" not in data.partition("</script>")[0]
    assert "R&amp;D &lt;archive&gt;" in signed.as_page
