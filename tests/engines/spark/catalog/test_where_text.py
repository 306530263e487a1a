"""EXPLAIN shows conditions as people write them."""

import pytest

from headwater.engines.spark.catalog.filters import where_text


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (("id", "==", 3), "id == 3"),
        ([["id", ">", 3], ["city", "is null"]], "id > 3 and city is null"),
        (((("id", "==", 3), ("city", "in", ("Bern",))),), "id == 3 and city in ('Bern',)"),
        ([[("a", "<", 1)], [("b", "==", "x")]], "(a < 1) or (b == 'x')"),
    ],
)
def test_conditions_are_shown_as_people_write_them(where, text):
    assert where_text(where) == text
