"""Lake and log as one table, at one position: `python union_read.py [HOST:PORT]`.

Without an address everything happens in this process, in a directory that is removed afterwards.
It needs a lake format: `pip install 'headwater[iceberg]'`.
"""

import subprocess
import sys
import tempfile

import headwater

WITH_LAKE = {"table.datalake.enabled": True}


def run(hw: headwater.Client) -> None:
    hw.create_database("warehouse")
    stock = hw.create_table(
        "warehouse.stock",
        {"item": "STRING", "pieces": "INT"},
        primary_key="item",
        options=WITH_LAKE,
    )
    stock.upsert([("tea", 9), ("cup", 3), ("pot", 1)])
    tier(hw)

    # From here on rows differ between lake and log; a scan sees what is true now.
    stock.upsert([("tea", 8), ("jug", 4)])
    stock.delete("cup")
    show("lake and log", stock.scan())
    show("the lake alone", stock.scan(mode="lake"))
    for split in stock.view().plan().splits:
        files = 0 if split.lake is None else len(split.lake.files)
        offsets = 0 if split.log is None else split.log.end - split.log.start
        print(f"bucket {split.bucket} is {split.tier}: {files} file and {offsets} offsets")

    # A token pins the rows of this moment, whatever is written and tiered later.
    token = stock.view().token()
    stock.upsert([("tea", 0)])
    tier(hw)
    show("now", stock.scan())
    show("at the token", stock.scan(token=token))


def tier(hw: headwater.Client) -> None:
    """Copy what is new into the lake; `headwater tier` would do so all the time."""
    command = ["tier", "warehouse.stock", "--here", "--once", "--at", str(hw.address)]
    subprocess.run([sys.executable, "-m", "headwater", *command], check=True, capture_output=True)


def show(what: str, scan: headwater.Scan) -> None:
    rows = scan.to_arrow().sort_by("item").to_pylist()
    print(f"{what:<15}", ", ".join(f"{row['pieces']} {row['item']}" for row in rows))


def main() -> None:
    if len(sys.argv) > 1:
        with headwater.connect(sys.argv[1]) as hw:
            run(hw)
        return
    # The tierer is another process, and for its sake alone the storage listens on a port.
    with tempfile.TemporaryDirectory() as directory, headwater.open(directory, listen=True) as hw:
        run(hw)


if __name__ == "__main__":
    main()
