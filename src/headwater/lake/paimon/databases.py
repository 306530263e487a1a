"""What drivers of databases raise, of those that pypaimon keeps catalogs with."""

import sys

_DRIVERS = ("sqlite3", "psycopg2", "psycopg", "pymysql", "mysql.connector")


def database_faults(name: str = "Error") -> tuple[type[Exception], ...]:
    """Return the errors of all drivers in use; which these are is known when one is raised."""
    loaded = [sys.modules[driver] for driver in _DRIVERS if driver in sys.modules]
    found = [getattr(module, name, None) for module in loaded]
    return tuple(each for each in found if isinstance(each, type) and issubclass(each, Exception))
