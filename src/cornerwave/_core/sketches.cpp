// Keyed hashes of numbers, and sketches of them: the smallest hashes with their counts (reuse/).
//
//     hash(x) = xor-shift-multiply rounds of x's bits, rounded to 64 - drop bits, by secret constants
//     window  = sum of 8 neighbours' hashes, each turned by another number of bits
//
// A hash of 0 is that of a missing cell. Most blocks have no hash below a limit: these are passed
// over at once.

#include "border.hpp"
#include "strict.hpp"

#include <limits>

namespace cornerwave {

constexpr i64 BLOCK = 256, WINDOW = 8, ENDS = WINDOW - 1; // cells at a time; cells of a window
constexpr u64 NO_HASH = std::numeric_limits<u64>::max();

struct NumberKey {
  u64 start, one, two, drop;
};

static NumberKey key_of(const Vector<const u64> &key, u64 drop) {
  require(size_of(key) == 3 && drop < 64, "a key has three words, and some bits are left");
  // without the constant, under a key of zeros, 0.0 would be missing
  return {key.data()[0] + 0x9E3779B97F4A7C15, key.data()[1] | 1, key.data()[2] | 1, drop};
}

static void hash_numbers(const double *__restrict values, i64 rows, const NumberKey key,
                         u64 *__restrict out) {
  // half to even, as a cast to single precision does
  const u64 last = (u64{1} << key.drop) - 1, half = last >> 1, odd_bit = key.drop ? 1 : 0;
  for (i64 row = 0; row < rows; row++) {
    const u64 bits = bits_of(values[row]), odd = (bits >> key.drop) & odd_bit;
    u64 word = ((bits + half + odd) & ~last) ^ key.start;
    word = (word ^ (word >> 32)) * key.one;
    word = (word ^ (word >> 29)) * key.two;
    word ^= word >> 32;
    out[row] = values[row] == values[row] ? word : 0;
  }
}

static void fill_number_hashes(const Vector<const double> &values, const Vector<const u64> &key,
                               u64 drop, const Vector<u64> &out) {
  require(size_of(values) == size_of(out), "each value has a hash");
  hash_numbers(values.data(), size_of(values), key_of(key, drop), out.data());
}

// Spread the bits of words, so that near inputs have far images.
static void mix_words(const Vector<u64> &words) {
  u64 *__restrict word = words.data();
  const i64 rows = size_of(words);
  for (i64 row = 0; row < rows; row++) {
    u64 mixed = (word[row] ^ (word[row] >> 33)) * 0xFF51AFD7ED558CCD;
    mixed = (mixed ^ (mixed >> 33)) * 0xC4CEB9FE1A85EC53;
    word[row] = mixed ^ (mixed >> 33);
  }
}

inline u64 turned(u64 word, int by) { return (word << by) | (word >> (64 - by)); }

// Fill out[i] with the hash of cells i to i + 7, of size + 7 cells. By doubling: the sum of 2
// neighbours, of 2 such, of 2 of these.
static void fill_windows(const u64 *__restrict cells, i64 size, u64 *out) {
  const i64 all = size + ENDS - 1;
  for (i64 row = 0; row < all; row++) out[row] = turned(cells[row], 7) + cells[row + 1];
  for (i64 row = 0; row < all - 2; row++) out[row] = turned(out[row], 14) + out[row + 2];
  for (i64 row = 0; row < all - 6; row++) out[row] = turned(out[row], 28) + out[row + 4];
}

// The smallest of some words, less 1: a missing one, 0, becomes the largest.
static u64 least_of(const u64 *__restrict words, i64 size) {
  u64 least = NO_HASH;
  for (i64 row = 0; row < size; row++) least = std::min(least, words[row] - 1);
  return least;
}

// Room to count hashes in, by open addressing: hashes are evenly spread already.
struct Slots {
  u64 *keys;
  i64 *counts;
  double *values;
  i64 size, used = 0;

  Slots(const Vector<u64> &keys, const Vector<i64> &counts, const Vector<double> &values)
      : keys(keys.data()), counts(counts.data()), values(values.data()), size(size_of(keys)) {
    require(size > 1 && (size & (size - 1)) == 0 && size_of(counts) == size && size_of(values) == size,
            "the number of slots is a power of two");
    for (i64 slot = 0; slot < size; slot++) used += keys.data()[slot] != 0;
    require(2 * used <= size, "half of the slots are free");
  }

  // Count words up to a limit, with the first number of each; return how many words were dealt
  // with: all, unless the slots are half full.
  i64 count(const u64 *words, const double *numbers, i64 rows, u64 limit) {
    const u64 mask = static_cast<u64>(size - 1);
    for (i64 row = 0; row < rows; row++) {
      const u64 word = words[row];
      if (word - 1 >= limit) continue;
      u64 slot = word & mask;
      while (keys[slot] != word && keys[slot] != 0) slot = (slot + 1) & mask;
      if (keys[slot] == 0) {
        if (2 * used == size) return row;
        keys[slot] = word, values[slot] = numbers[row];
        used++;
      }
      add_to(counts[slot], 1);
    }
    return rows;
  }
};

// Count the hashes of rows from `start` on, or of windows that begin there; return the row at which
// the slots were half full, or the last.
static i64 collect_hashes(const Vector<const u64> &hashes, const Vector<const double> &numbers,
                          bool windows, i64 start, u64 limit, const Vector<u64> &keys,
                          const Vector<i64> &counts, const Vector<double> &values) {
  require(size_of(numbers) == size_of(hashes) && start >= 0, "each hash has a number");
  Slots slots(keys, counts, values);
  const i64 rows = size_of(hashes) - (windows ? ENDS : 0);
  u64 room[BLOCK + ENDS];
  for (i64 first = start; first < rows; first += BLOCK) {
    const i64 size = std::min(BLOCK, rows - first);
    const u64 *words = hashes.data() + first;
    if (windows) {
      fill_windows(words, size, room);
      words = room;
    }
    if (least_of(words, size) < limit) {
      const i64 done = slots.count(words, numbers.data() + first, size, limit);
      if (done < size) return first + done;
    }
  }
  return std::max(rows, start);
}

// Look at all cells once: fill `found` with how many there are, the sum of their hashes, how many
// equal the one before, and whether slots were too few; add hashes to those of their rows, if
// given; count low hashes, of cells and of windows. Hashes are made of the numbers unless given.
static void look_at_cells(const Vector<const double> &numbers, const Vector<const u64> &hashes,
                          const Vector<const u64> &key, u64 drop, u64 value_limit, u64 window_limit,
                          const Vector<u64> &rows, const Vector<u64> &keys,
                          const Vector<i64> &counts, const Vector<double> &values,
                          const Vector<u64> &window_keys, const Vector<i64> &window_counts,
                          const Vector<double> &window_values, const Vector<u64> &found) {
  const i64 cells = size_of(numbers);
  require(size_of(hashes) == 0 || size_of(hashes) == cells, "hashes are those of all cells");
  require(size_of(rows) == 0 || size_of(rows) == cells, "rows are those of all cells");
  require(size_of(found) == 4, "four things are found");
  const NumberKey own_key = key_of(key, drop);
  Slots own(keys, counts, values), across(window_keys, window_counts, window_values);
  u64 block[ENDS + BLOCK] = {}, room[BLOCK + ENDS]; // a block, after the ends of the one before
  double neighbours[ENDS + BLOCK];
  u64 *words = block + ENDS;
  u64 present = 0, total = 0, alike = 0, full = 0;
  for (i64 first = 0; first < cells; first += BLOCK) {
    const i64 size = std::min(BLOCK, cells - first);
    std::copy(block + BLOCK, block + BLOCK + ENDS, block);
    if (size_of(hashes))
      std::copy(hashes.data() + first, hashes.data() + first + size, words);
    else
      hash_numbers(numbers.data() + first, size, own_key, words);
    for (i64 row = 0; row < size; row++) present += words[row] != 0, total += words[row];
    for (i64 row = first ? 0 : 1; row < size; row++) alike += words[row] == words[row - 1];
    if (size_of(rows)) {
      u64 *__restrict sums = rows.data() + first;
      for (i64 row = 0; row < size; row++) sums[row] += words[row];
    }
    if (least_of(words, size) < value_limit)
      full |= own.count(words, numbers.data() + first, size, value_limit) < size;
    fill_windows(block, size, room);
    const i64 skip = first ? 0 : std::min(size, ENDS); // windows that would begin before the first
    if (least_of(room + skip, size - skip) < window_limit) {
      std::memcpy(neighbours, block, sizeof block);
      full |= across.count(room + skip, neighbours + skip, size - skip, window_limit) < size - skip;
    }
  }
  u64 *out = found.data();
  out[0] = present, out[1] = total, out[2] = alike, out[3] = full;
}

// Merge two sketches, ascending, adding the counts of what is equal; return how many there are.
static i64 merge_sketches(const Vector<const u64> &a, const Vector<const i64> &m,
                          const Vector<const double> &x, const Vector<const u64> &b,
                          const Vector<const i64> &n, const Vector<const double> &y,
                          const Vector<u64> &hashes, const Vector<i64> &counts,
                          const Vector<double> &numbers) {
  require(size_of(m) == size_of(a) && size_of(x) == size_of(a) && size_of(n) == size_of(b) &&
              size_of(y) == size_of(b) && size_of(counts) == size_of(hashes) &&
              size_of(numbers) == size_of(hashes),
          "each hash has a count and a number");
  i64 i = 0, j = 0, size = 0;
  while (i < size_of(a) || j < size_of(b)) {
    const bool mine = j == size_of(b) || (i < size_of(a) && a.data()[i] <= b.data()[j]);
    const u64 word = mine ? a.data()[i] : b.data()[j];
    const i64 count = mine ? m.data()[i] : n.data()[j];
    const double number = mine ? x.data()[i] : y.data()[j];
    (mine ? i : j)++;
    if (size == 0 || hashes.data()[size - 1] != word) {
      if (size == size_of(hashes)) break;
      hashes.data()[size] = word, counts.data()[size] = 0, numbers.data()[size] = number;
      size++;
    }
    add_to(counts.data()[size - 1], count);
  }
  return size;
}

// Fill in the different steps between neighbours, in single precision, as bits; return how many
// there are, at most one more than fit in.
static i64 find_steps(const Vector<const double> &numbers, const Vector<u64> &out) {
  u64 *steps = out.data();
  const double *number = numbers.data();
  const i64 rows = size_of(numbers);
  i64 count = 0;
  for (i64 row = 0; row + 1 < rows; row++) {
    const double apart = number[row + 1] - number[row];
    const double step = static_cast<double>(static_cast<float>(apart)) + 0.0;
    if (step != step) continue;
    const u64 word = bits_of(step);
    i64 known = 0;
    while (known < count && steps[known] != word) known++;
    if (known < count) continue;
    if (count == size_of(out)) return count + 1;
    steps[count++] = word;
  }
  return count;
}

void bind_sketches(nb::module_ &module) {
  bind(module, "fill_number_hashes", fill_number_hashes, "values", "key", "drop", "out");
  bind(module, "mix_words", mix_words, "words");
  bind(module, "collect_hashes", collect_hashes, "hashes", "numbers", "windows", "start", "limit",
       "keys", "counts", "values");
  bind(module, "look_at_cells", look_at_cells, "numbers", "hashes", "key", "drop", "value_limit",
       "window_limit", "rows", "keys", "counts", "values", "window_keys", "window_counts",
       "window_values", "found");
  bind(module, "merge_sketches", merge_sketches, "a", "m", "x", "b", "n", "y", "hashes", "counts",
       "numbers");
  bind(module, "find_steps", find_steps, "numbers", "out");
}

} // namespace cornerwave
