"""Random schema changes keep ids unique and stable."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidAlterError
from headwater.model.schema import Schema, with_column_ids
from headwater.model.types import ArrayType, DataType, IntType, MapType, RowField, RowType
from headwater.server.catalog.alter import AddColumn, DropColumn, RenameColumn, changed_schema
from tests.catalog.samples import schema_of

names = st.sampled_from("abcdefgh")
types = st.recursive(
    st.just(IntType()),
    lambda inner: st.one_of(
        st.builds(lambda element: ArrayType(element=element), inner),
        st.builds(lambda key, value: MapType(key=key, value=value), inner, inner),
        st.builds(
            lambda one, two: RowType(
                fields=(RowField(name="one", type=one), RowField(name="two", type=two))
            ),
            inner,
            inner,
        ),
    ),
    max_leaves=4,
)
changes = st.one_of(
    st.builds(lambda name, kind: AddColumn(name=name, type=kind), names, types),
    st.builds(DropColumn, names),
    st.builds(RenameColumn, names, names),
)


def nested_ids(data_type: DataType) -> list[int]:
    match data_type:
        case ArrayType(element=element):
            return nested_ids(element)
        case MapType(key=key, value=value):
            return nested_ids(key) + nested_ids(value)
        case RowType(fields=fields):
            return [number for f in fields for number in (f.field_id, *nested_ids(f.type))]
        case _:
            return []


def all_ids(schema: Schema) -> set[int]:
    ids = [n for column in schema.columns for n in (column.column_id, *nested_ids(column.type))]
    assert len(ids) == len(set(ids))
    return set(ids)


def history(steps) -> list[Schema]:
    schemas = [with_column_ids(schema_of(a=IntType(), b=ArrayType(element=IntType())))]
    for step in steps:
        try:
            schemas.append(changed_schema(schemas[-1], [step], fixed={"a": "a bucket key"}))
        except InvalidAlterError:
            continue
    return schemas


@given(st.lists(changes, max_size=30))
def test_an_id_is_never_given_to_a_second_column(steps):
    schemas = history(steps)

    used: set[int] = set()
    for before, after in pairwise(schemas):
        used |= all_ids(before)
        assert not (all_ids(after) - all_ids(before)) & used
        assert max(all_ids(after)) <= after.highest_field_id


@given(st.lists(changes, max_size=30))
def test_a_column_that_stays_keeps_id_type_and_place(steps):
    schemas = history(steps)

    for before, after in pairwise(schemas):
        held = {column.column_id: column for column in after.columns}
        kept = [column for column in before.columns if column.column_id in held]
        assert [replace(held[one.column_id], name="") for one in kept] == [
            replace(one, name="") for one in kept
        ]
        assert [c.column_id for c in after.columns if c in kept] == sorted(
            c.column_id for c in after.columns if c in kept
        )


@given(st.lists(changes, max_size=30))
def test_a_fixed_column_and_the_uniqueness_of_names_survive_everything(steps):
    for schema in history(steps):
        assert schema.columns[0].name == "a"
        assert len(set(schema.names)) == len(schema.names)
