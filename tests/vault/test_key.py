import base64
import copy
import pickle
import stat
import traceback

import pytest

from cornerwave.errors import (
    CornerwaveWarning,
    LedgerDamaged,
    UnsafeKey,
    VaultExists,
    VaultMissing,
    WrongKey,
)
from cornerwave.keyed import fingerprint_of, is_signed, public_key_of
from cornerwave.ledger import Key

SECRET = bytes(range(100, 132))


def spellings(secret: bytes) -> list[str]:
    return [secret.hex(), base64.b64encode(secret).decode(), repr(secret)[2:-1], str(list(secret))]


def test_fresh_keys_differ():
    assert len({Key.generate().derive("check") for _ in range(20)}) == 20


def test_derivation_is_pinned_for_ever():
    # If this changes, no old copy can be made again.
    key = Key(bytes(range(32)))
    assert key.derive("noise").hex() == (
        "50e9514407860565393180685affda067c914c613090b4efbc2a9a5f6d3cfaf6"
    )
    assert key.child("dataset", bytes(16)).derive("noise").hex() == (
        "683803e55f42e8b03286caf64c6bad836ee504659987e696ddbb93d7eccc63d1"
    )


def test_purposes_and_contexts_are_apart():
    key = Key(SECRET)
    derived = [key.derive("noise"), key.derive("row ids"), key.derive("noise", b"x")]
    derived += [
        key.child("dataset", b"a").derive("noise"),
        key.child("dataset", b"b").derive("noise"),
    ]
    assert len(set(derived)) == len(derived)


def test_file_round_trip_is_for_the_owner_alone(tmp_path):
    path = tmp_path / "key"
    Key(SECRET).write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Key.read(path).derive("check") == Key(SECRET).derive("check")


def test_a_key_file_is_never_replaced(tmp_path):
    path = tmp_path / "key"
    Key(SECRET).write(path)
    before = path.read_bytes()
    with pytest.raises(VaultExists, match="never replaced"):
        Key.generate().write(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_that_others_can_read_warns(tmp_path, mode):
    path = tmp_path / "key"
    Key(SECRET).write(path)
    path.chmod(mode)
    with pytest.warns(CornerwaveWarning, match="chmod 600"):
        Key.read(path)


def damaged_files() -> dict[str, bytes]:
    good = b"cornerwave-key-1:" + base64.b64encode(SECRET) + b"\n"
    return {
        "empty": b"",
        "cut": good[:-9],
        "without prefix": good.removeprefix(b"cornerwave-key-1:"),
        "of another format": good.replace(b"key-1", b"key-2"),
        "with a strange letter": good.replace(b"=", b"*"),
        "not text": b"\xff\xfe" + good,
        "too long": b"cornerwave-key-1:" + base64.b64encode(SECRET + b"!") + b"\n",
    }


@pytest.mark.parametrize("damage", damaged_files())
def test_a_damaged_key_file_is_refused_without_a_word_of_it(tmp_path, damage):
    path = tmp_path / "key"
    path.write_bytes(damaged_files()[damage])
    path.chmod(0o600)
    with pytest.raises(WrongKey, match="key file") as refusal:
        Key.read(path)
    text = "".join(traceback.format_exception(refusal.value))
    assert base64.b64encode(SECRET)[:12].decode() not in text
    assert not any(spelling in text for spelling in spellings(SECRET))


def test_a_missing_key_file_is_named(tmp_path):
    with pytest.raises(VaultMissing, match="no key file"):
        Key.read(tmp_path / "key")


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_key_has_256_bits(size):
    with pytest.raises(UnsafeKey, match="32 bytes"):
        Key(bytes(size))


def test_a_key_never_shows_itself():
    key = Key(SECRET)
    shown = [repr(key), str(key), f"{key}", f"{key!r:>40}", repr([key]), repr({"key": key})]
    shown.append("{}".format(key.child("dataset", b"x")))
    for text in shown:
        assert not any(spelling in text for spelling in spellings(SECRET))
        assert "<secret>" in text


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_key_is_not_pickled(protocol):
    with pytest.raises(TypeError, match="cannot be pickled") as refusal:
        pickle.dumps(Key(SECRET), protocol)
    assert not any(spelling in str(refusal.value) for spelling in spellings(SECRET))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_key_is_not_copied(duplicate):
    with pytest.raises(TypeError, match="cannot be pickled"):
        duplicate(Key(SECRET))


def test_a_seeded_key_and_its_children_say_so():
    assert Key.unsafe_from_seed(1).is_unsafe
    assert Key.unsafe_from_seed(1).child("dataset", b"x").is_unsafe
    assert Key.unsafe_from_seed(1).derive("noise") == Key.unsafe_from_seed(1).derive("noise")
    assert not Key.generate().is_unsafe


def test_a_seal_fits_its_content_and_key_alone():
    seal = Key(SECRET).seal(b"content")
    assert Key(SECRET).fits(seal, b"content")
    assert not Key(SECRET).fits(seal, b"content!")
    assert not Key.generate().fits(seal, b"content")
    assert not Key(SECRET).fits("", b"content")


class TestEncryption:
    @pytest.mark.parametrize("content", [b"", b"x", b"frozen" * 10_000])
    def test_a_content_comes_back_whole(self, content):
        assert Key(SECRET).decrypt(Key(SECRET).encrypt(content, b"a"), b"a") == content

    def test_the_same_content_never_looks_the_same(self):
        key = Key(SECRET)
        assert len({key.encrypt(b"content", b"a") for _ in range(50)}) == 50

    @pytest.mark.parametrize("place", [0, 11, 12, 18, 19, -1])
    def test_no_bit_of_it_can_be_changed(self, place):
        encrypted = bytearray(Key(SECRET).encrypt(b"content", b"a"))
        encrypted[place] ^= 1
        with pytest.raises(LedgerDamaged, match="changed"):
            Key(SECRET).decrypt(bytes(encrypted), b"a")

    @pytest.mark.parametrize("length", [0, 5, 12, 20, 34])
    def test_it_cannot_be_cut(self, length):
        with pytest.raises(LedgerDamaged):
            Key(SECRET).decrypt(Key(SECRET).encrypt(b"content", b"a")[:length], b"a")

    def test_it_belongs_to_its_key_and_context(self):
        encrypted = Key(SECRET).encrypt(b"content", b"a")
        for key, context in [(Key.generate(), b"a"), (Key(SECRET), b"b")]:
            with pytest.raises(LedgerDamaged):
                key.decrypt(encrypted, context)


def test_a_signature_is_checked_by_the_public_half_alone():
    key = Key(SECRET)
    public, signed = key.public_key, key.sign(b"what is handed out")
    assert signed == Key(SECRET).sign(b"what is handed out")  # so that a dossier is reproducible
    assert is_signed(public, b"what is handed out", signed)
    assert not is_signed(public, b"what is handed oux", signed)
    assert not is_signed(public, b"what is handed out", bytes(64))
    assert not is_signed(Key.generate().public_key, b"what is handed out", signed)
    assert fingerprint_of(public) != fingerprint_of(Key.generate().public_key)


def test_the_public_half_holds_no_secret():
    key = Key(SECRET)
    secrets = [SECRET, key.derive("signing")]
    assert not any(text in key.public_key.decode() for each in secrets for text in spellings(each))
    # the public key of what others could see is another one
    assert key.public_key != public_key_of(key.derive("signin"))


@pytest.mark.parametrize("what", [b"", b"-----BEGIN PUBLIC KEY-----", bytes(32)])
def test_what_is_no_public_key_is_refused(what):
    with pytest.raises(WrongKey, match="not a public key"):
        is_signed(what, b"", bytes(64))
