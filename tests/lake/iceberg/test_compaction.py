"""Which files are worth writing anew."""

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from headwater.lake.iceberg.files import PATH_FIELD_ID, HeldFile
from headwater.lake.iceberg.plan import PlannedFile
from headwater.lake.iceberg.upkeep import CompactionSettings, worth_rewriting

SETTINGS = CompactionSettings.of({"write.target-file-size-bytes": "1000"})


def file_of(path: str, size: int, *, rows: int = 100, about: str | None = None) -> DataFile:
    bounds = {} if about is None else {PATH_FIELD_ID: about.encode()}
    file = DataFile.from_args(
        content=DataFileContent.DATA if about is None else DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=size,
        lower_bounds=bounds,
        upper_bounds=bounds,
    )
    file.spec_id = 0
    return file


def planned(path: str, size: int, *, deleted: int = 0, bucket: int = 0) -> PlannedFile:
    deletes = (file_of(f"{path}-d", 1, rows=deleted, about=path),) if deleted else ()
    held = HeldFile(file_of(path, size), deletes)
    return PlannedFile(held=held, partition=(), bucket=bucket)


def chosen(*files: PlannedFile) -> list[list[str]]:
    groups = worth_rewriting(files, SETTINGS)
    return [[each.held.file.file_path for each in group] for group in groups]


def test_a_few_small_files_stay():
    assert chosen(*(planned(str(at), 10) for at in range(4))) == []


def test_many_small_files_become_one():
    assert chosen(*(planned(str(at), 10) for at in range(5))) == [["0", "1", "2", "3", "4"]]


def test_large_files_stay_beside_small_ones():
    small = [planned(str(at), 10) for at in range(5)]

    assert chosen(planned("large", 900), *small) == [["0", "1", "2", "3", "4"]]


def test_groups_are_about_as_large_as_a_file():
    assert chosen(*(planned(str(at), 400) for at in range(6))) == [
        ["0", "1"],
        ["2", "3"],
        ["4", "5"],
    ]


def test_small_files_of_several_buckets_are_not_mixed():
    files = [planned(f"{bucket}-{at}", 10, bucket=bucket) for bucket in (0, 1) for at in range(5)]

    assert [len(group) for group in chosen(*files)] == [5, 5]


def test_a_file_of_which_many_rows_are_gone_is_written_anew():
    assert chosen(planned("worn", 900, deleted=11), planned("fine", 900, deleted=10)) == [["worn"]]
