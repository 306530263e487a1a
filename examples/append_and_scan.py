"""Create a table, append rows, read them back: `python append_and_scan.py [HOST:PORT]`.

Without an address everything happens in this process, in a directory that is removed afterwards.
"""

import sys
import tempfile

import pyarrow as pa

import headwater

SCHEMA = pa.schema(
    [
        ("station", pa.string()),
        ("day", pa.int32()),
        ("celsius", pa.float64()),
        ("note", pa.string()),
    ]
)


def readings(station: str, warmth: float, days: range) -> pa.RecordBatch:
    celsius = [warmth + day % 7 / 2 for day in days]
    return pa.record_batch(
        [[station] * len(days), list(days), celsius, ["clear"] * len(days)], schema=SCHEMA
    )


def run(hw: headwater.Client) -> None:
    hw.create_database("weather", exists_ok=True)
    table = hw.create_table("weather.readings", SCHEMA, exists_ok=True)

    for station, warmth in (("Oslo", 4.5), ("Quito", 13.0)):
        receipt = table.append(readings(station, warmth, range(365)))
        print(f"{station}: {receipt.rows} rows are on disk")

    everything = table.scan().to_arrow()
    print(f"{everything.num_rows} rows of {everything.num_columns} columns")
    narrow = table.scan(columns=["station", "celsius"], where=[("day", "<", 90)]).to_arrow()
    means = narrow.group_by("station").aggregate([("celsius", "mean")])
    for row in means.sort_by("station").to_pylist():
        print(f"{row['station']}: {row['celsius_mean']:.2f} °C on average until March")


def main() -> None:
    if len(sys.argv) > 1:
        with headwater.connect(sys.argv[1]) as hw:
            run(hw)
        return
    with tempfile.TemporaryDirectory() as directory, headwater.open(directory) as hw:
        run(hw)


if __name__ == "__main__":
    main()
