"""Rows under keys in the form of a lake format are found after a restart."""

import pytest

import headwater

SCHEMA = {"word": "STRING", "count": "INT"}
WORDS = ("a", "longer than a slot", "ü")


@pytest.mark.parametrize("lake", ["iceberg", "paimon"])
def test_rows_are_found_under_the_keys_that_the_log_leads_to(tmp_path, lake):
    options = {"table.datalake.enabled": "true", "table.datalake.format": lake}
    with headwater.open(tmp_path) as storage:
        table = storage.create_table("t", SCHEMA, primary_key="word", buckets=2, options=options)
        table.upsert([{"word": word, "count": 1} for word in WORDS])
        table.delete({"word": "a"})

    with headwater.open(tmp_path) as storage:
        table = storage.table("t")
        table.upsert({"word": WORDS[1], "count": 2})

        assert table.get({"word": "a"}) is None
        assert table.get({"word": WORDS[1]}) == {"word": WORDS[1], "count": 2}
        assert table.get({"word": WORDS[2]}) == {"word": WORDS[2], "count": 1}
        assert table.scan().to_arrow().num_rows == 2
