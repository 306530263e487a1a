"""Names for tests: what a script declares, without any storage behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.pipelines.sql.names import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    Ability,
    DeclaredTable,
    DeclaredView,
    TableName,
    qualified,
)
from headwater.pipelines.sql.parse import parse
from headwater.pipelines.sql.statements import CreateTable, CreateView, SetSetting

LOG = frozenset({Ability.BATCH_READ, Ability.STREAM_READ, Ability.APPEND})
KEYED = frozenset({*LOG, Ability.UPSERT, Ability.LOOKUP, Ability.VERSIONS, Ability.OVERWRITE})
ABILITIES: Mapping[str, frozenset[Ability]] = {
    "datagen": frozenset({Ability.STREAM_READ}),
    "print": frozenset({Ability.APPEND, Ability.PRINT_CHANGES}),
    "blackhole": frozenset({Ability.APPEND, Ability.PRINT_CHANGES}),
    "filesystem": frozenset({Ability.BATCH_READ, Ability.APPEND, Ability.OVERWRITE}),
}
HINTS = frozenset({"scan.startup.mode", "scan.startup.timestamp", "scan.snapshot-id"})


@dataclass
class ScriptNames:
    """What the CREATE and SET statements of a script say."""

    catalog: str = DEFAULT_CATALOG
    database: str = DEFAULT_DATABASE
    settings: dict[str, str] = field(default_factory=dict)
    found: dict[TableName, DeclaredTable | DeclaredView] = field(default_factory=dict)

    def find(self, name: TableName) -> DeclaredTable | DeclaredView | None:
        return self.found.get(name)

    def near(self, name: TableName) -> Sequence[str]:
        return [each.table for each in self.found]

    def setting(self, key: str) -> str | None:
        return self.settings.get(key)

    def run(self, script: str) -> "ScriptNames":
        """Take over what a script declares."""
        for statement in parse(script):
            if isinstance(statement, SetSetting):
                self.settings[statement.key] = statement.value
            elif isinstance(statement, CreateTable):
                self.declare(statement)
            elif isinstance(statement, CreateView):
                name = qualified(statement.name, catalog=self.catalog, database=self.database)
                query = statement.query.source.text
                self.found[name] = DeclaredView(name=name, query=query, columns=statement.columns)
        return self

    def declare(self, statement: CreateTable) -> None:
        made = statement.definition
        name = qualified(statement.name, catalog=self.catalog, database=self.database)
        connector = made.options.get("connector", "fluss")
        able = ABILITIES.get(connector) or (KEYED if made.key else LOG)
        prefix = made.distribution.columns if made.distribution is not None else ()
        self.found[name] = DeclaredTable(
            name=name,
            columns=made.columns,
            key=made.key,
            lookup_keys=(prefix,) if prefix and prefix != made.key else (),
            watermark=made.watermark,
            connector=connector,
            options=made.options,
            hint_options=HINTS if connector == "fluss" else None,
            partitioned_by=made.partitioned_by,
            abilities=able,
            is_updating=bool(made.key) and made.options.get("table.merge-engine") != "first_row",
        )
