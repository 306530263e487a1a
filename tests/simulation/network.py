"""Links between clients and the server: slow, out of order, twice, or cut at a bad moment."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from headwater.embedded.storage import PEER, _never_full
from headwater.errors import DisconnectedError, error_of_code
from headwater.server.connection import Answer, Part, Serve, Session
from headwater.server.listener import ANSWER_WITHIN_S
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import Api
from headwater.wire.frames import RequestFrame, ResponseKind
from tests.simulation.loop import PROCESS, Process, SimLoop


@dataclass(frozen=True)
class Weather:
    """Say how likely it is that something happens to a message."""

    cut_before: float = 0.0
    """The link breaks, and the request is gone."""
    cut_after: float = 0.0
    """The link breaks, and the answer is gone."""
    twice: float = 0.0
    """The request comes a second time, later."""
    swallowed: float = 0.0
    """The request is gone, and nobody is told."""
    slow: float = 0.0
    """The message takes long."""
    is_ordered: bool = True
    """Whether requests of a link come in the order in which they were sent."""
    delay_s: float = 0.005
    long_delay_s: float = 8.0


FAIR = Weather()


@dataclass(eq=False)
class Host:
    """Be a server that runs, as the network sees it."""

    process: Process
    serve: Serve
    network: "Network"
    is_stopping: bool = False
    answering: list[asyncio.Task] = field(default_factory=list)

    async def stop(self) -> None:
        """Take no more requests, answer what was asked, and break every link."""
        self.is_stopping = True
        if self.answering:
            await asyncio.wait(self.answering, timeout=ANSWER_WITHIN_S)
        for task in tuple(self.answering):
            task.cancel()
        await asyncio.gather(*self.answering, return_exceptions=True)
        self.network.go_down()

    async def sweep(self) -> None:
        """Do nothing: there are no sockets that could be stuck."""

    port = 0


class Network:
    """Carry requests to whatever server runs now."""

    def __init__(self, loop: SimLoop, chance: random.Random, note: Callable[[str], None]) -> None:
        self.loop = loop
        self.note = note
        self.weather = FAIR
        self.faults = 0
        self.host: Host | None = None
        self.links: list[SimLink] = []
        self._chance = chance

    def calm(self) -> None:
        """Let messages pass from now on."""
        self.weather = FAIR

    def go_up(self, host: Host) -> None:
        """Let a server be reached."""
        self.host = host

    def go_down(self) -> None:
        """Break every link, as the end of a process does; some of the others hear of it late."""
        self.host = None
        for link in self.links:
            delay_s = self._chance.random() * (5.0 if self._chance.random() < 0.2 else 0.1)
            link.tell(delay_s, link.fail, "The server is gone.")
        self.links = []

    def strikes(self, likelihood: float) -> bool:
        """Tell whether bad luck strikes this time."""
        struck = self._chance.random() < likelihood
        self.faults += struck
        return struck

    def delay_s(self) -> float:
        """Return how long a message takes."""
        is_slow = self.weather.slow and self.strikes(self.weather.slow)
        return self._chance.random() * (
            self.weather.long_delay_s if is_slow else self.weather.delay_s
        )


class SimDialer:
    """Reach the server that runs, for one client."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def dial(self, host: str, port: int) -> "SimLink":
        await asyncio.sleep(self._network.delay_s())
        up = self._network.host
        if up is None:
            raise DisconnectedError("Nobody listens there.")
        link = SimLink(self._network, up)
        self._network.links.append(link)
        return link


class SimLink:
    """Carry requests of one client to one server, until either is gone."""

    def __init__(self, network: Network, host: Host) -> None:
        self.is_open = True
        self._network = network
        self._host = host
        self._session = Session(PEER, "", 0, _never_full, principal=PEER)
        self._client = PROCESS.get()
        self._waiting: list[asyncio.Future[Answer]] = []
        self._arrives_at = 0.0
        self._heard = 0

    async def exchange(self, api: Api, parts: Sequence[Part], *, timeout_s: float) -> memoryview:
        if not self.is_open:
            raise DisconnectedError("The link is broken.")
        answer: asyncio.Future[Answer] = self._network.loop.create_future()
        self._waiting.append(answer)
        self._send(RequestFrame(api.key, api.version_max, 0, memoryview(b"".join(parts))), answer)
        heard = self._heard
        try:
            async with asyncio.timeout(timeout_s):
                kind, body = await answer
        except TimeoutError:
            if heard == self._heard:
                self.fail("The server does not answer.")
            raise DisconnectedError(f"{api.key.name} was not answered in time.") from None
        finally:
            self._waiting.remove(answer)
        self._heard += 1
        if kind is ResponseKind.ANSWER:
            return memoryview(b"".join(body))
        error = pb.ErrorResponse.FromString(b"".join(body))
        raise error_of_code(error.error_code, error.error_message)

    async def close(self) -> None:
        self.fail("The link was closed.")

    def fail(self, reason: str) -> None:
        """Break; whoever waits hears of it."""
        self.is_open = False
        self._session.is_closed = True
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(DisconnectedError(reason))

    def tell(self, delay_s: float, step: Callable[..., object], *args: object) -> None:
        """Take a step on the side of the client, later."""
        loop = self._network.loop
        loop.call_in(self._client, loop.time() + delay_s, step, *args)

    # ---- one request

    def _send(self, frame: RequestFrame, answer: "asyncio.Future[Answer]") -> None:
        network = self._network
        weather = network.weather
        name = f"{self._client.name} -> {self._host.process.name}: {frame.api_key.name}"
        if network.strikes(weather.cut_before):
            network.note(f"{name} lost, link cut")
            self.tell(network.delay_s(), self.fail, "The link broke.")
            return
        if network.strikes(weather.swallowed):
            network.note(f"{name} swallowed")
            return
        is_cut = network.strikes(weather.cut_after)
        at_s = self._arrival_s()
        network.note(f"{name} arrives at {at_s:.6f}{', its answer is lost' if is_cut else ''}")
        self._deliver(at_s, frame, self._session, None if is_cut else answer)
        if network.strikes(weather.twice):
            late = at_s + network.delay_s() + network.delay_s()
            network.note(f"{name} again at {late:.6f}")
            another = Session(PEER, "", 0, _never_full, principal=PEER, is_closed=True)
            self._deliver(late, frame, another, network.loop.create_future())

    def _arrival_s(self) -> float:
        at_s = self._network.loop.time() + self._network.delay_s()
        if self._network.weather.is_ordered:
            at_s = max(at_s, self._arrives_at)
        self._arrives_at = max(at_s, self._arrives_at)
        return at_s

    def _deliver(
        self,
        at_s: float,
        frame: RequestFrame,
        session: Session,
        answer: "asyncio.Future[Answer] | None",
    ) -> None:
        loop = self._network.loop

        def begin() -> None:
            # On the side of the server, so that it ends with it.
            host = self._host
            if not host.is_stopping:
                task = loop.create_task(self._answer(frame, session, answer))
                host.answering.append(task)
                task.add_done_callback(host.answering.remove)

        loop.call_in(self._host.process, at_s, begin)

    async def _answer(
        self, frame: RequestFrame, session: Session, answer: "asyncio.Future[Answer] | None"
    ) -> None:
        kind, body = await self._host.serve(frame, session)
        delay_s = self._network.delay_s()
        if answer is None:
            self.tell(delay_s, self.fail, "The link broke.")
        else:
            self.tell(delay_s, self._arrived, answer, (kind, [bytes(part) for part in body]))

    def _arrived(self, answer: "asyncio.Future[Answer]", given: Answer) -> None:
        if self.is_open and not answer.done():
            answer.set_result(given)


def stormy(chance: random.Random) -> Weather:
    """Draw bad weather."""
    weather = Weather(
        is_ordered=chance.random() < 0.7,
        delay_s=chance.choice((0.005, 0.05, 0.5)),
        long_delay_s=chance.choice((2.0, 8.0, 30.0)),
    )
    kinds = ("cut_before", "cut_after", "twice", "swallowed", "slow")
    chosen = chance.sample(kinds, chance.randint(1, len(kinds)))
    return replace(weather, **{kind: chance.choice((0.02, 0.1, 0.3)) for kind in chosen})
