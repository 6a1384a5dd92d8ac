// Keyed hashes: of texts (SipHash-2-4, 128 bits) and of rows (NH); and the masks of the cipher.
//
//     SipHash     Aumasson and Bernstein (2012)
//     NH(x)     = sum over words of (low(x_i) + k_2i mod 2^32) (high(x_i) + k_2i+1 mod 2^32)  mod 2^64
//     m_(j+1)   = x m_j      in the field of 2^128 elements, x^128 = x^7 + x^2 + x + 1
//
// Texts are hashed TILE at a time, word by word, so that vector units do several at once; long
// ones, whose neighbours would have to wait for them, one by one.

#include "border.hpp"

#include <algorithm>
#include <cstring>

namespace cornerwave {

constexpr i64 TILE = 256; // texts that are hashed side by side
constexpr i64 LONG = 64;  // bytes from which on a text makes a tile too long

struct States {
  u64 v0[TILE], v1[TILE], v2[TILE], v3[TILE];
};

inline u64 turned(u64 word, int by) { return (word << by) | (word >> (64 - by)); }

inline void two_rounds(u64 &v0, u64 &v1, u64 &v2, u64 &v3) {
  for (int round = 0; round < 2; round++) {
    v0 += v1;
    v1 = turned(v1, 13) ^ v0;
    v0 = turned(v0, 32);
    v2 += v3;
    v3 = turned(v3, 16) ^ v2;
    v0 += v3;
    v3 = turned(v3, 21) ^ v0;
    v2 += v1;
    v1 = turned(v1, 17) ^ v2;
    v2 = turned(v2, 32);
  }
}

static void begin(const u64 *key, i64 rows, States &s) {
  std::fill_n(s.v0, rows, 0x736F6D6570736575 ^ key[0]);
  std::fill_n(s.v1, rows, 0x646F72616E646F6D ^ 0xEE ^ key[1]);
  std::fill_n(s.v2, rows, 0x6C7967656E657261 ^ key[0]);
  std::fill_n(s.v3, rows, 0x7465646279746573 ^ key[1]);
}

// Take a word into each state that there is one for: there[i] is all ones, or 0.
static void absorb(States &s, const u64 *__restrict words, const u64 *__restrict there, i64 rows) {
  for (i64 i = 0; i < rows; i++) {
    u64 a = s.v0[i], b = s.v1[i], c = s.v2[i], d = s.v3[i] ^ words[i];
    two_rounds(a, b, c, d);
    const u64 mask = there[i];
    s.v0[i] = ((a ^ words[i]) & mask) | (s.v0[i] & ~mask);
    s.v1[i] = (b & mask) | (s.v1[i] & ~mask);
    s.v2[i] = (c & mask) | (s.v2[i] & ~mask);
    s.v3[i] = (d & mask) | (s.v3[i] & ~mask);
  }
}

// Fill out[row] with the hash of each state: four rounds before either half of it.
static void squeeze(const States &s, i64 rows, u64 *__restrict out) {
  for (i64 i = 0; i < rows; i++) {
    u64 a = s.v0[i], b = s.v1[i], c = s.v2[i] ^ 0xEE, d = s.v3[i];
    two_rounds(a, b, c, d);
    two_rounds(a, b, c, d);
    out[2 * i] = a ^ b ^ c ^ d;
    b ^= 0xDD;
    two_rounds(a, b, c, d);
    two_rounds(a, b, c, d);
    out[2 * i + 1] = a ^ b ^ c ^ d;
  }
}

// The 8 bytes at a place of a text that ends at `stop`; at the end those that are left, the length
// above them. Bytes after the text are read, but not those after the whole content, and left out.
inline u64 word_at(const u8 *content, i64 size, i64 at, i64 stop, i64 length) {
  u64 word = 0;
  if (at + 8 <= size)
    std::memcpy(&word, content + at, 8);
  else
    std::memcpy(&word, content + at, static_cast<std::size_t>(stop - at));
  const u64 half = static_cast<u64>(4 * std::min<i64>(stop - at, 8)); // twice, for a shift by 64
  const u64 above = stop - at >= 8 ? 0 : static_cast<u64>(length) << 56;
  return (word & (((u64{1} << half) << half) - 1)) | above;
}

static void hash_texts(const Vector<const i64> &starts, const Vector<const u8> &content,
                       const Vector<const u64> &key, const Matrix<u64> &out) {
  const i64 count = size_of(out);
  const i64 *start = starts.data();
  require(size_of(starts) == count + 1 && out.shape(1) == 2 && size_of(key) == 2,
          "texts have a start each and an end, hashes and the key two words");
  require(start[0] >= 0 && start[count] <= size_of(content), "texts lie within their content");
  require(std::is_sorted(start, start + count + 1), "texts lie one after the other");
  const u8 *letters = content.data();
  const i64 size = size_of(content);
  States states;
  u64 words[TILE], there[TILE];
  for (i64 row = 0, end; row < count; row = end) {
    i64 longest = start[row + 1] - start[row];
    for (end = row + 1; end < std::min(row + TILE, count) && longest < LONG; end++) {
      const i64 length = start[end + 1] - start[end];
      if (length >= LONG) break;
      longest = std::max(longest, length);
    }
    const i64 rows = end - row;
    begin(key.data(), rows, states);
    for (i64 number = 0; number <= longest / 8; number++) {
      for (i64 i = 0; i < rows; i++) {
        const i64 at = start[row + i] + 8 * number, stop = start[row + i + 1];
        words[i] = word_at(letters, size, std::min(at, stop), stop, stop - start[row + i]);
        there[i] = at <= stop ? ~u64{0} : 0;
      }
      absorb(states, words, there, rows);
    }
    squeeze(states, rows, out.data() + 2 * row);
  }
}

// The same of short texts in words (most, texts), first bytes lowest, the rest zeros.
static void hash_words(const Matrix<const u64> &words, const Vector<const u64> &lengths,
                       const Vector<const u64> &key, const Matrix<u64> &out) {
  const Rows<const u64> given(words);
  const i64 count = size_of(out);
  require(given.size == count && size_of(lengths) == count && out.shape(1) == 2 &&
              size_of(key) == 2,
          "texts have a length each, hashes and the key two words");
  States states;
  u64 own[TILE], there[TILE];
  for (i64 row = 0; row < count; row += TILE) {
    const i64 rows = std::min(TILE, count - row);
    const u64 *__restrict sizes = lengths.data() + row;
    const u64 longest = *std::max_element(sizes, sizes + rows);
    require(longest < 8 * static_cast<u64>(given.count), "texts are shorter than their words");
    begin(key.data(), rows, states);
    for (u64 number = 0; number <= longest / 8; number++) {
      const u64 *__restrict from = given[static_cast<i64>(number)] + row;
      for (i64 i = 0; i < rows; i++) {
        const u64 last = sizes[i] >> 3;
        own[i] = from[i] | (number == last ? sizes[i] << 56 : 0);
        there[i] = number <= last ? ~u64{0} : 0;
      }
      absorb(states, own, there, rows);
    }
    squeeze(states, rows, out.data() + 2 * row);
  }
}

// ------------------------------------------------------------------------------------------------
// NH, two lanes of 64 bits, added to row ids.

constexpr i64 STRIP = 512; // rows whose lanes stay in the nearest cache
constexpr u64 LOW_HALF = 0xFFFFFFFF;

static void add_hashes(const u64 *__restrict column, const u64 *key, i64 rows, u64 *__restrict low,
                       u64 *__restrict high) {
  const u64 a = key[0] & LOW_HALF, b = key[0] >> 32, c = key[1] & LOW_HALF, d = key[1] >> 32;
  for (i64 row = 0; row < rows; row++) {
    const u64 one = column[row] & LOW_HALF, two = column[row] >> 32;
    low[row] += ((one + a) & LOW_HALF) * ((two + b) & LOW_HALF);
    high[row] += ((one + c) & LOW_HALF) * ((two + d) & LOW_HALF);
  }
}

// Fill blocks with the ids of rows from `start` on, and the hashes of words (values, rows) added.
static void fill_row_blocks(const Matrix<const u64> &ids, const Matrix<const u64> &words, i64 start,
                            const Matrix<const u64> &key, const Matrix<u64> &blocks) {
  const Rows<const u64> values(words), keys(key);
  const i64 count = size_of(blocks);
  require(ids.shape(1) == 2 && blocks.shape(1) == 2 && keys.size == 2, "ids have two words each");
  require(keys.count == values.count && values.size == size_of(ids),
          "each value has a key, and each row an id");
  require_part(start, count, size_of(ids), "the block lies within the table");
  u64 low[STRIP], high[STRIP];
  for (i64 first = 0; first < count; first += STRIP) {
    const i64 rows = std::min(STRIP, count - first);
    const u64 *__restrict id = ids.data() + 2 * (start + first);
    u64 *__restrict block = blocks.data() + 2 * first;
    for (i64 row = 0; row < rows; row++) low[row] = id[2 * row], high[row] = id[2 * row + 1];
    for (i64 value = 0; value < values.count; value++)
      add_hashes(values[value] + start + first, keys[value], rows, low, high);
    for (i64 row = 0; row < rows; row++) block[2 * row] = low[row], block[2 * row + 1] = high[row];
  }
}

// Add up both lanes of enciphered blocks, and keep the first.
static void take_macs(const Vector<const u64> &images, const Vector<u64> &sums,
                      const Vector<u64> &out) {
  const i64 rows = size_of(out);
  require(size_of(images) == 2 * rows && size_of(sums) == 2, "images have two words each");
  const u64 *__restrict image = images.data();
  u64 *__restrict first = out.data();
  u64 low = 0, high = 0;
  for (i64 row = 0; row < rows; row++) {
    low += image[2 * row];
    high += image[2 * row + 1];
    first[row] = image[2 * row];
  }
  sums.data()[0] += low;
  sums.data()[1] += high;
}

// Fill in each mask, two words, from the one before it.
static void double_masks(const Vector<u64> &masks) {
  u64 *mask = masks.data();
  for (i64 at = 2; at + 1 < size_of(masks); at += 2) {
    const u64 low = mask[at - 2], high = mask[at - 1];
    mask[at] = (low << 1) ^ (0x87 * (high >> 63));
    mask[at + 1] = (high << 1) | (low >> 63);
  }
}

void bind_hashes(nb::module_ &module) {
  bind(module, "hash_texts", hash_texts, "starts", "content", "key", "out");
  bind(module, "hash_words", hash_words, "words", "lengths", "key", "out");
  bind(module, "fill_row_blocks", fill_row_blocks, "ids", "words", "start", "key", "blocks");
  bind(module, "take_macs", take_macs, "images", "sums", "out");
  bind(module, "double_masks", double_masks, "masks");
}

} // namespace cornerwave
