"""A row that is got in the caller's thread is the one that is looked up over the loop."""

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

KEYS = {
    "one number": ({"id": "BIGINT NOT NULL"}, {}),
    "one text": ({"id": "STRING NOT NULL"}, {"buckets": 3}),
    "several": ({"a": "INT NOT NULL", "b": "STRING NOT NULL"}, {"buckets": 5}),
    "by a part": ({"a": "STRING NOT NULL", "b": "BIGINT NOT NULL"}, {"bucket_by": "a"}),
    "in partitions": (
        {"a": "STRING NOT NULL", "b": "INT NOT NULL", "id": "BIGINT NOT NULL"},
        {"partition_by": ["a", "b"], "buckets": 2},
    ),
    "of another type": ({"id": "DATE NOT NULL"}, {"buckets": 2}),
    "of the lake": (
        {"id": "BIGINT NOT NULL"},
        {"buckets": 3, "options": {"table.datalake.format": "iceberg"}},
    ),
}
WITH_NESTED = ("several", "of the lake")
STEPS = 20
COLUMNS = {
    "c0": "STRING",
    "c1": "DOUBLE",
    "c2": "BOOLEAN",
    "c3": "TIMESTAMP(6)",
    "c4": "TIMESTAMP_LTZ(3)",
    "c5": "DECIMAL(10, 2)",
    "c6": "BYTES",
    "c7": "DATE",
    "c8": "FLOAT",
    "c9": "SMALLINT",
}
NESTED = {"tags": "ARRAY<INT>"}


def value_of(chance, kind):
    """Draw a value of a type, often the same one, so that keys meet again."""
    number = chance.randrange(6)
    if "NOT NULL" not in kind and chance.random() < 0.2:
        return None
    moment = datetime(2026, 1, 1) + timedelta(days=number, microseconds=number * 1000)
    return {
        "STRING": ["", "a", "Ulm", "日本", "x" * 200, "b"][number],
        "INT": [0, -1, 7, 2**31 - 1, -(2**31), 300][number],
        "BIGINT": [0, -1, 7, 2**63 - 1, -(2**63), 2**40][number],
        "SMALLINT": [0, -1, 7, 2**15 - 1, -(2**15), 300][number],
        "DATE": date(2026, 1, 1 + number),
        "DOUBLE": [0.0, -0.5, 1e300, float("inf"), 3.25, -7.0][number],
        "FLOAT": [0.0, -0.5, 1.5, float("-inf"), 3.25, -7.0][number],
        "BOOLEAN": bool(number % 2),
        "TIMESTAMP(6)": moment,
        "TIMESTAMP_LTZ(3)": moment.replace(tzinfo=UTC),
        "DECIMAL(10, 2)": Decimal(number * 12345 - 20000).scaleb(-2),
        "BYTES": bytes(range(number)),
        "ARRAY<INT>": list(range(number)),
    }[kind.removesuffix(" NOT NULL")]


def looked_up(client, name, *keys):
    """Look up over the loop, as many keys are."""

    async def look(awaiting):
        table = await awaiting.table(name)
        return (await table.lookup([*keys])).to_pylist()

    return client.run(look)


def draw_key(chance, keys, others):
    key = {name: value_of(chance, kind) for name, kind in keys.items()}
    if "partition_by" in others:  # Few, so that most of them are there.
        key |= {"a": chance.choice(["p", "Ulm"]), "b": 7}
    return key


def change(chance, table, keys, others):
    key = draw_key(chance, keys, others)
    if chance.random() < 0.2:
        table.delete([key])
        return key
    kinds = {field.name: field for field in table.schema}
    known = {**COLUMNS, **NESTED, "added": "STRING"}
    row = {name: value_of(chance, kind) for name, kind in known.items() if name in kinds}
    table.upsert({**key, **row})
    return key


def differences(client, table, shape, chance):
    """Change a table at random, and return where the two ways differ, and how often each went."""
    keys, others = KEYS[shape]
    wrong, short_count = [], 0
    for step in range(STEPS):
        if step == STEPS // 2:
            table.add_column("added", "STRING")
        change(chance, table, keys, others)
        key = draw_key(chance, keys, others)
        given = chance.choice([key, tuple(key.values())])
        (expected,) = looked_up(client, table.name, key) or [None]
        short_count += table._table.get_now(given, may_wait=True) is not None
        found = table.get(given)
        (kept,) = table.lookup([key], keep_missing=True).to_pylist()
        if repr(found) != repr(expected) or (expected and repr(kept) != repr(expected)):
            wrong.append((shape, given, found, kept, expected))
        several = [key, *(draw_key(chance, keys, others) for _ in range(4))]
        together = table.lookup(several)
        if repr(together.to_pylist()) != repr(looked_up(client, table.name, *several)):
            wrong.append((shape, several, together.to_pylist()))
        if not together.schema.equals(table.schema):
            wrong.append((shape, together.schema))
    return wrong, short_count


def test_both_ways_give_the_same_rows(backend, name):
    wrong, short = [], {}
    for number, (shape, (keys, others)) in enumerate(KEYS.items()):
        schema = {**keys, **COLUMNS, **(NESTED if shape in WITH_NESTED else {})}
        path = f"{name}_{number}"
        table = backend.client.create_table(path, schema, primary_key=list(keys), **others)
        chance = random.Random(f"{shape} {backend.kind}")
        found, short[shape] = differences(backend.client, table, shape, chance)
        wrong += found

    assert wrong == []
    # What is not known or not durable goes the other way, but that is the exception.
    assert {shape: count for shape, count in short.items() if count < STEPS // 2} == {}


def test_few_keys_come_in_their_order_whatever_their_buckets(client, name):
    table = client.create_table(
        name, {"id": "BIGINT", "name": "STRING"}, primary_key="id", buckets=4
    )
    table.upsert([{"id": number, "name": f"n{number}"} for number in range(0, 100, 2)])
    keys = [42, 7, 0, 98, 42, 3, 64]

    found = table.lookup(keys)
    kept = table.lookup(keys, columns=["name"], keep_missing=True)

    assert found["id"].to_pylist() == [42, 0, 98, 42, 64]
    assert kept["name"].to_pylist() == ["n42", None, "n0", "n98", "n42", None, "n64"]
    assert table.lookup([]).num_rows == 0


def test_an_acknowledged_row_is_seen_at_once(client, name):
    table = client.create_table(name, {"id": "INT", "n": "INT"}, primary_key="id")

    for number in range(50):
        table.upsert({"id": 1, "n": number})
        assert table.get(1) == {"id": 1, "n": number}
        table.delete([1])
        assert table.get(1) is None
