"""Values of every type come through every engine as they were written."""

import pyarrow as pa

from tests.lake.contract.samples import SAMPLES

NESTED = {
    "list": ("ARRAY<INT>", [[1, None, 3], [], None]),
    "map": ("MAP<STRING, BIGINT>", [[("a", 1), ("b", None)], [], None]),
    "row": ("ROW<a INT, b ROW<c ARRAY<STRING>>>", [{"a": 1, "b": {"c": ["x", None]}}, None]),
}


def every_type() -> tuple[dict[str, object], list[dict]]:
    """Return columns of every type, and rows with all their samples."""
    columns = {f"c{at}": kind for at, kind in enumerate(SAMPLES)}
    count = max(map(len, SAMPLES.values()))
    values = [[each[at % len(each)] for at in range(count)] for each in SAMPLES.values()]
    return columns, values


def batch_of(table, values, *, first: int) -> pa.RecordBatch:
    """Return the samples under ids of their own."""
    count = len(values[0])
    ids = pa.array(range(first, first + count), pa.int64())
    fields = list(table.schema)[1:]
    columns = [pa.array(each, field.type) for each, field in zip(values, fields, strict=True)]
    return pa.record_batch([ids, *columns], schema=table.schema)


def test_rows_of_lake_and_log_have_every_type(world, check):
    columns, values = every_type()
    table = world.table({"id": "BIGINT", **columns})
    batches = [batch_of(table, values, first=at) for at in (0, 100)]
    table.append(batches[0])
    world.tier(table)

    table.append(batches[1])

    check(table.view(), pa.Table.from_batches(batches).to_pylist())


def test_rows_by_key_have_every_type(world, check):
    columns, values = every_type()
    table = world.keyed({"id": "BIGINT", **columns})
    batch, other = batch_of(table, values, first=0), batch_of(table, values, first=3)
    table.upsert(batch)
    world.tier(table)

    table.upsert(other)

    check(table.view(), [*batch.to_pylist()[:3], *other.to_pylist()])


def test_lists_maps_and_rows_come_through(world, check):
    table = world.table({"id": "BIGINT", **{name: kind for name, (kind, _) in NESTED.items()}})
    rows = [
        {"id": at, **{name: each[at % len(each)] for name, (_, each) in NESTED.items()}}
        for at in range(6)
    ]
    table.append(rows[:3])
    world.tier(table)

    table.append(rows[3:])

    check(table.view(), table.view().scan().to_pylist())
    assert table.count() == 6
