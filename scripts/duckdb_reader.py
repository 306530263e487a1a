"""DuckDB and its Iceberg extension, asked line by line; see `foreign`."""

import importlib
from pathlib import Path

import pyarrow as pa

from scripts.foreign import Answer, serve

EXTENSIONS = ("avro", "iceberg")


def main() -> None:
    duckdb = importlib.import_module("duckdb")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in EXTENSIONS:
        package = importlib.import_module(f"duckdb_extension_{name}")
        folder = Path(next(iter(package.__path__))) / "extensions"
        (file,) = folder.rglob(f"{name}.duckdb_extension")
        connection.load_extension(str(file))
    connection.execute("SET TimeZone = 'UTC'")

    def rows(sql: str, out: str) -> Answer:
        """Write the rows of a query into a file."""
        found = connection.sql(sql).to_arrow_table()
        with pa.ipc.new_file(out, found.schema) as writer:
            writer.write_table(found)
        return {"rows": found.num_rows}

    serve({"rows": rows})


if __name__ == "__main__":
    main()
