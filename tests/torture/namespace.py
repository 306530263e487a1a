"""A machine of its own for a server, as far as the network goes, whose link can be broken."""

import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_numbers = itertools.count()
LOSS_PERCENT = 30
SLOW_KBYTES = 60


@dataclass(frozen=True, slots=True)
class Namespace:
    """Name a network namespace, and the address of the machine within."""

    name: str
    address: str

    @property
    def before(self) -> tuple[str, ...]:
        """Return what stands before a command that is to run within."""
        return ("ip", "netns", "exec", self.name)

    def cut_requests(self) -> None:
        """Let nothing in."""
        self._rule("come", "tcp dport 1-65535 drop")

    def cut_answers(self) -> None:
        """Let nothing out."""
        self._rule("go", "tcp sport 1-65535 drop")

    def cut(self) -> None:
        """Let nothing in, and nothing out."""
        self.cut_requests()
        self.cut_answers()

    def lose(self) -> None:
        """Lose packets both ways, by chance."""
        for chain in ("come", "go"):
            self._rule(chain, f"numgen random mod 100 < {LOSS_PERCENT} drop")

    def slow(self) -> None:
        """Let only a little through."""
        for chain in ("come", "go"):
            self._rule(chain, f"limit rate over {SLOW_KBYTES} kbytes/second drop")

    def heal(self) -> None:
        """Let everything through again."""
        self._run("nft", "flush", "ruleset")
        self._run("nft", "add", "table", "inet", "link")
        for chain, hook in (("come", "input"), ("go", "output")):
            text = f"{{ type filter hook {hook} priority 0 ; }}"
            self._run("nft", f"add chain inet link {chain} {text}")

    def _rule(self, chain: str, text: str) -> None:
        self._run("nft", f"add rule inet link {chain} {text}")

    def _run(self, *command: str) -> None:
        subprocess.run([*self.before, *command], check=True)


@contextmanager
def namespace() -> Iterator[Namespace]:
    """Make a namespace with a link to it for the length of a block."""
    number = next(_numbers)
    name = f"hw{os.getpid()}x{number}"
    network = f"10.{200 + number % 50}.{os.getpid() % 250}"
    made = Namespace(name, f"{network}.2")
    ours, theirs = f"{name}a"[-15:], f"{name}b"[-15:]
    _ip("netns", "add", name)
    try:
        _ip("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", name)
        _ip("addr", "add", f"{network}.1/24", "dev", ours)
        _ip("link", "set", ours, "up")
        _ip("-n", name, "addr", "add", f"{made.address}/24", "dev", theirs)
        _ip("-n", name, "link", "set", theirs, "up")
        _ip("-n", name, "link", "set", "lo", "up")
        made.heal()
        yield made
    finally:
        _ip("netns", "delete", name)  # its half of the link goes with it, and so does ours


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
