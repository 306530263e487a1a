"""Sessions of browsers: who is logged in, kept on the server's side, bounded and expiring.

A cookie holds a random name and nothing else. Whoever logs in gets a session of a new name, so that
a name from before is worth nothing. Visitors who have not logged in are counted apart: however many
there are, they push out nobody who has.
"""

from base64 import urlsafe_b64encode
from collections import OrderedDict
from dataclasses import dataclass
from hmac import compare_digest
from threading import Lock

from headwater.doors.storage import NOBODY, DoorCaller
from headwater.errors import RequestError
from headwater.runtime.clock import Clock, random_bytes

SESSIONS_MAX = 256
"""Browsers that are logged in; one more ends the session that was used longest ago."""
VISITORS_MAX = 1024
"""Browsers that are not."""
IDLE_S_MAX = 30 * 60.0
AGE_S_MAX = 12 * 60 * 60.0
_NAME_BYTES = 24


class StaleFormError(RequestError):
    """A form was sent without the token of its session."""

    code = -1
    hint = "Load the page again and repeat what you did."


@dataclass(slots=True)
class ConsoleSession:
    """One browser."""

    name: str
    form_token: str
    caller: DoorCaller
    began_s: float
    used_s: float

    @property
    def is_logged_in(self) -> bool:
        """Tell whether somebody logged in."""
        return self.caller.is_somebody

    def check_form(self, token: str) -> None:
        """Refuse what another site had the browser send."""
        if not compare_digest(token.encode(), self.form_token.encode()):
            raise StaleFormError("This form does not belong to your session any more.")


class ConsoleSessions:
    """Keep sessions; may be used by any number of threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._members: OrderedDict[str, ConsoleSession] = OrderedDict()
        self._visitors: OrderedDict[str, ConsoleSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._members) + len(self._visitors)

    def of(self, name: str | None) -> ConsoleSession | None:
        """Return a session that has not expired, and note that it is used."""
        now_s = self._clock.monotonic()
        with self._lock:
            for held in (self._members, self._visitors):
                session = held.get(name or "")
                if session is None:
                    continue
                if now_s - session.used_s > IDLE_S_MAX or now_s - session.began_s > AGE_S_MAX:
                    del held[session.name]
                    return None
                session.used_s = now_s
                held.move_to_end(session.name)
                return session
        return None

    def begin(self, caller: DoorCaller = NOBODY) -> ConsoleSession:
        """Begin a session under a new name."""
        now_s = self._clock.monotonic()
        session = ConsoleSession(random_name(), random_name(), caller, now_s, now_s)
        held, most = (
            (self._members, SESSIONS_MAX) if caller.is_somebody else (self._visitors, VISITORS_MAX)
        )
        with self._lock:
            held[session.name] = session
            while len(held) > most:
                held.popitem(last=False)
        return session

    def end(self, session: ConsoleSession) -> None:
        """Forget a session."""
        with self._lock:
            self._members.pop(session.name, None)
            self._visitors.pop(session.name, None)


def random_name() -> str:
    """Make a name that nobody can guess."""
    return urlsafe_b64encode(random_bytes(_NAME_BYTES)).decode()
