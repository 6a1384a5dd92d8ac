"""What every engine does: passes add up, and rows that are not the registered ones are refused."""

import pickle
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.choices import Choices
from cornerwave.columns import decide
from cornerwave.engines import batch_order, check_order
from cornerwave.engines._checks import order_of
from cornerwave.engines._on_worker import packed, sent, unpacked
from cornerwave.engines._passes import Block, SurveyPass, registered_rows
from cornerwave.errors import ColumnError, SourceChanged, SourceError, SourceLost
from cornerwave.spine.rows import RowSecrets
from cornerwave.spine.survey import Sampler, Surveyor

SECRETS = RowSecrets.of(lambda purpose: purpose.encode().ljust(32)[:32])


def survey_pass(table):
    schema = decide(table.schema, Choices(drop=("id",)))
    surveyor = Surveyor(schema, Sampler(schema, SECRETS).scales(None), SECRETS)
    return SurveyPass(surveyor, order_of(schema))


def blocks(pass_, table, size):
    for start in range(0, table.num_rows, size):
        part = table.slice(start, size).select(pass_.surveyor.schema.looked_at)
        yield Block.of(start, part, pass_.surveyor.schema, SECRETS)


def fields(found):
    """What a survey shows, without what depends on its parts alone."""
    survey = found.survey
    samples = (survey.sample, survey.joint, survey.units, survey.first)
    runs = pa.concat_tables(rows for _, rows in found.order._parts)
    return (
        survey.moments.rows,
        str(survey.fingerprint),
        survey.tallies,
        [each.ordered.hashes.tolist() for each in samples],
        runs.to_pydict(),
    )


def test_parts_add_up_whatever_was_known_and_however_they_were_sent(people):
    pass_ = survey_pass(people)
    nothing = pass_.nothing()
    [whole] = [pass_.of(each, nothing) for each in blocks(pass_, people, 1000)]
    whole = nothing + whole
    parts = [pass_.of(each, nothing) for each in blocks(pass_, people, 70)]
    assert fields(reduce(add, parts, nothing)) == fields(whole)
    known = nothing
    for each in blocks(pass_, people, 50):
        before, found = fields(nothing + known) if known is not nothing else None, known
        known = known + unpacked(packed(pass_.of(each, known).trimmed()))
        assert before is None or fields(found) == before  # threads may still read it
    assert fields(known) == fields(whole)


def test_secrets_travel_with_a_job_alone(people):
    pass_ = survey_pass(people)
    assert sent(pass_)
    for way in (pickle.dumps, packed):
        with pytest.raises(TypeError, match="not pickled by accident"):
            way(pass_)


def test_what_to_do_about_an_order_depends_on_who_brings_the_rows():
    table = pa.table({"x": np.sort(np.random.default_rng(1).normal(size=2000))})
    schema = decide(table.schema, Choices())
    for order, is_batch, way, use in (
        (order_of(schema), False, "Shuffle the rows", ("shuffle", "keep_order")),
        (batch_order(schema), True, "Put the rows into a random order", ()),
    ):
        order.add(0, table)
        with pytest.raises(ColumnError, match=rf"reveals 'x': .* hidden\. {way}") as caught:
            check_order(order, schema, is_batch=is_batch)
        assert caught.value.use == use


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (SourceError("it has 3 rows"), SourceChanged),
        (ColumnError("it has no column 'age'"), SourceChanged),
        (SourceLost("the connection was lost"), SourceLost),
        (ValueError("a fault of ours"), ValueError),
    ],
)
def test_a_lost_connection_is_no_other_table(found, told):
    with pytest.raises(told, match=str(found)) as caught, registered_rows():
        raise found
    assert type(caught.value) is told
