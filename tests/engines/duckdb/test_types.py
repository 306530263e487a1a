"""Every type of a table comes through DuckDB as it is, from the lake and from the log."""

import pyarrow as pa
import pytest

from headwater.engines.duckdb.types import type_sql
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


@pytest.fixture(params=VALUES, ids=str)
def kind(world, request):
    if not is_held(world.format, request.param):
        pytest.skip(f"{world.format} cannot hold it")
    return request.param


def test_a_type_is_the_same_from_lake_and_log(world, table, kind):
    name, read = COLUMNS[kind], world.read(table)
    expected = table.scan(columns=["id", name]).to_arrow().sort_by("id")[name]
    world.rows(f"SET TimeZone = '{FAR_ZONE}'")

    found = world.arrow(f"SELECT {name} FROM {read} ORDER BY id")[name]
    described = world.rows(f"SELECT DISTINCT typeof({name}) FROM {read}")
    world.rows("RESET TimeZone")

    assert found.cast(arrow_type(kind)).equals(expected), (found, expected)
    assert len(found.drop_null())
    assert described == world.rows(f"SELECT typeof(CAST(NULL AS {type_sql(kind)}))")


def test_a_value_can_be_looked_for(world, table, kind):
    name, read = COLUMNS[kind], world.read(table)

    found = world.rows(
        f"SELECT id FROM {read} WHERE {name} = (SELECT {name} FROM {read} WHERE id = 0) ORDER BY 1"
    )
    nulls = world.rows(f"SELECT min(id), max(id) FROM {read} WHERE {name} IS NULL")

    assert {(0,), (100,)} <= set(found)
    assert nulls == [(1, 100 + ROWS - 1 if len(VALUES[kind]) < ROWS else 101)]


def test_a_comparison_with_a_literal_finds_rows_of_lake_and_log(world, table, kind):
    name, read = COLUMNS[kind], world.read(table)
    if isinstance(kind, NESTED_TYPES):
        pytest.skip("there is no literal of it")
    literal, *_ = world.rows(f"SELECT CAST({name} AS VARCHAR) FROM {read} WHERE id = 0")[0]

    found = world.rows(
        f"SELECT id FROM {read} WHERE {name} <= CAST(? AS {type_sql(kind)})", literal
    )

    assert {(0,), (100,)} <= set(found)


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
