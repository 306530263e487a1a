"""What an attacker would like a process to import and call: it notes that it was."""

CALLS: list[tuple[object, ...]] = []


class Canary:
    """Sing when made, and end the process as `sys.exit` does."""

    def __init__(self, *args: object) -> None:
        CALLS.append(args)
        raise SystemExit(3)
