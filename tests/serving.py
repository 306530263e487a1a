"""A real `headwater serve` in a process of its own, for tests and benchmarks."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_PORT = re.compile(r" serving .*\bport=(\d+)")
STOP_WITHIN_S = 30
TOLD_MAX = 4000


class ServerNotStartedError(RuntimeError):
    """Tell how a server ended before it served."""

    def __init__(self, code: int, told: str) -> None:
        super().__init__(f"The server did not start, exit code {code}: {told}")
        self.code = code


class ServerProcess:
    """Start, kill and stop a server on one directory."""

    def __init__(
        self,
        directory: Path,
        *options: str,
        port: int = 0,
        module: str = "headwater",
        before: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.log = directory.with_name(f"{directory.name}.log")
        self._output = self.log.open("a+", encoding="utf-8")
        command = [sys.executable, "-m", module, "serve", str(directory)]
        self._process = subprocess.Popen(
            [*before, *command, "--port", str(port), *options],
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, **(variables or {})},
        )
        self.port = self._read_port()
        self._copying = threading.Thread(target=self._copy, daemon=True)
        self._copying.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Tell how it ended; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """Kill -9: no chance to tidy up."""
        self._process.kill()
        self._process.wait()
        self._copying.join()

    def wait(self, within_s: float) -> int:
        """Wait until it ends by itself, and return its exit code."""
        code = self._process.wait(within_s)
        self._copying.join()
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, such as one that pauses it."""
        self._process.send_signal(number)

    def stop(self) -> int:
        """Ask it to stop, as an operator would, and return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_WITHIN_S)
        self._copying.join()
        return code

    def events(self) -> str:
        """Return what it has logged so far."""
        return self.log.read_text()

    def told(self) -> str:
        """Return the end of what it has logged."""
        return self.events()[-TOLD_MAX:]

    def _read_port(self) -> int:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._output.write(line)
            self._output.flush()
            if found := _PORT.search(line):
                return int(found[1])
        self._process.stderr.close()
        self._output.close()
        raise ServerNotStartedError(self._process.wait(STOP_WITHIN_S), self.log.read_text())

    def _copy(self) -> None:
        # A full pipe would stall the server, so somebody has to read on.
        assert self._process.stderr is not None
        with self._output, self._process.stderr:
            for line in self._process.stderr:
                self._output.write(line)
                self._output.flush()


@contextmanager
def serving(directory: Path, *options: str) -> Iterator[ServerProcess]:
    """Serve a directory for the length of a block."""
    server = ServerProcess(directory, *options)
    try:
        yield server
    finally:
        server.stop()
