"""The rows that are written and read: 10 columns of the usual kinds, and 50 for projections."""

import numpy as np
import pyarrow as pa

NARROW = pa.schema(
    [
        ("k", pa.int64()),
        ("n", pa.int64()),
        ("a", pa.int32()),
        ("b", pa.int32()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("s1", pa.string()),
        ("s2", pa.string()),
        ("t1", pa.timestamp("us")),
        ("t2", pa.timestamp("us")),
    ]
)
WIDE = pa.schema([(f"c{n}", pa.int64() if n % 2 else pa.float64()) for n in range(50)])


def narrow_batch(rows: int, *, seed: int) -> pa.RecordBatch:
    """Return rows of 104 bytes each."""
    random = np.random.default_rng(seed)
    texts = pa.array([f"{n:020d}" for n in random.integers(0, 10**15, rows)])
    stamps = pa.array(random.integers(0, 10**15, rows), pa.timestamp("us"))
    return pa.record_batch(
        [
            random.integers(0, 10**9, rows),
            random.integers(0, 100, rows),
            random.integers(0, 1000, rows).astype("int32"),
            random.integers(0, 10, rows).astype("int32"),
            random.random(rows),
            random.random(rows),
            texts,
            texts,
            stamps,
            stamps,
        ],
        schema=NARROW,
    )


def wide_batch(rows: int, *, seed: int) -> pa.RecordBatch:
    """Return rows of 50 columns."""
    random = np.random.default_rng(seed)
    columns = [
        random.integers(0, 10**6, rows) if field.type == pa.int64() else random.random(rows)
        for field in WIDE
    ]
    return pa.record_batch(columns, schema=WIDE)
