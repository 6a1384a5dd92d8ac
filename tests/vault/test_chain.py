"""The algebra of a chain, without a database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.errors import LedgerDamaged
from cornerwave.ledger import Key
from cornerwave.ledger._chain import Chain, Draft, Line
from cornerwave.ledger._database import CHAIN

KEY = Key(bytes(range(32)))
TEXTS = st.text(max_size=8)
DRAFTS = st.lists(st.builds(Draft, TEXTS, TEXTS, st.none() | TEXTS, TEXTS), max_size=6)


def chain_of(drafts, key=KEY, id="a1", name="people"):
    return Chain(key, id, name).extend(drafts)


def some(count=5):
    return [Draft("2030", "holding", f"r{n}", f"content {n}") for n in range(count)]


@given(DRAFTS, DRAFTS)
def test_appending_in_parts_is_one_chain(first, second):
    lines, chain = chain_of(first)
    more, longer = chain.extend(second)
    longer.check(lines + more)
    longer.check(more, after=len(lines), before=chain.head)
    assert longer.length == len(first) + len(second)
    assert [longer.read(line) for line in lines + more] == [d.content for d in first + second]


@given(DRAFTS.filter(len), st.data())
def test_no_field_of_a_line_can_be_changed(drafts, data):
    lines, chain = chain_of(drafts)
    place = data.draw(st.integers(0, len(lines) - 1))
    field = data.draw(st.sampled_from(Line._fields))
    strange = st.none() | TEXTS | st.integers() | st.binary() | st.floats(allow_nan=False)
    value = data.draw(strange.filter(lambda value: value != getattr(lines[place], field)))
    lines[place] = lines[place]._replace(**{field: value})
    with pytest.raises(LedgerDamaged, match="'people' was changed from outside"):
        chain.check(lines)


def damaged_lists():
    lines, chain = chain_of(some())
    fork, _ = chain_of(some())
    return chain, {
        "first deleted": lines[1:],
        "middle deleted": lines[:2] + lines[3:],
        "last deleted": lines[:-1],
        "all deleted": [],
        "two swapped": [lines[0], lines[2], lines[1], *lines[3:]],
        "two swapped and renumbered": [
            lines[0],
            lines[2]._replace(number=2),
            lines[1]._replace(number=3),
            *lines[3:],
        ],
        "middle deleted and renumbered": lines[:2]
        + [line._replace(number=line.number - 1) for line in lines[3:]],
        "one doubled": [*lines, lines[-1]],
        "one doubled and renumbered": [*lines, lines[-1]._replace(number=6)],
        "a line of a fork": [*lines[:2], fork[2], *lines[3:]],
        "the end of a fork": lines[:2] + fork[2:],
        "another whole chain": fork,
    }


@pytest.mark.parametrize("damage", damaged_lists()[1])
def test_no_list_of_lines_but_its_own_fits(damage):
    chain, lists = damaged_lists()
    with pytest.raises(LedgerDamaged):
        chain.check(lists[damage])


def test_a_chain_fits_its_own_key_id_and_name():
    lines, chain = chain_of(some())
    with pytest.raises(LedgerDamaged):
        Chain(Key.generate(), "a1", "people", chain.length, chain.head).check(lines)
    with pytest.raises(LedgerDamaged):
        Chain(KEY, "a2", "people", chain.length, chain.head).check(lines)
    with pytest.raises(LedgerDamaged):
        Chain.of_row(Key.generate(), chain.row)


@pytest.mark.parametrize(
    ("field", "value"),
    [("id", "a2"), ("name", "others"), ("length", 4), ("head", ""), ("seal", ""), ("name", b"p")],
)
def test_no_field_of_the_row_can_be_changed(field, value):
    _, chain = chain_of(some())
    Chain.of_row(KEY, chain.row)
    row = dict(zip(CHAIN.columns, chain.row, strict=True))
    with pytest.raises(LedgerDamaged, match="does not fit its seal"):
        Chain.of_row(KEY, list({**row, field: value}.values()))


def test_bytes_do_not_pass_for_the_text_that_shows_them():
    lines, chain = chain_of([Draft("2030", "holding", "b'x'", "{}")])
    chain.check(lines)
    with pytest.raises(LedgerDamaged):
        chain.check([lines[0]._replace(recipient=b"x")])


def test_macs_are_pinned():
    # If these change, no older ledger can be read.
    mac = "d" * 64
    line = Line("a1", 7, "2030", "holding", "Ann", "ann", "content", "")
    assert Chain(KEY, "a1", "people")._mac(line[:-1], mac) == (
        "12ec0e9a568e971bfe70ea9b6d6135d91f00e8a900b361d8eb92978285bebb92"
    )
    assert Chain(KEY, "a1", "people", 7, mac, stated=2).row[-1] == (
        "a91931f32753c33b9039bd124b3601669d7489c0dc5c13dc320ef17f0a1971b0"
    )
