"""What stands between pyiceberg and a lake table that anybody may have written to.

pyiceberg opens files with the properties of the table on top of those of the catalog, and finds
names for new files by a class that a property may name. Here it opens files with what the process
was told alone, and beside that with what a REST catalog lends; a table that names code, or places
that are not allowed, is refused as it is loaded, before anything of it is used.
"""

from collections.abc import Callable, Mapping
from typing import cast

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog, TableResponse
from pyiceberg.io import FileIO, InputFile, OutputFile, load_file_io
from pyiceberg.table import Table
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from headwater.errors import LakeNotAllowedError
from headwater.lake.allowed import Places, names_code
from headwater.lake.iceberg.options import CODE
from headwater.lake.iceberg.options import PLACES as PLACE_PROPERTIES

Answered = Callable[[Identifier, TableResponse], Table]


def guarded(catalog: Catalog, config: Mapping[str, str]) -> Catalog:
    """Have a catalog check what it loads, also where pyiceberg loads a table by itself."""
    places = Places.of(config)
    is_lending = isinstance(catalog, RestCatalog)
    own = {
        name: value
        for name, value in catalog.properties.items()
        if name in config or not names_code(name)
    }
    # What is on the catalog itself comes before the method of its class.
    load_table, load_io = catalog.load_table, catalog._load_file_io  # noqa: SLF001
    catalog.properties = own

    def checked_table(identifier: str | Identifier) -> Table:
        return _checked(load_table(identifier), config)

    def checked_io(properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        lent = without_code(properties) if is_lending else {}
        inner = load_io(lent, location)
        return GuardedIO(inner, places) if places.roots else inner

    members = vars(catalog)
    members["load_table"] = checked_table
    members["_load_file_io"] = checked_io
    if isinstance(catalog, RestCatalog):
        for name in ("_response_to_table", "_response_to_staged_table"):
            members[name] = _lending_only(cast("Answered", getattr(catalog, name)))
    return catalog


def _lending_only(answered: Answered) -> Answered:
    """Open files with what a REST catalog lends, and not with the properties of the table."""

    def table_of(identifier: Identifier, response: TableResponse) -> Table:
        bare = response.metadata.model_copy(update={"properties": {}})
        table = answered(identifier, response.model_copy(update={"metadata": bare}))
        table.metadata = response.metadata
        return table

    return table_of


def _checked(table: Table, config: Mapping[str, str]) -> Table:
    """Refuse a table that names code to run, or places that are not allowed."""
    name = ".".join(table.name())
    for each in CODE:
        if each in table.properties:
            raise LakeNotAllowedError(
                f"The Iceberg table {name} has the property '{each}', which names code to run:"
                f" {str(table.properties[each])[:200]!r}.",
                hint=f"Remove it: ALTER TABLE … UNSET TBLPROPERTIES ('{each}'), or in pyiceberg"
                f" transaction.remove_properties('{each}'). What this process is to run is set by"
                " its own lake options.",
            )
    places = Places.of(config, location=table.location())
    places.check(table.location(), what=f"The location of the Iceberg table {name}")
    for each in PLACE_PROPERTIES:
        if each in table.properties:
            what = f"The property '{each}' of the Iceberg table {name}"
            places.check(table.properties[each], what=what)
    return table


def without_code(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what others say of reaching files, without what names code."""
    return {name: value for name, value in properties.items() if not names_code(name)}


def opened_io(location: str, config: Mapping[str, str], lent: Mapping[str, str]) -> FileIO:
    """Return what reads and writes files of a table, at places that are allowed."""
    inner = load_file_io({**config, **without_code(lent)}, location)
    return GuardedIO(inner, Places.of(config, location=location))


class GuardedIO(FileIO):
    """Read, write and delete files at places that are allowed, and nowhere else."""

    def __init__(self, inner: FileIO, places: Places) -> None:
        super().__init__(inner.properties)
        self.inner = inner
        self._places = places

    def new_input(self, location: str) -> InputFile:
        """Open a file to be read."""
        return self.inner.new_input(self.check(location))

    def new_output(self, location: str) -> OutputFile:
        """Open a file to be written."""
        return self.inner.new_output(self.check(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file."""
        self.check(location if isinstance(location, str) else location.location)
        self.inner.delete(location)

    def check(self, location: str) -> str:
        """Return a location that may be used, or refuse it."""
        self._places.check(location, what="A file of the Iceberg table")
        return location
