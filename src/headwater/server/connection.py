"""One client connection: frames in, answers out, and limits on both sides."""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, cast

from headwater.config.server import ServerSettings
from headwater.errors import HeadwaterError, RequestError
from headwater.runtime.clock import Clock
from headwater.runtime.tasks import Tasks
from headwater.runtime.tls import name_asked
from headwater.server.logins import network_of
from headwater.server.memory import Budget
from headwater.server.quotas import ANONYMOUS, Meter, Quotas
from headwater.server.security.door import Guest
from headwater.server.security.tls import identity_of
from headwater.wire.apis import ApiKey
from headwater.wire.frames import (
    FrameAssembler,
    RequestFrame,
    ResponseKind,
    request_frame,
    response_head,
)
from headwater.wire.sasl import Challenge

# What the server remembers of one connection.


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
    # From the client's certificate or token.
    groups: tuple[str, ...] = ()
    # What the principal logged in with, so that a changed password ends the session.
    credential: str = ""
    # When what the principal logged in with ends; None if it does not.
    expires_ms: int | None = None
    # Where the client is, without its port.
    address: str = ""
    is_encrypted: bool = False
    # What the client has to answer next, inside a login with several steps.
    challenge: Challenge | None = None
    login_steps: int = 0
    is_internal: bool = False  # in the process of the storage itself
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
    # Measures the connection against the limits of its user; none where nothing is limited.
    meter: Meter | None = None
    # Projections name columns by position, so it matters which schema versions a client has seen.
    schemas_told: dict[int, set[int]] = field(default_factory=dict)
    # What the authorizer decided by table id and operation, and the state that it decided in.
    decisions: dict[tuple[int, int], bool] = field(default_factory=dict)
    decided_for: tuple[int, str | None, tuple[str, ...]] | None = None

    @property
    def is_stranger(self) -> bool:
        """Tell whether the client still has to log in."""
        return self.needs_login and self.principal is None

    def told(self, table_id: int, schema_id: int) -> None:
        """Remember that the client has seen this schema version."""
        self.schemas_told.setdefault(table_id, set()).add(schema_id)


# What the kernel tells clients, and asks them: those that are gone without a word are noticed.

IDLE_S = 60
PROBE_S = 15
PROBES = 4
# Also where answers wait to be taken, when the kernel sends no probes.
UNTAKEN_MS = 1000 * (IDLE_S + PROBE_S * PROBES)


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel ask a silent client whether it is there, and end the connection if not."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {
        "TCP_KEEPIDLE": IDLE_S,
        "TCP_KEEPALIVE": IDLE_S,  # what macOS calls the same
        "TCP_KEEPINTVL": PROBE_S,
        "TCP_KEEPCNT": PROBES,
        "TCP_USER_TIMEOUT": UNTAKEN_MS,
    }
    for name, value in wanted.items():
        # Not every system has a name for each of them.
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def acknowledge(connection: socket.socket) -> None:
    """Let the kernel tell a client at once that all it sent has come.

    Otherwise it waits some 40 ms for an answer to send along. A client whose own kernel joins small
    packets (Nagle's algorithm) holds back its next request until then.
    """
    option = getattr(socket, "TCP_QUICKACK", None)  # Linux has it
    if option is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    descriptor = connection.fileno()
    if descriptor < 0:  # it is gone
        return
    with suppress(OSError):
        # What a transport gives out as its socket may copy the descriptor for every call.
        borrowed = socket.socket(connection.family, connection.type, 0, descriptor)
        try:
            borrowed.setsockopt(socket.IPPROTO_TCP, option, 1)
        finally:
            borrowed.detach()


# One client connection: frames in, answers out, and limits on both sides.

# A client that has more than this to read is stuck: its next large answer waits.
UNSENT_BYTES_HIGH = 1024 * 1024
FLUSH_WITHIN_S = 2.0
# A client that sends thousands of requests at once shares each turn of the loop with the others: a
# few lookups, and one of what may be a batch.
REQUESTS_PER_TURN = 32
BATCHES_PER_TURN = 1
# Before login: room for versions, a mechanism and a token, which may be large, and for no more.
LOGIN_FRAME_BYTES_MAX = 16 * 1024
LOGIN_REQUESTS_MAX = 8
# A frame that holds room while others wait for it has to come on.
PACE_LOOK_S = 1.0
PACE_GRACE_S = 2.0
# A clock may be set meanwhile, so the end of a session is looked at from time to time.
EXPIRY_LOOK_S = 60.0
# A fatal alert: the version of the protocol is not supported.
TLS_ALERT = bytes.fromhex("15030100020246")
SPEAKS_TLS = (
    "the client speaks TLS, and this port does not: use the TLS port, or start the server with "
    "--tls-certificate"
)

Part = bytes | memoryview
Answer = tuple[ResponseKind, list[Part]]
Serve = Callable[[RequestFrame, Session], Coroutine[object, object, Answer]]
# Answers what takes no waiting; None leaves a request to a task.
ServeNow = Callable[[RequestFrame, Session], Answer | None]

# One small write costs less than a vector of smaller ones.
JOIN_BYTES_MAX = 16 * 1024


class Registry(Protocol):
    """Know the connections that are open."""

    def opened(self, connection: "Connection") -> None:
        """Take note of a new connection, or close it if there are too many."""
        ...

    def closed(self, connection: "Connection") -> None:
        """Take note of a connection that has ended."""
        ...

    def logged_in(self, connection: "Connection") -> None:
        """Take note of a login, or close the connection if there are too many."""
        ...

    def dropped(self, connection: "Connection", reason: str) -> None:
        """Take note that a connection is closed by force."""
        ...

    def unsent_grew(self) -> None:
        """Take note that answers pile up that a client does not read."""
        ...


class Connection(asyncio.BufferedProtocol):
    """Assemble requests, run each in its own task, write answers as they come.

    Requests begin in the order in which they came, a few in each turn of the loop and no more than
    may be under way at a time; none begins while the client does not read its answers. While some
    wait, the socket is not read, so a client gets no further ahead than one buffer of requests.
    """

    guest: Guest | None = None
    """The client as it waited at the door, if it came with TLS."""
    _expiry: asyncio.TimerHandle | None = None
    _expires_ms: int | None = None

    def __init__(  # noqa: PLR0913 - one argument per part
        self,
        serve: Serve,
        registry: Registry,
        *,
        requests: Budget,
        settings: ServerSettings,
        clock: Clock,
        logins: Budget | None = None,
        serve_now: ServeNow = lambda _frame, _session: None,
        quotas: Quotas | None = None,
    ) -> None:
        self._serve = serve
        self._serve_now = serve_now
        self._registry = registry
        self._quotas = quotas
        self._meter: Meter | None = None
        # Waits for bytes per second to come down again; not requests.
        self._pauses = Tasks()
        self._may_read = self._may_begin = True
        self._requests = requests
        # What is held for a client that has yet to log in; none where nobody has to.
        self._logins = logins or requests
        needs_login = logins is not None
        self._settings = settings
        self._clock = clock
        self._assembler = FrameAssembler(
            frame_bytes_max=LOGIN_FRAME_BYTES_MAX if needs_login else settings.request_bytes_max
        )
        self._tasks = Tasks()
        self._waiting: deque[tuple[RequestFrame, Budget]] = deque()
        self._is_turn_planned = False
        self._held_bytes = 0
        self._reading_paused = False
        self._is_finishing = False
        self._lost = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._deadline: asyncio.TimerHandle | None = None
        self._frame_began = 0.0
        self._login_deadline: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        # Not a method of ours: a reference cycle would keep ended connections for the collector.
        self.session = Session("?", "", 0, self._writable.wait, needs_login=needs_login)
        self.has_asked = False
        """Whether anything whole has come from the client."""
        self.stuck_since: float | None = None

    # ---- life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve a client."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(
            high=min(UNSENT_BYTES_HIGH, self._settings.response_bytes_max)
        )
        if (opened := transport.get_extra_info("socket")) is not None:
            keep_alive(opened)
            self.session.received = partial(acknowledge, opened)
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self.session.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        self.session.address = peer[0] if peer else "?"
        if local:
            self.session.local_host, self.session.local_port = local[0], local[1]
        self._take_certificate(transport.get_extra_info("ssl_object"))
        if self.session.is_stranger:
            loop = asyncio.get_running_loop()
            self._login_deadline = loop.call_later(
                self._settings.login_timeout_s, self._login_is_late
            )
        self._follow_quota()
        self._registry.opened(self)

    def _take_certificate(self, secured: ssl.SSLObject | None) -> None:
        """Take the principal from the client's certificate, which the handshake has checked."""
        if secured is None:
            return
        self.session.is_encrypted = True
        # A client checks the name of the server, so it is sent to the one that it asked for.
        self.session.local_host = name_asked(secured) or self.session.local_host
        if not self.session.needs_login:
            return
        found = identity_of(secured.getpeercert(), kind=self._settings.tls_principal)
        if found is not None:
            self.session.principal, self.session.groups = found.principal, found.groups
            self.session.expires_ms = found.expires_ms
            self._assembler.frame_bytes_max = self._settings.request_bytes_max
            self._watch_expiry()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's shape
        """Drop what is still in flight for a client that has gone."""
        self._watch_frame(inside=False)
        self._stop_login_watch()
        if self._expiry is not None:
            self._expiry.cancel()
        self._requests.forget(self._room_granted)
        if self._assembler.receiving_bytes:
            self._requests.give(self._assembler.receiving_bytes)
        self._writable.set()
        self.session.is_closed = True
        self._registry.closed(self)
        self._tasks.cancel()
        self._leave_quota()
        for frame, budget in self._waiting:
            budget.give(frame.size)
        self._waiting.clear()
        self._lost.set()

    async def finish(self, *, within_s: float) -> None:
        """Read no more, answer what was asked, and close, even on a client that does not read."""
        self._is_finishing = True
        self._begin(len(self._waiting), batches=len(self._waiting))
        self._read_or_wait()
        await self._tasks.finish(within_s=within_s)
        if self._transport is None:
            return
        self._transport.close()
        try:
            async with asyncio.timeout(FLUSH_WITHIN_S):
                await self._lost.wait()
        except TimeoutError:
            self.abort("the client did not read its last answers")
            await self._lost.wait()

    @property
    def network(self) -> str:
        """The address of the client, or its network."""
        return network_of(self.session.address)

    def turn_away(self, reason: str) -> None:
        """Close the connection of a stranger for whom there is no room."""
        self.abort(reason)

    def abort(self, reason: str) -> None:
        """Close at once and say why in the log."""
        self._registry.dropped(self, reason)
        if self._transport is not None:
            self._transport.abort()

    # ---- reading

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's shape
        """Return where the next bytes go."""
        return self._assembler.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Serve the frames that are whole now."""
        if self._meter is not None:
            self._meter.received(nbytes)
        try:
            frames = self._assembler.filled(nbytes)
            if len(frames) == 1 and self._answered_alone(frames[0]):
                return
            for frame in frames:
                self._take(request_frame(frame))
        except HeadwaterError as fault:
            self._refuse(fault)
            return
        if frames:  # What is inside now is another frame, with a time of its own.
            self._watch_frame(inside=False)
            self._begin_some()
        self._watch_frame(inside=self._assembler.is_inside_frame)
        if self._meter is not None:
            self._follow_rate()
        if self._assembler.wanted_bytes and self._may_read:
            self._ask_for_room()
        self._read_or_wait()

    def _refuse(self, fault: HeadwaterError) -> None:
        """Close on bytes that are no frame; a client that speaks TLS is told in its language."""
        if self.has_asked or not self._assembler.is_tls or self._transport is None:
            self.abort(str(fault))
            return
        self._registry.dropped(self, SPEAKS_TLS)
        self._transport.write(TLS_ALERT)
        self._transport.close()

    def eof_received(self) -> bool:
        """Close once the client has said its last word."""
        return False

    def _ask_for_room(self) -> None:
        wanted = self._assembler.wanted_bytes
        if self._requests.take(wanted):
            self._assembler.make_room()
        else:
            self._requests.take_later(wanted, self._room_granted)

    def _room_granted(self) -> None:
        self._assembler.make_room()
        self._read_or_wait()

    def _watch_frame(self, *, inside: bool) -> None:
        if inside and self._deadline is None:
            self._frame_began = asyncio.get_running_loop().time()
            self._look_at_frame_later()
        elif not inside and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _look_at_frame_later(self) -> None:
        look_s = min(PACE_LOOK_S, self._settings.frame_timeout_s)
        self._deadline = asyncio.get_running_loop().call_later(look_s, self._look_at_frame)

    def _look_at_frame(self) -> None:
        """Drop a client that does not finish its frame, sooner if others wait for its room."""
        self._deadline = None
        if self._reading_paused:  # The wait was ours, not the client's.
            self._watch_frame(inside=True)
            return
        passed_s = asyncio.get_running_loop().time() - self._frame_began
        timeout_s = self._settings.frame_timeout_s
        expected = self._assembler.receiving_bytes * (passed_s - PACE_GRACE_S) / timeout_s
        if passed_s >= timeout_s:
            self.abort(f"a frame was not complete after {timeout_s} s")
        elif self._requests.is_contended and self._assembler.received_bytes < expected:
            self.abort("a frame comes too slowly while others wait for its room")
        else:
            self._look_at_frame_later()

    # ---- login

    def _login_is_late(self) -> None:
        self._login_deadline = None
        self.abort(f"nobody logged in within {self._settings.login_timeout_s:g} s")

    def _stop_login_watch(self) -> None:
        if self._login_deadline is not None:
            self._login_deadline.cancel()
            self._login_deadline = None

    def _follow_login(self) -> None:
        """Give a client that logged in its room."""
        self._follow_quota()
        if self._login_deadline is not None and not self.session.is_stranger:
            self._stop_login_watch()
            self._assembler.frame_bytes_max = self._settings.request_bytes_max
            self._registry.logged_in(self)
        if self.session.expires_ms != self._expires_ms:
            self._watch_expiry()

    def _watch_expiry(self) -> None:
        """End the session when the token or certificate does that the client logged in with."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._expires_ms = ends_ms = self.session.expires_ms
        if ends_ms is not None:
            left_s = min((ends_ms - self._clock.now_ms()) / 1000, EXPIRY_LOOK_S)
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(max(left_s, 0.0), self._look_at_expiry)

    def _look_at_expiry(self) -> None:
        self._expiry = None
        ends_ms = self.session.expires_ms
        if ends_ms is not None and self._clock.now_ms() >= ends_ms:
            self.abort(f"what {self.session.principal} logged in with has expired")
        else:
            self._watch_expiry()

    # ---- limits of the user

    def _follow_quota(self) -> None:
        """Count the connection for its user, once it is known who that is."""
        user = self.session.principal or ANONYMOUS
        if self._quotas is None or self.session.is_stranger:
            return
        if self._meter is None or self._meter.account.user != user:
            self._leave_quota()
            self._may_read = self._may_begin = True
            self._meter = self.session.meter = self._quotas.open(user)

    def _leave_quota(self) -> None:
        self._pauses.cancel()
        if self._quotas is not None and self._meter is not None:
            self._quotas.close(self._meter, self._next_turn)
            self._meter = None

    def _follow_rate(self) -> None:
        meter = self._meter
        # A large frame is read to its end, because it holds memory that others wait for.
        if meter is None or not self._may_read or self._assembler.receiving_bytes:
            return
        if meter.wait_to_read()[0]:
            self._may_read = False
            self._pauses.start(self._read_again(meter), name="read again")

    async def _read_again(self, meter: Meter) -> None:
        await self._paid(meter, meter.wait_to_read)
        self._may_read = True
        if self._assembler.wanted_bytes:
            self._ask_for_room()
        self._read_or_wait()

    async def _begin_again(self, meter: Meter) -> None:
        await self._paid(meter, meter.wait_to_begin)
        self._may_begin = True
        self._next_turn()

    async def _paid(self, meter: Meter, wait: Callable[[], tuple[float, str]]) -> None:
        # Others of the same user may take what was paid, so it may take several waits.
        while (owed := wait())[0]:
            before = self._clock.monotonic()
            await self._clock.sleep(owed[0])
            meter.throttled(owed[1], self._clock.monotonic() - before)

    def _room_of(self, meter: Meter) -> int:
        """Return how many requests the user's limits let begin; plan to look again if none."""
        if self._may_begin and meter.wait_to_begin()[0]:
            self._may_begin = False
            self._pauses.start(self._begin_again(meter), name="begin again")
        if not self._may_begin:
            return 0
        if not meter.room and self._waiting:
            meter.account.waiting[self._next_turn] = None
        return meter.room

    def _may_serve_now(self) -> bool:
        meter = self._meter
        return meter is None or (
            self._may_begin and not meter.is_refusing and not meter.wait_to_begin()[0]
        )

    # ---- serving

    def _take(self, frame: RequestFrame) -> None:
        self.has_asked = True
        if self.session.is_stranger and self._under_way >= LOGIN_REQUESTS_MAX:
            raise RequestError(f"More than {LOGIN_REQUESTS_MAX} requests at a time before a login.")
        budget = self._logins if self.session.is_stranger else self._requests
        if not frame.is_large:
            budget.charge(frame.size)
        self._held_bytes += frame.size
        self._waiting.append((frame, budget))

    def _answered_alone(self, data: memoryview) -> bool:
        """Answer a lone request that takes no waiting; tell whether that was possible.

        It needs no room of its own, because it is answered before anything else can ask for some.
        """
        if (
            self._waiting
            or self._is_turn_planned
            or self._is_finishing
            or self._deadline is not None
            or self._assembler.is_inside_frame
            or self.session.is_stranger
            or not self._writable.is_set()
            or self._tasks
            or (self._meter is not None and not self._may_serve_now())
        ):
            return False
        frame = request_frame(data)
        answer = self._serve_now(frame, self.session)
        if answer is None:
            return False
        self.has_asked = True
        self._write(frame.request_id, *answer)
        if self._meter is not None:
            self._follow_rate()
            self._read_or_wait()
        return True

    def _begin_some(self) -> None:
        """Begin as many requests as this turn of the loop and the limit allow."""
        if self._is_turn_planned:
            return
        self._begin(min(REQUESTS_PER_TURN, self._room), batches=BATCHES_PER_TURN)
        self._plan_turn()

    def _begin(self, count: int, *, batches: int) -> None:
        for _ in range(min(count, len(self._waiting))):
            if self._waiting[0][0].api_key != ApiKey.LOOKUP:
                if not batches:
                    return
                batches -= 1
            frame, budget = self._waiting.popleft()
            # Lookups may overtake what is under way; writes keep their order.
            may_go = frame.api_key == ApiKey.LOOKUP or not self._tasks
            if self._meter is not None:
                may_go = may_go and self._may_serve_now()
            answer = self._serve_now(frame, self.session) if may_go else None
            if answer is not None:
                self._write(frame.request_id, *answer)
                self._held_bytes -= frame.size
                budget.give(frame.size)
                continue
            if self._meter is not None:
                self._meter.began()
            task = self._tasks.start(self._answer(frame), name=f"request {frame.api_key}")
            if self._meter is not None:
                task.add_done_callback(partial(_ended, self._meter))
            # Not in the task itself: one that is cancelled before its first step runs no `finally`.
            task.add_done_callback(partial(self._answered, budget, frame.size))

    def _plan_turn(self) -> None:
        if self._waiting and self._room and not self._is_turn_planned:
            self._is_turn_planned = True
            # Two turns ahead: what arrives now is read in the next one, and goes first.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._next_turn)

    def _next_turn(self) -> None:
        self._is_turn_planned = False
        self._begin_some()
        self._read_or_wait()

    @property
    def _under_way(self) -> int:
        return len(self._tasks) + len(self._waiting)

    @property
    def _room(self) -> int:
        """Return how many more requests may begin; none while the client does not read."""
        if not self._writable.is_set():
            return 0
        room = max(self._settings.connection_requests_max - len(self._tasks), 0)
        return room if self._meter is None else min(room, self._room_of(self._meter))

    async def _answer(self, frame: RequestFrame) -> None:
        kind, parts = await self._serve(frame, self.session)
        self._follow_login()
        self._write(frame.request_id, kind, parts)
        if self.session.is_over and self._transport is not None:
            self._transport.close()

    def _answered(self, budget: Budget, size: int, _: "asyncio.Task[None]") -> None:
        self._held_bytes -= size
        budget.give(size)
        self._plan_turn()
        self._read_or_wait()

    # ---- writing

    def _write(self, request_id: int, kind: ResponseKind, parts: list[Part]) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        size = sum(map(len, parts))
        if self._meter is not None:
            self._meter.sent(size)
        framed = [response_head(kind, request_id, body_bytes=size), *parts]
        if size <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(framed))
        else:
            self._transport.writelines(framed)
        if self.stuck_since is not None:
            self._registry.unsent_grew()

    def unsent_bytes(self) -> int:
        """Return the bytes of answers that the client has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        """Hold back large answers and new requests until the client has read what is there."""
        self._writable.clear()
        self.stuck_since = self._clock.monotonic()
        self._read_or_wait()
        self._registry.unsent_grew()

    def resume_writing(self) -> None:
        """Go on with large answers."""
        self._writable.set()
        self.stuck_since = None
        self._plan_turn()
        self._read_or_wait()

    # ---- whether to read on

    def _read_or_wait(self) -> None:
        """Read from the socket exactly while there is room for what comes."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._must_wait and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()
        elif self._reading_paused and not self._must_wait:
            self._reading_paused = False
            self._transport.resume_reading()

    @property
    def _must_wait(self) -> bool:
        return (
            self._is_finishing
            or self._assembler.wanted_bytes > 0
            or not self._writable.is_set()
            or self._held_bytes > self._settings.connection_requests_bytes_max
            or len(self._waiting) > 0
            or not self._may_read
        )


def _ended(meter: Meter, _: "asyncio.Task[None]") -> None:
    meter.ended()
