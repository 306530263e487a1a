"""The catalog against plain dictionaries, with reopens in between."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.errors import HeadwaterError
from headwater.model.path import TablePath
from headwater.model.types import IntType
from headwater.server.catalog.alter import AddColumn, DropColumn, SetTableOption
from tests.catalog.samples import log_table, open_catalog
from tests.choices import examples

databases = st.sampled_from(["fluss", "shop"])
paths = st.builds(TablePath, databases, st.sampled_from(["t", "u"]))
days = st.sampled_from(["1", "2", "3"])
PARTITIONS_MAX = 2


class CatalogMachine(RuleBasedStateMachine):
    """Do the same to a catalog and to dictionaries; errors must come at the same steps."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self._catalog = self._open()
        self._databases = {"fluss": ""}
        self._columns: dict[TablePath, list[str]] = {}
        self._versions: dict[TablePath, int] = {}
        self._owners: dict[TablePath, str] = {}
        self._days: dict[TablePath, set[str]] = {}
        self._ids: set[int] = set()
        self._writers: set[int] = set()

    def _open(self):
        return open_catalog(Path(self._directory.name), partition_count_max=PARTITIONS_MAX)

    def teardown(self) -> None:
        self._catalog.close()
        self._directory.cleanup()

    @rule()
    def reopen(self) -> None:
        self._catalog.close()
        self._catalog = self._open()

    @rule(name=databases)
    def create_database(self, name: str) -> None:
        if self._works(lambda: self._catalog.databases.create(name), name not in self._databases):
            self._databases[name] = ""

    @rule(name=databases, comment=st.text(min_size=1))
    def comment_on_database(self, name: str, comment: str) -> None:
        change = lambda: self._catalog.databases.alter(name, comment=comment)  # noqa: E731
        if self._works(change, name in self._databases):
            self._databases[name] = comment

    @rule(name=databases, cascade=st.booleans())
    def drop_database(self, name: str, cascade: bool) -> None:
        inside = [path for path in self._columns if path.database == name]
        works = name in self._databases and (cascade or not inside)
        if self._works(lambda: self._catalog.databases.drop(name, cascade=cascade), works):
            del self._databases[name]
            for path in inside:
                self._forget(path)

    @rule(path=paths)
    def create_table(self, path: TablePath) -> None:
        works = path.database in self._databases and path not in self._columns
        table = log_table(partition_keys=("day",))
        if self._works(lambda: self._catalog.tables.create(path, table), works):
            self._columns[path], self._versions[path] = ["id", "name", "day"], 1
            self._days[path] = set()
            self._note_id(self._catalog.tables.info(path).table_id)

    @rule(path=paths)
    def drop_table(self, path: TablePath) -> None:
        if self._works(lambda: self._catalog.tables.drop(path), path in self._columns):
            self._forget(path)

    @rule(path=paths, name=st.sampled_from("xy"))
    def add_column(self, path: TablePath, name: str) -> None:
        works = path in self._columns and name not in self._columns[path]
        changes = [AddColumn(name=name, type=IntType())]
        if self._works(lambda: self._catalog.tables.alter(path, changes), works):
            self._columns[path].append(name)
            self._versions[path] += 1

    @rule(path=paths, name=st.sampled_from("xy"))
    def drop_column(self, path: TablePath, name: str) -> None:
        works = path in self._columns and name in self._columns[path]
        if self._works(lambda: self._catalog.tables.alter(path, [DropColumn(name)]), works):
            self._columns[path].remove(name)
            self._versions[path] += 1

    @rule(path=paths, owner=st.text())
    def set_owner(self, path: TablePath, owner: str) -> None:
        changes = [SetTableOption("owner", owner)]
        if self._works(lambda: self._catalog.tables.alter(path, changes), path in self._columns):
            self._owners[path] = owner

    @rule(path=paths, day=days)
    def create_partition(self, path: TablePath, day: str) -> None:
        held = self._days.get(path, set())
        works = path in self._columns and day not in held and len(held) < PARTITIONS_MAX
        if self._works(lambda: self._catalog.partitions.create(path, {"day": day}), works):
            held.add(day)
            self._note_id(-self._catalog.partitions.by_name(path, day).partition_id)

    @rule(path=paths, day=days)
    def drop_partition(self, path: TablePath, day: str) -> None:
        works = day in self._days.get(path, set())
        if self._works(lambda: self._catalog.partitions.drop(path, {"day": day}), works):
            self._days[path].remove(day)

    @rule()
    def take_writer_id(self) -> None:
        writer_id = self._catalog.next_writer_id("")
        assert writer_id not in self._writers
        self._writers.add(writer_id)

    @invariant()
    def databases_and_tables_are_the_same(self) -> None:
        assert self._catalog.databases.list() == tuple(sorted(self._databases))
        assert [table.path for table in self._catalog.tables.all()] == sorted(self._columns)
        for name, comment in self._databases.items():
            assert (self._catalog.databases.info(name).comment or "") == comment

    @invariant()
    def every_table_is_the_same(self) -> None:
        for path, columns in self._columns.items():
            table = self._catalog.tables.info(path)
            versions = self._catalog.tables.schemas(table.table_id)
            assert table.descriptor.schema.names == tuple(columns)
            assert table.schema_id == self._versions[path] == max(versions) == len(versions)
            assert versions[table.schema_id] == table.descriptor.schema
            assert table.descriptor.custom_properties.get("owner") == self._owners.get(path)
            held = {partition.name for partition in self._catalog.partitions.list(path)}
            assert held == self._days[path]

    def _works(self, change, expected: bool) -> bool:
        try:
            change()
        except HeadwaterError:
            assert not expected
            return False
        assert expected
        return True

    def _note_id(self, number: int) -> None:
        assert number not in self._ids
        self._ids.add(number)

    def _forget(self, path: TablePath) -> None:
        self._owners.pop(path, None)
        del self._columns[path], self._versions[path], self._days[path]


CatalogMachine.TestCase.settings = settings(
    max_examples=examples(40), stateful_step_count=40, deadline=None
)
TestCatalogMachine = CatalogMachine.TestCase
