"""Limits of users: how fast and how much, who has to wait, and who is refused.

Rates are token buckets: one for each user and direction, and one for each connection. Bytes in are
charged as they come; until they are paid for, the socket is not read. Bytes out are charged when an
answer is written; until they are paid for, the client's next requests wait, and one that would have
to wait for too long is refused. So a debt is one request or one answer of each connection at most,
and nothing large is held in memory meanwhile. Where nothing is limited there is no meter, and a
request passes none of this.
"""

import fcntl
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headwater import errors
from headwater.config.quotas import Created, Limits, Quota, read_quotas, write_quotas
from headwater.runtime.clock import Clock
from headwater.store.local import Stamp, save_private, stamp_of

# The name under which clients are counted that did not log in.
ANONYMOUS = "anonymous"
# What may be taken at once by a client that took nothing for a while.
BURST_S = 1.0
# Users whose counts are kept after their last connection, for the metrics.
ACCOUNTS_MAX = 10_000
ANSWER_BYTES_MAX = 1 << 62
REQUESTS_MAX = 1 << 31


# The pure machine.


@dataclass(slots=True)
class TokenBucket:
    """Allow so many bytes in a second; bytes taken beyond that are a debt that time pays."""

    rate: int
    now_s: float
    balance: float = field(init=False)

    def __post_init__(self) -> None:
        self.balance = self.rate * BURST_S

    def advance(self, now_s: float) -> None:
        """Let time pass; a clock that goes back is ignored."""
        passed_s = max(now_s - self.now_s, 0.0)
        self.now_s = max(now_s, self.now_s)
        self.balance = min(self.balance + passed_s * self.rate, self.rate * BURST_S)

    def take(self, count: int, now_s: float) -> None:
        """Take bytes, whatever is left."""
        self.advance(now_s)
        self.balance -= count

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait until the debt is paid; 0 if there is none."""
        self.advance(now_s)
        return max(-self.balance / self.rate, 0.0)

    def change_rate(self, rate: int, now_s: float) -> None:
        """Go on at another rate; a debt stays."""
        self.advance(now_s)
        self.rate = rate
        self.balance = min(self.balance, rate * BURST_S)


def changed_bucket(held: TokenBucket | None, rate: int, now_s: float) -> TokenBucket | None:
    """Return the bucket for a new rate, or None for no limit."""
    if not rate:
        return None
    if held is None:
        return TokenBucket(rate, now_s)
    held.change_rate(rate, now_s)
    return held


# Users and their connections.


@dataclass(slots=True)
class Account:
    """What one user has in use now, and what was refused."""

    user: str
    quota: Quota
    inward: TokenBucket | None = None
    outward: TokenBucket | None = None
    requests: int = 0
    connections: int = 0
    # Connections whose next request waits for one of the others to end, oldest first.
    waiting: dict[Callable[[], None], None] = field(default_factory=dict)
    throttled_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    refusals: Counter[str] = field(default_factory=Counter)

    def follow(self, quota: Quota, now_s: float) -> None:
        """Take other limits from now on."""
        self.quota = quota
        self.inward = changed_bucket(self.inward, quota.user_bytes_in_per_s_max, now_s)
        self.outward = changed_bucket(self.outward, quota.user_bytes_out_per_s_max, now_s)
        self.let_go()

    @property
    def room(self) -> int:
        """Return how many more requests may begin."""
        most = self.quota.user_requests_max
        return max(most - self.requests, 0) if most else REQUESTS_MAX

    def let_go(self) -> None:
        """Let connections go on whose requests wait for others to end."""
        while self.waiting and self.room:
            waiting = next(iter(self.waiting))
            del self.waiting[waiting]
            waiting()

    def refuse(self, limit: str, has: str, *, hint: str) -> errors.RetryLaterError:
        """Count a refusal that more time can mend, and return the error for it."""
        return errors.RetryLaterError(self.refused(limit, has), hint=hint)

    def refused(self, limit: str, has: str) -> str:
        """Count a refusal, and say which limit it is."""
        self.refusals[limit] += 1
        value = getattr(self.quota, limit)
        return f"User {self.user} {has}, and the limit '{limit}' is {value}."


class Meter:
    """Measure one connection against its own limits and those of its user."""

    def __init__(self, account: Account, clock: Clock, *, throttle_s_max: float) -> None:
        self.account = account
        self._clock = clock
        self._throttle_s_max = throttle_s_max
        self._inward: TokenBucket | None = None
        self._outward: TokenBucket | None = None
        self._is_too_many = False
        self.follow()

    def follow(self) -> None:
        """Take the limits that the user has now."""
        quota, now_s = self.account.quota, self._clock.monotonic()
        self._inward = changed_bucket(self._inward, quota.connection_bytes_in_per_s_max, now_s)
        self._outward = changed_bucket(self._outward, quota.connection_bytes_out_per_s_max, now_s)

    # ---- bytes

    def received(self, count: int) -> None:
        """Charge bytes that came."""
        now_s = self._clock.monotonic()
        for bucket in (self._inward, self.account.inward):
            if bucket is not None:
                bucket.take(count, now_s)

    def sent(self, count: int) -> None:
        """Charge bytes of an answer."""
        now_s = self._clock.monotonic()
        for bucket in (self._outward, self.account.outward):
            if bucket is not None:
                bucket.take(count, now_s)

    @property
    def answer_bytes_max(self) -> int:
        """Return how large one answer should be at most, so that the next need not wait long."""
        rates = [each.rate for each in (self._outward, self.account.outward) if each is not None]
        return min((int(rate * BURST_S) for rate in rates), default=ANSWER_BYTES_MAX)

    def wait_to_read(self) -> tuple[float, str]:
        """Return how long nothing may be read, and because of which limit."""
        return self._longest(self._inward, self.account.inward, "bytes_in_per_s_max")

    def wait_to_begin(self) -> tuple[float, str]:
        """Return how long no request may begin, and because of which limit."""
        wait_s, limit = self._owed()
        return (0.0, "") if wait_s > self._throttle_s_max else (wait_s, limit)

    def _owed(self) -> tuple[float, str]:
        return self._longest(self._outward, self.account.outward, "bytes_out_per_s_max")

    def _longest(
        self, own: TokenBucket | None, users: TokenBucket | None, limit: str
    ) -> tuple[float, str]:
        now_s = self._clock.monotonic()
        return max(
            (0.0 if own is None else own.wait_s(now_s), f"connection_{limit}"),
            (0.0 if users is None else users.wait_s(now_s), f"user_{limit}"),
        )

    def throttled(self, limit: str, seconds: float) -> None:
        """Count time that the client had to wait."""
        self.account.throttled_s[limit] += seconds

    # ---- requests in flight

    @property
    def room(self) -> int:
        """Return how many more requests of the user may begin."""
        return self.account.room

    def began(self) -> None:
        """Count a request that begins."""
        self.account.requests += 1

    def ended(self) -> None:
        """Count a request that ended, and let the next connection go on that waits for that."""
        self.account.requests -= 1
        self.account.let_go()

    # ---- connections

    def opened(self) -> None:
        """Count the connection."""
        self.account.connections += 1
        most = self.account.quota.user_connections_max
        self._is_too_many = bool(most) and self.account.connections > most

    def closed(self, waiting: Callable[[], None]) -> None:
        """Forget the connection and what it waited for."""
        self.account.connections -= 1
        self.account.waiting.pop(waiting, None)

    # ---- refusals

    @property
    def is_refusing(self) -> bool:
        """Tell whether `check` refuses the next request."""
        return self._is_too_many or self._owed()[0] > self._throttle_s_max

    @property
    def is_over(self) -> bool:
        """Tell whether the connection is one too many, and is closed once it has its answer."""
        return self._is_too_many

    def check(self) -> None:
        """Refuse a request that would wait for too long, or of a connection too many."""
        if self._is_too_many:
            raise self.account.refuse(
                "user_connections_max",
                f"has {self.account.connections} connections",
                hint="Close one, or share one connection among threads; then try again.",
            )
        wait_s, limit = self._owed()
        if wait_s > self._throttle_s_max:
            raise self.account.refuse(
                limit,
                f"has read so much that the next answer would have to wait {wait_s:.0f} s",
                hint="Try again then, ask for less at a time, or have the limit raised.",
            )

    def check_scans(self, *, of_user: int, of_connection: int) -> None:
        """Refuse one more scan if too many are open."""
        for limit, count in (
            ("user_scans_max", of_user),
            ("connection_scans_max", of_connection),
        ):
            most = getattr(self.account.quota, limit)
            if most and count >= most:
                raise errors.ScannerLimitError(
                    self.account.refused(limit, f"has {count} open scans"),
                    hint="Close scans that are not needed, then try again.",
                )


# The file of limits of single users.


class QuotaFile:
    """The limits of single users in a file, which a running server follows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: Stamp | None = None

    def load(self) -> dict[str, Limits]:
        """Read the file; one that does not exist limits nobody."""
        self._stamp = stamp_of(self._path)
        if self._stamp is None:
            return {}
        text = self._path.read_text(encoding="utf-8", errors="replace")
        return read_quotas(text, source=str(self._path))

    @property
    def has_changed(self) -> bool:
        """Tell whether the file is another one than that which was loaded."""
        return stamp_of(self._path) != self._stamp


# All users.


class Quotas:
    """Know the limits of every user, and what each has in use."""

    def __init__(
        self,
        default: Quota,
        clock: Clock,
        *,
        throttle_s_max: float,
        file: QuotaFile | None = None,
    ) -> None:
        self._default = default
        self._clock = clock
        self._throttle_s_max = throttle_s_max
        self._file = file
        self._own = {} if file is None else file.load()
        self._accounts: dict[str, Account] = {}
        self._meters: dict[Meter, None] = {}

    def quota_of(self, user: str) -> Quota:
        """Return the limits of a user."""
        return self._default.with_limits(self._own.get(user, {}))

    def check_created(self, user: str, wanted: Created) -> None:
        """Refuse what a user would have created if it is more than they may; time mends nothing."""
        account = self._account(user)
        for limit, count, kind, noun in (
            ("user_tables_max", wanted.tables, errors.TableLimitError, "tables"),
            ("user_partitions_max", wanted.partitions, errors.PartitionLimitError, "partitions"),
            ("user_buckets_max", wanted.buckets, errors.BucketLimitError, "buckets"),
        ):
            most = getattr(account.quota, limit)
            if most and count > most:
                raise kind(
                    account.refused(limit, f"would have {count} {noun}"),
                    hint="Drop some, or have the limit raised.",
                )

    def _account(self, user: str) -> Account:
        account = self._accounts.get(user)
        if account is None:
            self._forget_idle()
            account = self._accounts[user] = Account(user, Quota())
            account.follow(self.quota_of(user), self._clock.monotonic())
        return account

    def open(self, user: str) -> Meter:
        """Count a new connection of a user, and return its meter."""
        meter = Meter(self._account(user), self._clock, throttle_s_max=self._throttle_s_max)
        meter.opened()
        self._meters[meter] = None
        return meter

    def close(self, meter: Meter, waiting: Callable[[], None]) -> None:
        """Forget a connection that has ended."""
        del self._meters[meter]
        meter.closed(waiting)

    def reload(self) -> bool:
        """Follow a change of the file, and tell whether there was one."""
        if self._file is None or not self._file.has_changed:
            return False
        self._follow(self._file.load())
        return True

    def _follow(self, own: Mapping[str, Limits]) -> None:
        """Take other limits of single users, also for the connections that are open."""
        self._own = dict(own)
        for account in self._accounts.values():
            account.follow(self.quota_of(account.user), self._clock.monotonic())
        for meter in self._meters:
            meter.follow()

    def accounts(self) -> tuple[Account, ...]:
        """List the users that were seen."""
        return tuple(self._accounts.values())

    def _forget_idle(self) -> None:
        if len(self._accounts) >= ACCOUNTS_MAX:
            used = {user: each for user, each in self._accounts.items() if each.connections}
            self._accounts = used


# Changing the file.


@contextmanager
def quotas_in(path: Path) -> Iterator[dict[str, Limits]]:
    """Lock a file of quotas while it is edited, and save what was changed."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        quotas = QuotaFile(path).load()
        yield quotas
        save_private(path, write_quotas(quotas))
    finally:
        os.close(descriptor)
