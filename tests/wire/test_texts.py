"""Texts of messages are looked at wherever they can be, and nowhere else."""

import pytest

from headwater.wire import fluss_pb2 as pb
from headwater.wire.messages import texts_of

NO_TEXT = b"\n\x02\xff\xfe"  # the first field, two bytes of invalid UTF-8


def holds_only_texts(message) -> bool:
    return all(isinstance(text, str) for text in texts_of(message))


def test_a_message_of_texts_is_taken():
    path = pb.TablePath(database_name="fluss", table_name="é")

    assert holds_only_texts(pb.MetadataRequest(table_path=[path, path], partitions_id=[1]))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (pb.ListTablesRequest, NO_TEXT),
        (pb.ListDatabasesResponse, NO_TEXT),
        (pb.MetadataRequest, b"\n\x04" + NO_TEXT),
    ],
    ids=["in a field", "in a list", "in a message of a list"],
)
def test_bytes_that_are_no_text_are_seen(kind, body):
    assert not holds_only_texts(kind.FromString(body))


def test_types_that_hold_themselves_are_looked_through():
    literal = pb.LiteralValue.FromString(b"\x08\x00\x10\x00B\x02\xff\xfe")
    leaf = pb.Predicate(type=0, leaf=pb.LeafPredicate(function=0, field_id=0, literals=[literal]))
    deep = pb.Predicate(type=1, compound=pb.CompoundPredicate(function=0, children=[leaf, leaf]))

    assert not holds_only_texts(deep)
    assert holds_only_texts(pb.Predicate(type=0))
