"""What Apache Fluss's documentation says about permissions, written down apart from the code.

Entries are tuples of texts (principal, operation, resource, host), and a resource is "cluster", a
database "shop", or a table "shop.orders". Nothing here is imported from Headwater.
"""

Entry = tuple[str, str, str, str]

# Call: operation, and what it is needed on. "any" is whatever resource.
CALLS = {
    "API_VERSIONS": None,
    "AUTHENTICATE": None,
    "CREATE_DATABASE": ("CREATE", "cluster"),
    "DROP_DATABASE": ("DROP", "database"),
    "ALTER_DATABASE": ("ALTER", "database"),
    "GET_DATABASE_INFO": ("DESCRIBE", "database"),
    # Fluss asks for the database itself; in Headwater one of its tables is enough.
    "LIST_DATABASES": ("DESCRIBE", "within"),
    "DATABASE_EXISTS": ("DESCRIBE", "within"),
    "CREATE_TABLE": ("CREATE", "database"),
    "DROP_TABLE": ("DROP", "table"),
    "ALTER_TABLE": ("ALTER", "table"),
    "GET_TABLE_INFO": ("DESCRIBE", "table"),
    "GET_TABLE_SCHEMA": ("DESCRIBE", "table"),
    "TABLE_EXISTS": ("DESCRIBE", "table"),
    "LIST_TABLES": ("DESCRIBE", "table"),
    "LIST_PARTITION_INFOS": ("DESCRIBE", "table"),
    "GET_METADATA": ("DESCRIBE", "table"),
    "GET_LATEST_KV_SNAPSHOTS": ("DESCRIBE", "table"),
    "GET_LAKE_SNAPSHOT": ("DESCRIBE", "table"),
    "PRODUCE_LOG": ("WRITE", "table"),
    "FETCH_LOG": ("READ", "table"),
    "PUT_KV": ("WRITE", "table"),
    "LOOKUP": ("READ", "table"),
    "PREFIX_LOOKUP": ("READ", "table"),
    "LIMIT_SCAN": ("READ", "table"),
    "SCAN_KV": ("READ", "table"),
    "GET_TABLE_STATS": ("READ", "table"),
    "LIST_OFFSETS": ("DESCRIBE", "table"),
    "INIT_WRITER": ("WRITE", "table"),
    "CREATE_PARTITION": ("WRITE", "table"),
    "DROP_PARTITION": ("WRITE", "table"),
    "CREATE_ACLS": ("ALL", "database"),
    "DROP_ACLS": ("ALL", "database"),
    "LIST_ACLS": ("DESCRIBE", "table"),
    "GET_KV_SNAPSHOT_METADATA": ("DESCRIBE", "table"),
    "LIST_KV_SNAPSHOTS": ("DESCRIBE", "table"),
    "LIST_REMOTE_LOG_MANIFESTS": ("DESCRIBE", "table"),
    "ACQUIRE_KV_SNAPSHOT_LEASE": ("READ", "table"),
    "RELEASE_KV_SNAPSHOT_LEASE": ("READ", "table"),
    # On the tables of the lease, which has none in Headwater.
    "DROP_KV_SNAPSHOT_LEASE": None,
    "REGISTER_PRODUCER_OFFSETS": ("WRITE", "table"),
    "GET_PRODUCER_OFFSETS": ("READ", "table"),
    "DELETE_PRODUCER_OFFSETS": ("WRITE", "table"),
    "DESCRIBE_CLUSTER_CONFIGS": ("DESCRIBE", "cluster"),
    "ALTER_CLUSTER_CONFIGS": ("ALTER", "cluster"),
    "GET_CLUSTER_HEALTH": ("DESCRIBE", "cluster"),
    # Fluss asks for nothing here; Headwater does.
    "GET_FILESYSTEM_SECURITY_TOKEN": ("READ", "any"),
    "PREPARE_LAKE_TABLE_SNAPSHOT": ("WRITE", "table"),
    "COMMIT_LAKE_TABLE_SNAPSHOT": ("WRITE", "table"),
    "LAKE_TIERING_HEARTBEAT": ("WRITE", "table"),
}

OPERATIONS = ["ALL", "READ", "WRITE", "CREATE", "DROP", "ALTER", "DESCRIBE"]


def may(entries: list[Entry], principals: list[str], host: str, operation: str, on: str) -> bool:
    """Try every entry against the question, one after the other."""
    return any(
        (principal == "*:*" or principal in principals)
        and entry_host in ("*", host)
        and _covers(granted, operation)
        and _contains(place, on)
        for principal, granted, place, entry_host in entries
    )


def may_call(entries: list[Entry], principals: list[str], host: str, call: str, table: str) -> bool:
    """Tell whether somebody may make a call about a table, or about its database."""
    need = CALLS[call]
    if need is None:
        return True
    operation, level = need
    if level == "any":
        places = {place for _, _, place, _ in entries}
        return any(may(entries, principals, host, operation, place) for place in places)
    if level == "within":
        database = table.split(".", maxsplit=1)[0]
        places = {place for _, _, place, _ in entries if place.startswith(f"{database}.")}
        asked = [database, f"{database}.whatever", *places]
        return any(may(entries, principals, host, operation, place) for place in asked)
    on = {"cluster": "cluster", "database": table.split(".", maxsplit=1)[0], "table": table}[level]
    return may(entries, principals, host, operation, on)


def _covers(granted: str, asked: str) -> bool:
    if granted == "ALL":
        return True
    return asked in (granted, "DESCRIBE")


def _contains(place: str, on: str) -> bool:
    if place in ("cluster", on):
        return True
    if place == "*.*":
        return "." in on
    if place == "*":
        return "." not in on and on != "cluster"
    return "." in on and place == on.split(".", maxsplit=1)[0]
