"""Files of one bucket written anew: their current rows in fewer files."""

from collections.abc import Mapping, Sequence

from headwater.lake.iceberg.data_files import DataFiles, FileNames, byte_count
from headwater.lake.iceberg.planning import Planned
from headwater.lake.iceberg.reading import read_rows
from headwater.lake.iceberg.results import Written
from headwater.lake.iceberg.tasks import held_from_json, held_to_json
from headwater.lake.iceberg.types import parquet_schema
from headwater.lake.iceberg.values import Place, packed, place_from_json, unpacked
from headwater.lake.spi import Rewrite, WriteResult


def rewrite_of(files: Sequence[Planned], place: Place) -> Rewrite:
    """Return files of one bucket as work that travels."""
    held = [each.held for each in files]
    return Rewrite(
        partition=files[0].partition,
        bucket=files[0].bucket,
        file_count=len(files),
        byte_count=byte_count([each.file for each in held]),
        payload=packed({"place": place.to_json(), "held": held_to_json(held)}),
    )


def rewritten(work: Rewrite, config: Mapping[str, str]) -> WriteResult:
    """Write the current rows of files into others, under the newest columns of the lake."""
    node = unpacked(work.payload)
    place = place_from_json(node.get("place"))
    held = held_from_json(node)
    io = place.io(config)
    # All columns of the Iceberg table, also those that others added to it.
    schema = parquet_schema(place.schema.fields)
    fields = [field.field_id for field in place.schema.fields]
    names = FileNames(place=place, partition=work.partition, bucket=work.bucket)
    files = DataFiles.of(place, names, io=io, schema=schema)
    rows = 0
    try:
        for each in held:
            for batch in read_rows(io, each, schema=schema, fields=fields):
                files.write(batch)
                rows += batch.num_rows
        added = files.finish()
    except BaseException:
        files.abort()
        raise
    return Written(
        added=tuple(added),
        removed=tuple(each.file.file_path for each in held),
        deletes=tuple(sorted({file.file_path for each in held for file in each.deletes})),
    ).to_result(partition=work.partition, bucket=work.bucket, rows=rows)
