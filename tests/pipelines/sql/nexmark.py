"""Rows of Nexmark: a small auction house, the same in every run, as files in the order of time."""

import os
import random
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

START = datetime(2026, 11, 18, 7, 59, 0)
FILES = 3
BIDS = 480
LAST = -1
"""The id of rows that come last, far in the future, so that every window before them ends."""
_STATES = ("OR", "ID", "CA", "WA", "NY")
_CHANNELS = ("apple", "Google", "Facebook", "baidu", "channel-7")
Row = dict[str, object]


def write_rows(folder: Path) -> None:
    """Write persons, auctions and bids, each as a few files in the order of their time."""
    chance = random.Random(7)
    rows = {"person": _persons(chance), "auction": _auctions(chance), "bid": _bids(chance)}
    for table, found in rows.items():
        share = len(found) // FILES + 1
        parts = [found[at : at + share] for at in range(0, len(found), share)]
        for number, part in enumerate([*parts, [_last(found[-1])], [_last(found[-1], days=2)]]):
            _write(folder / table, number, part)
    side = [{"key": each, "value": f"side {each}"} for each in range(40)]
    _write(folder / "side_input", 0, side)


def _write(folder: Path, number: int, rows: list[Row]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}.parquet"
    table = pa.Table.from_pylist(rows)
    fields = [
        field.with_type(pa.timestamp("us")) if pa.types.is_timestamp(field.type) else field
        for field in table.schema
    ]
    pq.write_table(table.cast(pa.schema(fields)), path)
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def _last(row: Row, days: int = 1) -> Row:
    ids = {name: LAST for name in ("id", "auction", "bidder", "seller") if name in row}
    late = START + timedelta(days=days)
    return {**row, **ids, "dateTime": late, **({"expires": late} if "expires" in row else {})}


def _persons(chance: random.Random) -> list[Row]:
    return [
        {
            "id": number,
            "name": f"person {number}",
            "emailAddress": f"p{number}@example.org",
            "creditCard": "0000",
            "city": f"city {number % 5}",
            "state": chance.choice(_STATES),
            "dateTime": START + timedelta(seconds=3 * number, milliseconds=1),
            "extra": "p",
        }
        for number in range(40)
    ]


def _auctions(chance: random.Random) -> list[Row]:
    return [
        {
            "id": number,
            "itemName": f"item {number}",
            "description": f"about {number}",
            "initialBid": 10,
            "reserve": 20,
            "dateTime": START + timedelta(seconds=2 * number, milliseconds=2),
            "expires": START + timedelta(seconds=2 * number + 30),
            "seller": chance.randrange(40),
            "category": 10 + number % 3,
            "extra": "a",
        }
        for number in range(60)
    ]


def _bids(chance: random.Random) -> list[Row]:
    prices = chance.sample(range(1000, 3_000_000), BIDS)
    return [
        {
            "auction": max(0, min(59, number // 8 - chance.randrange(6))),
            "bidder": chance.randrange(25),
            "price": prices[number],
            "channel": chance.choice(_CHANNELS),
            "url": f"https://example.org/a/b/c{number % 4}"
            + ("&channel_id=7" if number % 3 else ""),
            "dateTime": START + timedelta(milliseconds=250 * number + 3),
            "extra": "abcc"[: number % 5],
        }
        for number in range(BIDS)
    ]
