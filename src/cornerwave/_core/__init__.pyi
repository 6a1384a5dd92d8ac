# The kernels' functions: C-contiguous arrays of just these types, nothing is converted. What is
# filled in comes last, and is named `out` where there is one. A wrong type is a TypeError, shapes
# that do not fit each other are a ValueError.

from cornerwave.arrays import Bytes, Codes, Flags, Floats, Ids, Ints, Words

instructions: str

def runnable() -> list[str]: ...

# --- white_noise.cpp ------------------------------------------------------------------------------
# words, masks: two for each row and pair of columns; below, above, out: (columns, rows)

def fill_positions(start: int, out: Ids) -> None: ...
def fill_cell_ids(ids: Ids, masks: Words, out: Words) -> None: ...
def fill_normals(words: Words, masks: Words, out: Floats) -> None: ...
def fill_level(
    weight_below: float,
    below: Floats,
    weight_above: float,
    above: Floats,
    weight_fresh: float,
    words: Words,
    masks: Words,
    out: Floats,
) -> None: ...

# --- copies.cpp -----------------------------------------------------------------------------------
# x, out: (columns, all rows); white, below, above, made: (columns, rows of a block), which begins
# at row `start` of out; `around`: out is too large for the cache

def shape_white(factor: Floats, white: Floats, out: Floats) -> None: ...
def add_on_grid(
    x: Floats, factor: Floats, white: Floats, grid: Floats, out: Floats, start: int, around: bool
) -> None: ...
def add_between(
    x: Floats,
    weight_below: float,
    below: Floats,
    weight_above: float,
    above: Floats,
    factor: Floats,
    words: Words,
    masks: Words,
    grid: Floats,
    made: Floats,
    out: Floats,
    start: int,
    around: bool,
) -> None: ...
def round_to_grid(x: Floats, grid: Floats) -> None: ...
def carry_over(
    carry: Floats,
    before: Floats,
    recall: Floats,
    lasting: Floats,
    fresh: Floats,
    path: Floats,
    after: Floats,
) -> None: ...

# --- persons.cpp ----------------------------------------------------------------------------------
# shared: (columns, persons); of_row, below: places of persons and knots, of each row

def shape_persons(
    shared: Floats, of_row: Ints, factor: Floats, white: Floats, out: Floats
) -> None: ...
def shape_curves(
    person: Floats,
    row: Floats,
    paths: Floats,
    of_row: Ints,
    below: Ints,
    weight: Floats,
    white: Floats,
    out: Floats,
) -> None: ...
def put_on_grid(x: Floats, noise: Floats, grid: Floats, out: Floats, start: int) -> None: ...
def apply_exchanges(
    who: Ints, others: Ints, copies: Flags, ends: Ints, shown: Ints, changes: Codes
) -> None: ...

# --- refresh.cpp ----------------------------------------------------------------------------------
# out: (levels, all rows); rows, times, staying, since: of some rows

def fill_value_blocks(ids: Ids, codes: Codes, rows: Ints, masks: Words, out: Words) -> None: ...
def apply_events(
    words: Words,
    masks: Words,
    rows: Ints,
    times: Floats,
    bounds: Words,
    guide: Codes,
    horizons: Floats,
    out: Codes,
    staying: Ints,
    since: Floats,
) -> int: ...
def log_1p(noise: float) -> float: ...

# --- hashes.cpp -----------------------------------------------------------------------------------
# out: (texts, 2); words of texts: (most, texts); words of rows: (values, rows)

def hash_texts(starts: Ints, content: Bytes, key: Words, out: Words) -> None: ...
def hash_words(words: Words, lengths: Words, key: Words, out: Words) -> None: ...
def fill_row_blocks(ids: Ids, words: Words, start: int, key: Words, blocks: Words) -> None: ...
def take_macs(images: Words, sums: Words, out: Words) -> None: ...
def double_masks(masks: Words) -> None: ...

# --- exact_sums.cpp -------------------------------------------------------------------------------
# columns: (columns, rows); total: a row and a column for each digit of each column

def add_digit_products(
    columns: Floats, unit: Floats, gaps: bool, total: Ints, sums: Ints
) -> None: ...
def find_ends(columns: Floats, lowest: Floats, highest: Floats) -> bool: ...

# --- exact_covariance.cpp -------------------------------------------------------------------------
# count, out: (columns, columns); sums, high, low: (digits, or pairs of digits, columns, columns)

def round_covariance(count: Ints, sums: Ints, high: Ints, low: Ints, out: Floats) -> None: ...

# --- matrices.cpp ---------------------------------------------------------------------------------

def factor_correlation(
    correlation: Floats, varies: Flags, tolerance: float, lower: Floats, follows: Flags
) -> None: ...
def add_by_code(rows: Floats, codes: Ints, sums: Floats) -> None: ...
def diagonalise(matrix: Floats, vectors: Floats, sweeps: int) -> None: ...
def compose(values: Floats, vectors: Floats, out: Floats) -> None: ...
def sweep_seen(
    covariance: Floats, seen: Ints, wanted: Ints, vanishing: float, weights: Floats, spread: Floats
) -> None: ...
def draw_missing(
    out: Floats,
    x: Floats,
    z: Floats,
    rows: Ints,
    seen: Ints,
    wanted: Ints,
    mean: Floats,
    weights: Floats,
    spread: Floats,
) -> None: ...

# --- sketches.cpp ---------------------------------------------------------------------------------
# keys, counts, values: slots, a power of two; limits: hashes from there on are of no interest

def fill_number_hashes(values: Floats, key: Words, drop: int, out: Words) -> None: ...
def mix_words(words: Words) -> None: ...
def collect_hashes(
    hashes: Words,
    numbers: Floats,
    windows: bool,
    start: int,
    limit: int,
    keys: Words,
    counts: Ints,
    values: Floats,
) -> int: ...
def look_at_cells(
    numbers: Floats,
    hashes: Words,
    key: Words,
    drop: int,
    value_limit: int,
    window_limit: int,
    rows: Words,
    keys: Words,
    counts: Ints,
    values: Floats,
    window_keys: Words,
    window_counts: Ints,
    window_values: Floats,
    found: Words,
) -> None: ...
def merge_sketches(
    a: Words,
    m: Ints,
    x: Floats,
    b: Words,
    n: Ints,
    y: Floats,
    hashes: Words,
    counts: Ints,
    numbers: Floats,
) -> int: ...
def find_steps(numbers: Floats, out: Words) -> int: ...

# --- columns.cpp ----------------------------------------------------------------------------------

def settle_floats(values: Floats, out: Floats) -> bool: ...
def number_by_appearance(
    values: Ints, codes: Codes, numbers: Codes, occurring: Ints, places: Codes
) -> int: ...
def fill_log1p(x: Floats, out: Floats) -> None: ...
def fill_minus_log(u: Floats, out: Floats) -> None: ...
def fill_expm1(t: Floats, out: Floats) -> None: ...
def fill_rank_scores(
    x: Floats,
    draws: Floats,
    distinct: Floats,
    first: Ints,
    count: Ints,
    scores: Floats,
    lowest: float,
    highest: float,
    out: Floats,
) -> None: ...
def fill_interpolated(x: Floats, at: Floats, values: Floats, out: Floats) -> None: ...

# --- text.cpp -------------------------------------------------------------------------------------
# floats: (numbers, rows); starts, ends: (texts, rows); words: (3, numbers); bounds: int32

def write_csv(
    doubles: Flags,
    floats: Floats,
    starts: Ints,
    ends: Ints,
    content: Bytes,
    powers: Words,
    out: Bytes,
) -> int: ...
def kind_of_cells(bounds: Codes, content: Bytes) -> tuple[int, int]: ...
def cut_texts(bounds: Ints, content: Bytes, which: int, ends: Ints, out: Bytes) -> int: ...
def fill_whole_texts(numbers: Ints, lengths: Words, words: Words) -> None: ...
def spell_pseudonyms(blocks: Words, out: Bytes) -> None: ...

# --- row_checks.cpp -------------------------------------------------------------------------------
# stacked: (groups, parts, run); counts: rows without noise, and hashes

def fill_cell_hashes(
    stacked: Floats,
    here: int,
    before: int,
    cell: Floats,
    last: int,
    still: Ints,
    out: Words,
    counts: Ints,
) -> None: ...
def count_sums(z: Floats) -> int: ...
