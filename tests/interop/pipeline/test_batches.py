"""Data frames written into tables of a cluster, and read from them, on a Spark cluster."""

from collections import Counter

import pytest

from headwater.engines.spark.source import FORMAT
from tests.interop.pipeline.pipeline import orders


def test_rows_of_a_frame_are_appended_once(pipeline):
    table = pipeline.create()

    pipeline.write(pipeline.frame(0, 5000), table)
    pipeline.write(pipeline.frame(5000, 6000), table)

    expected = Counter(orders(0, 6000))
    assert pipeline.by_log(table) == expected
    assert pipeline.by_spark(table) == expected


def test_rows_of_a_frame_replace_those_of_their_keys(pipeline):
    table = pipeline.create(is_keyed=True)

    pipeline.write(pipeline.frame(0, 2000), table)
    pipeline.write(pipeline.frame(1500, 2500, amount=7), table)

    expected = Counter(orders(0, 1500) + orders(1500, 2500, amount=7))
    assert pipeline.by_log(table) == expected
    assert pipeline.by_spark(table) == expected
    assert table.get(1700) == {"id": 1700, "city": "bern", "amount": 7}


@pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "keyed"])
def test_a_part_of_a_table_is_read(pipeline, is_keyed):
    table = pipeline.create(is_keyed=is_keyed)
    pipeline.write(pipeline.frame(0, 1000), table)

    reader = pipeline.spark.read.format(FORMAT).options(**pipeline.options)
    frame = reader.load(table.name).where("id >= 990").select("id")

    assert sorted(row.id for row in frame.collect()) == list(range(990, 1000))
