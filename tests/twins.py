"""Naive twins: the paper's formulas and textbook definitions, written out plainly.

The product may be clever; what it is compared with here may not. Nothing in this
file imports the product.
"""

import hashlib
import hmac
import math
import struct

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES256

MASK32 = 2**32 - 1
MASK = 2**64 - 1


# --- the paper's algebra ----------------------------------------------------------------


def corner_wave_matrix(noise):
    """Covariance of the copies' noise in units of K (Theorem 4): min of the two levels."""
    return np.minimum.outer(np.array(noise, dtype=float), np.array(noise, dtype=float))


def independent_matrix(noise):
    """What must fall: noise of its own for each copy."""
    return np.diag(np.array(noise, dtype=float))


def scaled_matrix(noise):
    """What must fall: one noise, multiplied by each copy's deviation."""
    deviation = np.sqrt(np.array(noise, dtype=float))
    return np.outer(deviation, deviation)


def llse_weights(sigma):
    """w = (11' + Sigma)^-1 1: how much of each copy the best linear estimate takes."""
    ones = np.ones(len(sigma))
    return np.linalg.solve(np.outer(ones, ones) + sigma, ones)


def llse_error(sigma):
    """The share of X's variance that stays hidden from all copies together: 1 - w'1."""
    return 1 - llse_weights(sigma).sum()


def algorithm_3(existing, new, K=((1.0,),)):
    """Mean operator and covariance of new noise given existing noise, by matrix inverse."""
    K = np.array(K)
    levels = [*existing, *new]
    K_z = np.kron(corner_wave_matrix(levels), K)
    size = len(existing) * len(K)
    K_old, K_new, K_cross = K_z[:size, :size], K_z[size:, size:], K_z[size:, :size]
    mean = K_cross @ np.linalg.inv(K_old)
    return mean, K_new - mean @ K_cross.T


def algorithm_3_coefficients(noise):
    """Rows on fresh white noise when every level is asked for on its own, by Algorithm 3."""
    rows = np.zeros((len(noise), len(noise)))
    for j in range(len(noise)):
        if j == 0:
            rows[0, 0] = math.sqrt(noise[0])
            continue
        mean, variance = algorithm_3(noise[:j], [noise[j]])
        rows[j] = mean[0] @ rows[:j]
        rows[j, j] = math.sqrt(variance[0, 0])
    return rows


# --- white noise ------------------------------------------------------------------------


def stream_key(key, level):
    """HKDF-Expand (RFC 5869) with SHA-256, one block of output."""
    info = b"cornerwave/1/white/" + struct.pack("<d", level)
    return hmac.new(key, info + b"\x01", hashlib.sha256).digest()


def aes_words(key, low, high):
    """Two 64-bit words: AES-256 of one block given as two little-endian words."""
    aes = Cipher(AES256(key), modes.ECB()).encryptor()
    return struct.unpack("<QQ", aes.update(struct.pack("<QQ", low, high)))


def normals(key, level, ids, columns):
    """Box-Muller with the library's log, cos and sin, cell by cell; shape (columns, rows)."""
    secret = stream_key(key, level)
    out = np.empty((columns, len(ids)))
    for row, (low, high) in enumerate(ids):
        for pair in range((columns + 1) // 2):
            radius_word, angle_word = aes_words(secret, int(low), int(high) ^ pair)
            u = 1.0 - (radius_word >> 12) / 2**52
            radius = math.sqrt(-2 * math.log(u))
            if 2 * pair + 1 == columns:
                angle = ((angle_word >> 12) / 2**52 - 0.5) * math.pi
                out[2 * pair, row] = radius * math.sin(angle)
                continue
            within = ((angle_word >> 10) % 2**52) / 2**52 - 0.5
            angle = within * math.pi / 2
            angle += math.pi / 2 * (angle_word >> 63) + math.pi * ((angle_word >> 62) & 1)
            out[2 * pair, row] = radius * math.cos(angle)
            out[2 * pair + 1, row] = radius * math.sin(angle)
    return out


# --- moments ----------------------------------------------------------------------------


def two_pass_moments(X):
    """Mean per column and pairwise covariance over the rows that have both columns."""
    X = np.asarray(X, dtype=float)
    columns = X.shape[1]
    mean = np.zeros(columns)
    covariance = np.zeros((columns, columns))
    for i in range(columns):
        present = X[~np.isnan(X[:, i]), i]
        mean[i] = math.fsum(present) / max(len(present), 1)
        for j in range(columns):
            both = X[~np.isnan(X[:, i]) & ~np.isnan(X[:, j])]
            if len(both) >= 2:
                a = both[:, i] - math.fsum(both[:, i]) / len(both)
                b = both[:, j] - math.fsum(both[:, j]) / len(both)
                covariance[i, j] = math.fsum(a * b) / (len(both) - 1)
    return mean, covariance


# --- hashes -----------------------------------------------------------------------------


def siphash_128(key, text):
    """SipHash-2-4 with 128 bits of output, on Python's whole numbers."""
    k0, k1 = struct.unpack("<QQ", key[:16])
    v = [
        0x736F6D6570736575 ^ k0,
        0x646F72616E646F6D ^ k1 ^ 0xEE,
        0x6C7967656E657261 ^ k0,
        0x7465646279746573 ^ k1,
    ]

    def turn(word, by):
        return ((word << by) | (word >> (64 - by))) & MASK

    def rounds(count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK
            v[1] = turn(v[1], 13) ^ v[0]
            v[0] = turn(v[0], 32)
            v[2] = (v[2] + v[3]) & MASK
            v[3] = turn(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & MASK
            v[3] = turn(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & MASK
            v[1] = turn(v[1], 17) ^ v[2]
            v[2] = turn(v[2], 32)

    whole = len(text) // 8 * 8
    words = [word for (word,) in struct.iter_unpack("<Q", text[:whole])]
    words.append(int.from_bytes(text[whole:], "little") | (len(text) % 256) << 56)
    for word in words:
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return low, v[0] ^ v[1] ^ v[2] ^ v[3]


def fingerprint_sums(ids, columns, secret):
    """Sum over rows of AES(row id + NH(row)), lane by lane; NH by its definition."""
    key, cipher = (expanded(secret, purpose) for purpose in ("values", "rows"))
    total = [0, 0]
    for row, lanes in enumerate(ids):
        lanes = [int(lane) for lane in lanes]
        for place, values in enumerate(columns):
            low, high = int(values[row]) & MASK32, int(values[row]) >> 32
            for lane, word in enumerate(aes_words(key, place, 0)):
                halves = (low + (word & MASK32)) & MASK32, (high + (word >> 32)) & MASK32
                lanes[lane] = (lanes[lane] + halves[0] * halves[1]) & MASK
        image = aes_words(cipher, *lanes)
        total = [(t + lane) & MASK for t, lane in zip(total, image, strict=True)]
    return total


def expanded(key, purpose):
    """HKDF-Expand (RFC 5869) with SHA-256, one block of output."""
    info = f"cornerwave/1/{purpose}/".encode()
    return hmac.new(key, info + b"\x01", hashlib.sha256).digest()


# --- categories -------------------------------------------------------------------------


def refresh_key(key, column, event):
    """HKDF-Expand (RFC 5869) with SHA-256, one block of output."""
    info = b"cornerwave/1/refresh/" + struct.pack("<II", column, event)
    return hmac.new(key, info + b"\x01", hashlib.sha256).digest()


def refreshed(key, column, row_id, code, noise, counts):
    """One cell's copy at one noise: events in the time s = -ln q until q's own time."""
    if code < 0:
        return code
    horizon, time, event, of = 0.5 * math.log1p(noise), 0.0, 0, int(row_id[1]) ^ int(code)
    total = sum(counts)
    while True:
        a, b = aes_words(refresh_key(key, column, event), int(row_id[0]), of)
        time -= math.log(1.0 - (a >> 12) / 2**52)
        if time > horizon:
            return code
        reached = 0
        for value, count in enumerate(counts):
            reached += count
            if b < reached * 2**64 // total or value == len(counts) - 1:
                code = value
                break
        event += 1


def refresh_matrix(q, pi):
    """P(copy at retention q | value): kept with probability q, else a draw from pi."""
    return q * np.eye(len(pi)) + (1 - q) * np.outer(np.ones(len(pi)), pi)


def refresh_joint(prior, q_better, q_worse, pi):
    """P(X, better copy, worse copy) of the Markov chain X -> better -> worse."""
    better = refresh_matrix(q_better, pi)
    further = refresh_matrix(q_worse / q_better, pi)
    return prior[:, None, None] * better[:, :, None] * further[None, :, :]


def shared_uniform_joint(prior, q_better, q_worse, pi):
    """What must fall: one U and one R per cell; the copy at q is X if U < q, else R."""
    size = len(pi)
    joint = np.zeros((size, size, size))
    for x in range(size):
        for r in range(size):
            joint[x, x, x] += prior[x] * pi[r] * q_worse
            joint[x, x, r] += prior[x] * pi[r] * (q_better - q_worse)
            joint[x, r, r] += prior[x] * pi[r] * (1 - q_better)
    return joint


def independent_refresh_joint(prior, q_better, q_worse, pi):
    """What must fall: events of its own for each copy."""
    better, worse = refresh_matrix(q_better, pi), refresh_matrix(q_worse, pi)
    return prior[:, None, None] * better[:, :, None] * worse[:, None, :]
