"""An event loop that a seed drives: time is made up, and chance says whose turn it is.

Everything of a run shares this one loop, but each handle belongs to a process: the one in whose
context it was made. A process can be killed, after which nothing of it ever runs again, and
paused, after which all of it waits. Within a process handles run in the order in which they came,
as asyncio promises; which process runs next is drawn. Work for threads runs when a drawn delay is
over, so that it can end in any order, and that of the server now and then in several pieces. A
fuse strikes between any two handles of a process, also while others wait for their turn.
"""

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from tests.simulation.threads import Strand

SLOW_SHARE = 0.1
SLOW_TIMES = 10
UNWINDS_MAX = 20


@dataclass
class Fuse:
    """Strike before the so many-th handle from now on."""

    handles_left: int
    strike: Callable[[], None]


@dataclass(eq=False)
class Process:
    """Be what is killed or paused as a whole."""

    name: str
    is_alive: bool = True
    is_paused: bool = False
    ready: deque[asyncio.Handle] = field(default_factory=deque)
    fuse: Fuse | None = None

    def kill(self) -> None:
        """Let nothing of it run again."""
        self.is_alive = False
        self.ready.clear()

    def burn(self) -> None:
        """Count a handle that is about to run."""
        if self.fuse is None:
            return
        self.fuse.handles_left -= 1
        if self.fuse.handles_left <= 0:
            fuse, self.fuse = self.fuse, None
            fuse.strike()


OUTSIDE = Process("outside")
PROCESS: ContextVar[Process] = ContextVar("process", default=OUTSIDE)


class StuckError(AssertionError):
    """Tell that nothing can happen any more, or that too much does."""


class SimTask(asyncio.Task):
    """A task whose hash is its number, so that sets of tasks have one order in all runs."""

    numbers = count()

    def __init__(self, *args: object, **named: object) -> None:
        self.number = next(self.numbers)
        self.process = (named.get("context") or copy_context()).get(PROCESS, OUTSIDE)
        super().__init__(*args, **named)

    def __hash__(self) -> int:
        return self.number


class SimFuture(asyncio.Future):
    """A future whose hash is its number."""

    def __init__(self, **named: object) -> None:
        self.number = next(SimTask.numbers)
        self.process = PROCESS.get()
        super().__init__(**named)

    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.BaseEventLoop):
    """Run handles in an order and at times that a seed decides."""

    def __init__(self, chance: random.Random, *, steps_max: int, work_s: float) -> None:
        super().__init__()
        self._work_s_max = work_s
        self.steps = 0
        self.complaints: list[str] = []
        self.chance = chance
        self._steps_max = steps_max
        self._now = 0.0
        self._is_over = False
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_numbers = count()
        self._processes: list[Process] = [OUTSIDE]
        self._tasks: list[SimTask] = []
        self._strands: list[Strand] = []
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._complain)
        OUTSIDE.ready.clear()

    # ---- processes

    def process(self, name: str) -> Process:
        """Begin a process."""
        process = Process(name)
        self._processes = [each for each in self._processes if each.is_alive]
        self._processes.append(process)
        return process

    def start_in(
        self, process: Process, work: Coroutine[object, object, object], *, name: str | None = None
    ) -> asyncio.Task:
        """Run a coroutine as part of a process."""
        return self.create_task(work, name=name, context=_inside(process))

    def call_in(
        self, process: Process, when: float, callback: Callable[..., object], *args: object
    ) -> None:
        """Call something as part of a process at a time; never, if it is dead by then."""
        self.call_at(when, callback, *args, context=_inside(process))

    # ---- what asyncio asks of a loop

    def time(self) -> float:
        return self._now

    def call_soon(self, callback, *args, context: Context | None = None) -> asyncio.Handle:
        context = copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        self._enqueue(handle, context)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay, callback, *args, context: Context | None = None):
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(self, when, callback, *args, context: Context | None = None):
        context = copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        handle._scheduled = True
        heapq.heappush(self._timers, (when, next(self._timer_numbers), handle))
        return handle

    def create_future(self) -> SimFuture:
        return SimFuture(loop=self)

    def run_in_executor(self, executor: Executor | None, func, *args) -> SimFuture:
        """Run work for a thread later."""
        future = self.create_future()
        if isinstance(executor, SimExecutor):
            executor.begin(partial(func, *args), future)
        else:
            self.call_later(self.work_s(), _work_for, future, func, args)
        return future

    def strand(self, work: Callable[[], object]) -> Strand:
        """Return a piece of work that can be left in the middle."""
        strand = Strand(work)
        self._strands.append(strand)
        return strand

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is left out when its time comes."""

    def _make_task(self, _loop, coroutine, *, context: Context | None = None, **named) -> SimTask:
        task = SimTask(coroutine, loop=self, context=context, **named)
        # Held to the end, so that what was killed is not unwound by a garbage collector.
        self._tasks.append(task)
        return task

    def _complain(self, _loop, context) -> None:
        process = _process_of(context)
        if process.is_alive and not self._is_over:
            fault = context.get("exception")
            self.complaints.append(f"{process.name}: {context['message']}: {fault!r}")

    def untold(self) -> list[str]:
        """Return what went wrong in those who live, and what nobody asked after."""
        failed = [
            f"{task.process.name}: nobody asked how {task.get_name()} failed: {task.exception()!r}"
            for task in self._tasks
            if task.process.is_alive and task.done() and task._log_traceback
        ]
        return [*self.complaints, *failed]

    # ---- one turn

    def _enqueue(self, handle: asyncio.Handle, context: Context) -> None:
        process = context.get(PROCESS, OUTSIDE)
        if process.is_alive and not self._is_over:
            process.ready.append(handle)

    def _run_once(self) -> None:
        self._ring()
        waiting = [each for each in self._processes if each.ready and not each.is_paused]
        if not waiting:
            self._pass_time()
            return
        process = waiting[0] if len(waiting) == 1 else self.chance.choice(waiting)
        process.burn()
        if process.is_paused or not process.ready:
            return
        handle = process.ready.popleft()
        self.steps += 1
        if self.steps > self._steps_max:
            raise StuckError(f"It did not end within {self._steps_max} steps.")
        if not handle._cancelled:
            handle._run()

    def _ring(self) -> None:
        while self._timers and self._timers[0][0] <= self._now:
            _, _, handle = heapq.heappop(self._timers)
            handle._scheduled = False
            if not handle._cancelled:
                self._enqueue(handle, handle._context)

    def _pass_time(self) -> None:
        while self._timers and self._timers[0][2]._cancelled:
            heapq.heappop(self._timers)
        if self._stopping:
            return
        if not self._timers:
            raise StuckError("Everybody waits for somebody else.")
        self._now = max(self._now, self._timers[0][0])

    def work_s(self) -> float:
        """Draw how long a thread takes."""
        times = SLOW_TIMES if self.chance.random() < SLOW_SHARE else 1
        return self.chance.random() * self._work_s_max * times

    # ---- the end

    def bury(self) -> None:
        """Unwind what was killed or left over, now that nothing of it counts any more."""
        self._is_over = True
        for strand in self._strands:
            strand.abandon()
        # Whoever gathers others at its end asks for a loop; else one is made that nobody closes.
        asyncio.set_event_loop(self)
        for task in self._tasks:
            task._log_destroy_pending = task._log_traceback = False
            if not task.done():
                _unwind(task.get_coro())
        asyncio.set_event_loop(None)
        self._tasks.clear()
        self._timers.clear()
        for process in self._processes:
            process.ready.clear()

    def _process_events(self, event_list) -> None:
        """Do nothing: there is nothing outside."""

    def _write_to_self(self) -> None:
        """Do nothing: nobody else could wake the loop."""


class SimExecutor(Executor):
    """Run what is submitted sometime, some of it in several pieces with other things between."""

    def __init__(self, loop: SimLoop, *, split_share: float = 0.0) -> None:
        self._loop = loop
        self._split_share = split_share

    def submit(self, fn: Callable[..., object], /, *args: object, **named: object) -> Future:
        outcome: Future[object] = Future()
        self.begin(partial(fn, *args, **named), outcome)
        return outcome

    def begin(self, work: Callable[[], object], outcome: "Future | asyncio.Future") -> None:
        """Begin a piece of work; what comes of it is told to its future."""
        loop = self._loop
        if loop.chance.random() < self._split_share:
            loop.call_later(loop.work_s(), self._go_on, loop.strand(work), outcome)
        else:
            loop.call_later(loop.work_s(), _work_for, outcome, work, ())

    def _go_on(self, strand: Strand, outcome: "Future | asyncio.Future") -> None:
        if not strand.is_done:
            strand.go_on()
        if not strand.is_done:
            self._loop.call_later(self._loop.work_s(), self._go_on, strand, outcome)
        elif not outcome.cancelled() and strand.fault is not None:
            outcome.set_exception(strand.fault)
        elif not outcome.cancelled():
            outcome.set_result(strand.result)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: there are no threads that stay."""


def _inside(process: Process) -> Context:
    context = copy_context()
    context.run(PROCESS.set, process)
    return context


def _process_of(context: dict[str, object]) -> Process:
    """Return whose complaint it is."""
    handle = context.get("handle")
    if isinstance(handle, asyncio.Handle):
        return handle._context.get(PROCESS, OUTSIDE)
    whose = context.get("task") or context.get("future")
    return whose.process if isinstance(whose, SimTask | SimFuture) else PROCESS.get()


def _work_for(future: asyncio.Future, func: Callable[..., object], args: tuple) -> None:
    try:
        result = func(*args)
    except Exception as fault:  # noqa: BLE001 - as a pool does
        if not future.cancelled():
            future.set_exception(fault)
    else:
        if not future.cancelled():
            future.set_result(result)


def _unwind(coroutine: Coroutine[object, object, object]) -> None:
    """Close a coroutine; one that awaits something in its end has to be told several times."""
    for _ in range(UNWINDS_MAX):
        with suppress(BaseException):
            coroutine.close()
            return
