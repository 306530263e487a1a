"""What has to change in a lake table is decided from its schema alone."""

import json
from dataclasses import replace

import pytest
from pypaimon import CatalogFactory, Schema
from pypaimon.schema.schema_change import SchemaChange

from headwater.errors import LakeTableDiffersError, UnsupportedError
from headwater.lake.paimon.layout import (
    COLUMN_IDS_OPTION,
    AddField,
    DropField,
    LakeSchema,
    RenameField,
    SetOption,
    new_fields,
    plan_changes,
)
from headwater.model.types import (
    BigIntType,
    IntType,
    RowField,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)
from headwater.tiering.target import with_system_columns
from tests.lake.contract.changes import added, dropped, renamed

COLUMNS = {"id": BigIntType(nullable=False), "a": StringType(), "b": IntType()}


@pytest.fixture
def spec(tables):
    return tables.spec(COLUMNS, key=("id",))


def held(spec) -> LakeSchema:
    fields, options = new_fields(spec)
    return LakeSchema(
        schema_id=0,
        fields=tuple(fields),
        partition_keys=spec.partition_keys,
        primary_key=spec.schema.primary_key,
        options=options,
        highest_field_id=len(fields) - 1,
    )


def ids_after(changes) -> dict[str, int]:
    option = changes[-1]
    assert isinstance(option, SetOption)
    assert option.key == COLUMN_IDS_OPTION
    return json.loads(option.value)


def test_a_table_as_it_was_made_needs_nothing(spec):
    assert plan_changes(spec, held(spec)) == ()


def test_columns_are_followed_by_their_ids(spec):
    changed = added(dropped(renamed(spec, "a", "c"), "b"), "d", IntType())

    changes = plan_changes(changed, held(spec))

    assert changes[:3] == (DropField("b"), RenameField("a", "c"), AddField("d", "INT", None))
    assert ids_after(changes) == {"0": 0, "1": 1, "2": ~2, "3": 3}


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "of others"])
def test_columns_of_apache_fluss_stay_the_last_ones(spec, is_ours):
    there = held(with_system_columns(spec))
    options = there.options if is_ours else {**there.options, COLUMN_IDS_OPTION: None}
    there = replace(there, options={key: each for key, each in options.items() if each is not None})
    wider = with_system_columns(added(spec, "d", IntType()))

    changes = plan_changes(wider, there)

    assert changes[0] == AddField("d", "INT", None, before="__bucket")


def test_an_added_row_takes_as_many_ids_as_it_has_fields(spec):
    kind = RowType(fields=tuple(RowField(name=n, type=IntType(), field_id=9) for n in "xyz"))

    changes = plan_changes(added(added(spec, "r", kind), "s", IntType()), held(spec))

    assert ids_after(changes) == {"0": 0, "1": 1, "2": 2, "3": 3, "4": 7}


def test_exchanged_names_take_a_detour(spec):
    swapped = renamed(renamed(renamed(spec, "a", "x"), "b", "a"), "x", "b")

    changes = plan_changes(swapped, held(spec))

    assert [type(each) for each in changes] == [RenameField] * 4 + [SetOption]


def test_a_key_cannot_be_renamed(spec):
    changed = renamed(spec, "id", "key")
    changed = replace(changed, bucket_keys=("key",))
    changed = replace(changed, schema=replace(changed.schema, primary_key=("key",)))

    with pytest.raises(LakeTableDiffersError, match="id"):
        plan_changes(changed, held(spec))


@pytest.mark.parametrize(
    ("key", "value"),
    [("bucket", "3"), ("merge-engine", "first-row"), ("deletion-vectors.enabled", "true")],
)
def test_options_that_would_change_what_files_mean_are_refused(spec, key, value):
    with pytest.raises(UnsupportedError, match=key):
        new_fields(replace(spec, properties={key: value}))


def test_a_foreign_table_is_matched_by_name(spec):
    theirs = held(spec)
    options = {key: text for key, text in theirs.options.items() if key != COLUMN_IDS_OPTION}
    theirs = replace(theirs, options={**options, "changelog-producer": "input"})

    assert plan_changes(spec, theirs) == ()
    assert plan_changes(added(spec, "c"), theirs) == (AddField("c", "STRING", None),)
    with pytest.raises(LakeTableDiffersError, match="columns b"):
        plan_changes(dropped(spec, "b"), theirs)


def test_system_columns_of_others_are_refused(config, tables):
    spec = tables.spec({"id": BigIntType(), "name": StringType()})
    tables.lake.catalog().ensure(tables.spec({"id": BigIntType()}))
    catalog = CatalogFactory.create(dict(config))
    wide = tables.make({"id": BigIntType(), "__offset": BigIntType()})
    fields = catalog.get_table(str(wide.spec.path)).table_schema.fields
    catalog.create_table(str(spec.path), Schema(fields=fields, options={"bucket": "-1"}), False)

    with pytest.raises(LakeTableDiffersError, match="__offset"):
        tables.lake.catalog().ensure(spec)


def test_a_schema_that_another_process_wrote_first_is_not_overwritten(config, tables):
    table = tables.make({"id": BigIntType(), "name": StringType()})
    catalog = CatalogFactory.create(dict(config))
    parsed = catalog.get_table(str(table.spec.path)).fields[1].type
    catalog.alter_table(str(table.spec.path), [SchemaChange.add_column("theirs", parsed, None)])

    evolved = table.evolved(added(table.spec, "ours"))
    evolved.tier([{"id": 1, "name": "a", "ours": "b"}])

    fields = catalog.get_table(str(table.spec.path)).field_names
    assert fields == ["id", "name", "theirs", "ours"]
    assert evolved.values() == [{"id": 1, "name": "a", "ours": "b"}]


@pytest.mark.parametrize(
    "columns",
    [
        {"t": TimeType(precision=6)},
        {"r": RowType(fields=(RowField(name="t", type=TimeType(precision=9)),))},
        {"t": TimestampType(precision=9), "u": TimestampType(precision=6)},
    ],
)
def test_times_that_files_cannot_hold_are_refused_by_name(tables, columns):
    with pytest.raises(UnsupportedError, match=f"'{next(iter(columns))}'"):
        tables.make(columns)
