"""Values of every type mean the same to the Java client and to ours."""

import pytest

from tests.interop.lake.coded import coded_rows, in_order

SECOND = 10**9
COLUMNS = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "number": "INT",
    "bigint": "BIGINT",
    "single": "FLOAT",
    "double": "DOUBLE",
    "letters": "CHAR(3)",
    "text": "STRING",
    "bytes": "BYTES",
    "four": "BINARY(4)",
    "amount": "DECIMAL(10, 2)",
    "wide": "DECIMAL(38, 10)",
    "day": "DATE",
    "time_s": "TIME(0)",
    "time_ms": "TIME(3)",
    "stamp_s": "TIMESTAMP(0)",
    "stamp_ms": "TIMESTAMP(3)",
    "stamp_us": "TIMESTAMP(6)",
    "stamp_ns": "TIMESTAMP(9)",
    "instant_s": "TIMESTAMP_LTZ(0)",
    "instant_ms": "TIMESTAMP_LTZ(3)",
    "instant_us": "TIMESTAMP_LTZ(6)",
    "instant_ns": "TIMESTAMP_LTZ(9)",
}
LOW = [
    False, -128, -(2**15), -(2**31), -(2**63), "-1.5", -2.25, "abc", "", "", "00ff00ff",
    "-12345678.90", "-1234567890123456789012345678.0123456789", -1, 0, 0,
    -SECOND, -(10**6), 0, 0, -SECOND, -(10**6), 0, 0,  # Java reads no finer ones before 1970
]  # fmt: skip
MOMENT = 1_770_000_000
HIGH = [
    True, 127, 2**15 - 1, 2**31 - 1, 2**63 - 1, "1e+30", 1e300, "äöü", "häadwåter 🌊",
    "00ff", "61626364", "99999999.99", "9999999999999999999999999999.9999999999",
    20_000, 86_399_000, 86_399_999,
    MOMENT * SECOND, MOMENT * SECOND + 7_000_000, MOMENT * SECOND + 7_000, MOMENT * SECOND + 7,
    MOMENT * SECOND, MOMENT * SECOND + 7_000_000, MOMENT * SECOND + 7_000, MOMENT * SECOND + 7,
]  # fmt: skip
NESTED = {
    "numbers": "ARRAY<INT>",
    "texts": "ARRAY<STRING>",
    "counts": "MAP<STRING, BIGINT>",
    "pair": "ROW<a INT, b STRING>",
    "deep": "ARRAY<ROW<tags ARRAY<STRING>, n BIGINT>>",
}
NESTED_ROWS = [
    [[1, None, 3], ["a", None], [["x", 1], ["y", None]], [1, "one"], [[["p", "q"], 7], [[], None]]],
    [[], [], [], [None, None], []],
    [None, None, None, None, None],
]
TABLES = {
    "plain": (COLUMNS, [LOW, HIGH, [None] * len(COLUMNS)]),
    "nested": (NESTED, NESTED_ROWS),
}


def keyed(columns: dict[str, str], rows: list[list[object]]):
    """Put a key before the columns."""
    return {"id": "INT NOT NULL"} | columns, [[at, *row] for at, row in enumerate(rows)]


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("has_key", [False, True], ids=["log", "keyed"])
def test_what_java_writes_is_read_by_both(java, hw, name, kind, has_key):
    columns, rows = keyed(*TABLES[kind])
    java.ask("create_table", table=name, columns=columns, key=["id"] if has_key else [])
    java.ask("upsert" if has_key else "append", table=name, rows=rows)

    records = java.ask("scan", table=name, count=len(rows))["records"]

    assert [record[-1] for record in records] == rows
    assert coded_rows(hw.table(name).scan().to_arrow()) == in_order(rows)
    if has_key:
        keys = [[row[0]] for row in rows]
        assert java.ask("lookup", table=name, keys=keys)["rows"] == [[row] for row in rows]


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("has_key", [False, True], ids=["log", "keyed"])
def test_what_we_write_is_read_by_java(java, hw, name, kind, has_key):
    columns, rows = keyed(*TABLES[kind])
    key = ["id"] if has_key else []
    java.ask("create_table", table=f"{name}_theirs", columns=columns, key=key)
    java.ask("upsert" if has_key else "append", table=f"{name}_theirs", rows=rows)
    ours = hw.create_table(name, columns, primary_key=key)

    held = hw.table(f"{name}_theirs").scan().to_arrow()
    _ = ours.upsert(held) if has_key else ours.append(held)

    records = java.ask("scan", table=name, count=len(rows))["records"]
    assert in_order([record[-1] for record in records]) == in_order(rows)
    if has_key:
        keys = [[row[0]] for row in rows]
        assert java.ask("lookup", table=name, keys=keys)["rows"] == [[row] for row in rows]


KEYS = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "SMALLINT": [-300, 300],
    "BIGINT": [-(2**63), 2**63 - 1],
    "FLOAT": ["-1.5", "1e+30"],
    "DOUBLE": [-2.25, 1e300],
    "CHAR(3)": ["abc", "äöü"],
    "STRING": ["", "häadwåter 🌊"],
    "BYTES": ["", "00ff"],
    "BINARY(4)": ["00ff00ff", "61626364"],
    "DECIMAL(10, 2)": ["-12345678.90", "0.01"],
    "DECIMAL(38, 10)": ["-1.0123456789", "9999999999999999999999999999.9999999999"],
    "DATE": [-1, 20_000],
    "TIME(3)": [0, 86_399_999],
    "TIMESTAMP(3)": [-(10**6), MOMENT * SECOND],
    "TIMESTAMP(9)": [-1, MOMENT * SECOND + 7],
    "TIMESTAMP_LTZ(3)": [-(10**6), MOMENT * SECOND],
    "TIMESTAMP_LTZ(9)": [-1, MOMENT * SECOND + 7],
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type_are_encoded_alike(java, hw, name, kind):
    columns = {"id": f"{kind} NOT NULL", "who": "STRING"}
    rows = [[key, "Java"] for key in KEYS[kind]]
    java.ask("create_table", table=name, columns=columns, key=["id"], buckets=4)
    java.ask("upsert", table=name, rows=rows)
    held = hw.table(name).scan().to_arrow()

    # Were a byte of a key or its bucket different, there would be a second row.
    hw.table(name).upsert(held)

    assert hw.table(name).count() == len(rows)
    assert coded_rows(hw.table(name).lookup(held.select(["id"]))) == coded_rows(held)
    assert java.ask("lookup", table=name, keys=[row[:1] for row in rows])["rows"] == [
        [row] for row in rows
    ]
