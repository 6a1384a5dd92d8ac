"""AES of single blocks, plain and by way of XTS."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES256

from cornerwave.keyed import BlockFunction, _cipher, masks, room_for

KEY = bytes(range(32))


def blocks_of(number, seed=1):
    return np.random.default_rng(seed).integers(0, 2**64, (number, 2), dtype=np.uint64)


def plainly(blocks):
    ecb = Cipher(AES256(KEY), modes.ECB()).encryptor()
    return np.frombuffer(ecb.update(blocks.tobytes()), dtype=np.uint64)


def by_masks(function, blocks):
    own = masks(len(blocks))
    return function(blocks ^ own.reshape(-1, 2), room_for(len(blocks))) ^ own


@pytest.mark.parametrize("number", [0, 1, 2, 7, 127, 128, 1025, 40_000])
def test_masked_or_not_it_is_aes_of_each_block(number):
    blocks = blocks_of(number)
    assert np.array_equal(BlockFunction(KEY)(blocks, room_for(number)), plainly(blocks))
    assert np.array_equal(by_masks(BlockFunction(KEY, masked=True), blocks), plainly(blocks))


def test_every_call_begins_with_the_first_mask():
    function = BlockFunction(KEY, masked=True)
    for seed in range(3):
        blocks = blocks_of(100 + seed, seed)
        assert np.array_equal(by_masks(function, blocks), plainly(blocks))


@pytest.mark.parametrize("masked", [False, True])
def test_more_blocks_than_one_call_of_the_cipher_takes(masked):
    blocks = blocks_of(_cipher.MOST_BLOCKS + 3)
    function = BlockFunction(KEY, masked=masked)
    found = by_masks(function, blocks) if masked else function(blocks, room_for(len(blocks)))
    assert np.array_equal(found, plainly(blocks))


def test_without_the_masks_it_is_not():
    """The negative control."""
    blocks = blocks_of(1000)
    raw = BlockFunction(KEY, masked=True)(blocks, room_for(1000))
    assert not (raw == plainly(blocks)).any()
