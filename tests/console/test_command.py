"""`headwater console` and `headwater serve --console-port` as people start them."""

import json
import re
import signal
import subprocess
import sys
import time

import headwater
from tests.cases import cases
from tests.cli.commanding import Storage
from tests.console.browsing import Browser
from tests.serving import serving

_ADDRESS = re.compile(r"open door=console address=(\S+)")
WITHIN_S = 30


def opened(read):
    """Wait until a console says where it listens."""
    end = time.monotonic() + WITHIN_S
    while time.monotonic() < end:
        if found := _ADDRESS.search(read()):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(read())


def test_a_server_shows_its_own_metrics_in_its_console(tmp_path):
    with serving(tmp_path / "data", "--console-port", "0") as server:
        browser = Browser(opened(server.events))
        with headwater.connect(server.address) as hw:
            hw.create_table("t", {"id": "BIGINT"}, buckets=1).append([(1,)])
            end = time.monotonic() + WITHIN_S
            names = "/live/series?names=rows,disk"
            while len(json.loads(browser.get(names).text)["disk"]["columns"][0]) < 2:
                assert time.monotonic() < end
            found = json.loads(browser.get(names).text)

        assert found["disk"]["labels"] == ["bytes"]
        text = browser.get("/").text
        assert "Disk free" in text
        assert "read-only" in text


def test_a_console_opens_a_directory_and_ends_at_a_signal(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        hw.create_table("t", {"id": "BIGINT"}, buckets=1).append([(1,)])
    log = tmp_path / "log"
    command = [sys.executable, "-m", "headwater", "console", "--at", str(tmp_path / "data")]
    with (
        log.open("w") as file,
        subprocess.Popen([*command, "--port", "0"], stderr=file) as process,
    ):
        try:
            address = opened(log.read_text)
            assert "fluss.</span>t</a>" in Browser(address).get("/tables").text
            process.send_signal(signal.SIGTERM)
            assert process.wait(WITHIN_S) == 0
        finally:
            process.kill()


@cases(
    "arguments,told",
    [
        (("--host", "0.0.0.0"), "Everybody"),
        (("--metrics", "file:///etc/passwd"), "not an address of metrics"),
        (("--port", "70000"), "not a port"),
        (("--console-key", "x"), "belong together"),
        (("--log-format", "xml"), "text or json"),
    ],
)
def test_what_would_expose_rows_or_mean_nothing_is_refused(arguments, told, tmp_path):
    with headwater.open(tmp_path / "data"):
        pass

    result = Storage(str(tmp_path / "data"))("console", *arguments)

    assert result.exit_code == 3
    assert told in result.stderr
