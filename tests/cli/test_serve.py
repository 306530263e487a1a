"""A server that is watched: its metrics over HTTP, and an audit that it runs by itself."""

import json
import re
import socket
import time
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

import headwater
from headwater.cli.main import app
from tests.serving import ServerProcess

WITHIN_S = 60.0
LOOK_EVERY_S = 0.1


def page(server, path):
    port = re.search(r"metrics_port=(\d+)", server.events())[1]
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def metric(server, name):
    found = re.search(rf"^{re.escape(name)} (\S+)$", page(server, "/metrics")[1], re.MULTILINE)
    return None if found is None else float(found[1])


def until(condition):
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(LOOK_EVERY_S)


def flip_bit(segment):
    with segment.open("r+b") as file:
        file.seek(segment.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))


def test_damage_under_a_server_shows_in_its_metrics_its_health_and_its_events(tmp_path):
    data = tmp_path / "data"
    server = ServerProcess(data, "--metrics-port", "0", "--audit-every", "1 s")
    try:
        with headwater.connect(server.address) as client:
            table = client.create_table("t", {"id": "BIGINT"})
            table.append([{"id": number} for number in range(1000)])
        until(lambda: metric(server, "headwater_audit_clean") == 1)
        assert page(server, "/health") == (200, "ok\n")
        assert metric(server, "headwater_appended_rows_total") == 1000

        flip_bit(next(data.glob("log/1/0/*.log")))
        until(lambda: metric(server, "headwater_audit_clean") == 0)

        assert metric(server, 'headwater_audit_findings{severity="error"}') == 1
        status, reasons = page(server, "/health")
        assert (status, "fluss.t bucket 0 offset 0" in reasons) == (503, True)
        assert "audit finding" in server.events()
        assert not json.loads((data / "audit.json").read_text())["is_clean"]
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--audit-every", "soon"], "'soon' is not a valid value of --audit-every"),
        (["--audit-every", "0 s"], "'0 s' is not a valid value of --audit-every"),
        (["--audit-deep"], "--audit-deep needs --audit-every"),
        (["--metrics-port", "-1"], "'metrics_port' must be between 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, options, words):
    result = CliRunner().invoke(app, ["serve", str(tmp_path / "data"), *options])

    assert result.exit_code == 3
    assert words in result.output
    assert not (tmp_path / "data").exists()


def test_a_port_in_use_is_one_line_that_says_what_to_do(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for options, told in {
            ("--port", port): "choose another port with --port",
            ("--port", "0", "--metrics-port", port): "choose another port with --metrics-port",
        }.items():
            result = CliRunner().invoke(app, ["serve", str(tmp_path / "data"), *options])

            assert result.exit_code == 5
            assert f"Port {port} on 127.0.0.1 is in use" in result.stderr
            assert told in result.stderr


def test_a_directory_that_others_may_read_is_told_once_with_the_remedy(tmp_path):
    told = {}
    for mode in (0o755, 0o700):
        directory = tmp_path / f"{mode:o}"
        directory.mkdir()
        directory.chmod(mode)
        server = ServerProcess(directory)
        server.stop()
        told[mode] = [line for line in server.told().splitlines() if "is readable by all" in line]

    (line,) = told[0o755]
    assert "WARNING" in line
    assert f"chmod 700 {tmp_path / '755'}" in line
    assert not told[0o700]
