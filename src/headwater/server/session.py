"""What the server remembers of one connection."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Session:
    """Hold the state of one connection while it lives."""

    peer: str
    local_host: str
    local_port: int
    writable: Callable[[], Awaitable[object]]
    # Call it before a request waits for long: see `keep_alive.acknowledge`.
    received: Callable[[], object] = lambda: None
    principal: str | None = None
    # What the principal logged in with, so that a changed password ends the session.
    credential: str = ""
    # Where the client is, without its port.
    address: str = ""
    needs_login: bool = False
    is_logging_in: bool = False
    # A login failed: the connection is closed once the answer is sent.
    is_over: bool = False
    # What it left open when it ended is kept only while nobody needs the room.
    is_closed: bool = False
    # Large answers are read and written one at a time, so that a client holds one at most.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Fetches that are ready to go on and wait for a turn of the loop.
    fetches: deque[asyncio.Future[None]] = field(default_factory=deque)
    # Projections name columns by position, so it matters which schema versions a client has seen.
    schemas_told: dict[int, set[int]] = field(default_factory=dict)

    @property
    def is_stranger(self) -> bool:
        """Tell whether the client still has to log in."""
        return self.needs_login and self.principal is None

    def told(self, table_id: int, schema_id: int) -> None:
        """Remember that the client has seen this schema version."""
        self.schemas_told.setdefault(table_id, set()).add(schema_id)
