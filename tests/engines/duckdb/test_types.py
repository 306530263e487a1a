"""Every type of a table comes through DuckDB as it is, from the lake and from the log."""

import pyarrow as pa
import pytest

from headwater.engines.duckdb.sql import type_sql
from headwater.model.arrow import arrow_type
from headwater.model.types import NESTED_TYPES, BigIntType, TimeType
from tests.lake.contract.samples import SAMPLES, numbers_of
from tests.lake.contract.test_types import FINE, NESTED

VALUES = {
    **SAMPLES,
    **{kind: numbers_of(kind) for kind in FINE if kind not in SAMPLES},
    NESTED[0]: [[1, None, 3], None, []],
    NESTED[1]: [["a", "b"], None, []],
    NESTED[2]: [[[0, None], None], None, [[]]],
    NESTED[3]: [[("a", 1.5), ("b", None)], None, []],
    NESTED[4]: [[(1, [True, None])], None, []],
    NESTED[5]: [{"x": 1, "y": "abc", "z": {"deep": -1}}, None, {"x": None, "y": None, "z": None}],
    NESTED[6]: [[{"d": 12345}, None], None, []],
}
FAR_ZONE = "Pacific/Kiritimati"


NANOS = [kind for kind in FINE if kind.precision > 6]
COLUMNS = {kind: f"v{at}" for at, kind in enumerate(VALUES)}
ROWS = max(map(len, VALUES.values()))


def is_held(lake_format: str, kind) -> bool:
    """Tell whether a lake format can hold a type."""
    if isinstance(kind, TimeType):
        return kind.precision <= (6 if lake_format == "iceberg" else 3)
    return kind not in NANOS


def batch_of(kinds, *, first: int) -> pa.RecordBatch:
    columns = {COLUMNS[kind]: pa.array(padded(VALUES[kind]), arrow_type(kind)) for kind in kinds}
    return pa.record_batch({"id": pa.array(range(first, first + ROWS), pa.int64()), **columns})


def padded(values: list) -> list:
    return values + [None] * (ROWS - len(values))


@pytest.fixture(scope="module", params=("log", "keyed"))
def table(world, request):
    """Return a table with a column of every type, and its rows twice: in lake and log."""
    kinds = [kind for kind in VALUES if is_held(world.format, kind)]
    schema = {"id": BigIntType(nullable=False)} | {COLUMNS[kind]: kind for kind in kinds}
    made = world.keyed(schema) if request.param == "keyed" else world.table(schema)
    write = made.upsert if request.param == "keyed" else made.append
    write(batch_of(kinds, first=0))
    world.tier(made)
    write(batch_of(kinds, first=100))
    return made


def kinds_of(table):
    return [kind for kind, name in COLUMNS.items() if name in table.schema.names]


def test_every_type_is_the_same_from_lake_and_log(world, table):
    expected = table.scan().to_arrow().sort_by("id")
    world.rows(f"SET TimeZone = '{FAR_ZONE}'")

    found = world.arrow(f"SELECT * FROM {world.read(table)} ORDER BY id")
    world.rows("RESET TimeZone")

    for name in expected.column_names:
        assert found[name].cast(expected[name].type).equals(expected[name]), name
        assert len(found[name].drop_null())


def test_every_type_is_told_by_its_name(world, table):
    found = world.rows(f"DESCRIBE SELECT * FROM {world.read(table)}")

    wanted = ", ".join(f"typeof(CAST(NULL AS {type_sql(kind)}))" for kind in kinds_of(table))
    assert [row[1] for row in found[1:]] == list(world.rows(f"SELECT {wanted}")[0])


def test_values_of_every_type_can_be_looked_for(world, table):
    read = world.read(table)
    for name in map(COLUMNS.get, kinds_of(table)):
        found = world.rows(
            f"SELECT id FROM {read} WHERE {name} = (SELECT {name} FROM {read} WHERE id = 0)"
        )
        nulls = world.rows(f"SELECT min(id), max(id) > 100 FROM {read} WHERE {name} IS NULL")

        assert {(0,), (100,)} <= set(found), name
        assert nulls == [(1, True)], name


def test_comparisons_with_literals_find_rows_of_lake_and_log(world, table):
    read = world.read(table)
    for kind in kinds_of(table):
        name, type_ = COLUMNS[kind], type_sql(kind)
        if isinstance(kind, NESTED_TYPES):
            continue  # There is no literal of it.
        literal, *_ = world.rows(f"SELECT CAST({name} AS VARCHAR) FROM {read} WHERE id = 0")[0]

        found = world.rows(f"SELECT id FROM {read} WHERE {name} <= CAST(? AS {type_})", literal)

        assert {(0,), (100,)} <= set(found), kind


def test_moments_finer_than_microseconds_keep_all_digits(world):
    if world.format == "iceberg":
        pytest.skip("iceberg cannot hold them")
    kinds = [kind for kind in NANOS if not isinstance(kind, TimeType)]
    schema = {"id": BigIntType(nullable=False)} | {COLUMNS[kind]: kind for kind in kinds}
    for table in (world.table(schema), world.keyed(schema)):
        write = table.upsert if table.is_keyed else table.append
        write(batch_of(kinds, first=0))
        world.tier(table)
        write(batch_of(kinds, first=100))

        found = world.arrow(f"SELECT * FROM {world.read(table)} ORDER BY id")

        assert found.cast(table.schema).equals(table.scan().to_arrow().sort_by("id"))
