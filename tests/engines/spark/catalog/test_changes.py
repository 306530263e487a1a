"""What ALTER TABLE asks for, done to a table."""

import pytest

import headwater
from headwater.engines.spark.catalog.definition import alter
from headwater.errors import InvalidAlterError
from tests.engines.spark.catalog.java_fakes import Change


class JsonType:
    """Be a data type of the JVM."""

    def __init__(self, json: str) -> None:
        self._json = json

    def json(self) -> str:
        return self._json


@pytest.fixture
def table(tmp_path):
    with headwater.open(tmp_path) as hw:
        yield hw.create_table("t", {"a": "INT", "b": "STRING"})


def test_columns_are_added_renamed_and_dropped(table):
    added = Change(
        "AddColumn",
        fieldNames=["c"],
        dataType=JsonType('"decimal(6,2)"'),
        isNullable=True,
        comment="tip",
    )
    renamed = Change("RenameColumn", fieldNames=["b"], newName="d")
    dropped = Change("DeleteColumn", fieldNames=["a"], ifExists=False)
    missing = Change("DeleteColumn", fieldNames=["z"], ifExists=True)

    alter(table, [added, renamed, dropped, missing])

    assert table.schema.names == ["d", "c"]
    assert str(table.schema.field("c").type) == "decimal128(6, 2)"


def test_options_are_set_and_taken_back(table):
    alter(table, [Change("SetProperty", property="team", value="red")])
    assert table.info.descriptor.custom_properties["team"] == "red"

    alter(table, [Change("RemoveProperty", property="team")])
    assert "team" not in table.info.descriptor.custom_properties


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (Change("UpdateColumnType", fieldNames=["a"]), "update column type"),
        (Change("SetProperty", property="bucket.num", value="9"), "bucket.num"),
        (Change("AddColumn", fieldNames=["c"], position="FIRST"), "becomes the last column"),
        (Change("DeleteColumn", fieldNames=["s", "x"]), "s.x"),
    ],
)
def test_what_cannot_be_changed_is_refused_before_anything_is(table, change, complaint):
    first = Change("RenameColumn", fieldNames=["b"], newName="d")

    with pytest.raises(InvalidAlterError, match=complaint):
        alter(table, [first, change])

    assert table.schema.names == ["a", "b"]
