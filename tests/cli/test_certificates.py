"""`headwater certificate`, and commands that talk TLS."""

import re
import stat
import sys

import pytest

from headwater.server.logins import Users
from tests.cli.commanding import Storage, ok
from tests.serving import serving

NOBODY = Storage("nowhere")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    ok(NOBODY("certificate", "make", str(directory)))
    return directory


def test_keys_are_for_their_owner_and_certificates_for_everybody(certificates):
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in certificates.iterdir()}

    assert modes["ca.key"] == modes["server.key"] == 0o600
    assert {"ca.pem", "server.pem"} <= set(modes)


def test_a_certificate_is_shown_with_its_last_day(certificates):
    shown = ok(NOBODY("certificate", "show", str(certificates / "server.pem")))

    assert re.search(r"'localhost', valid from .* to 20\d\d-.* UTC, 36\d days left", shown)


@pytest.mark.parametrize(
    ("content", "told"),
    [("rubbish", "contains no certificate"), (None, "cannot be read: No such file")],
)
def test_a_file_without_a_certificate_is_told(tmp_path, content, told):
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_text(content)

    result = NOBODY("certificate", "show", str(path))

    assert result.exit_code != 0
    assert told in result.stderr


@pytest.mark.parametrize("name", ["ca", "server", "../ann", ""])
def test_a_client_needs_a_name_of_its_own(certificates, name):
    assert NOBODY("certificate", "client", str(certificates), name).exit_code == 3


def test_without_the_package_the_command_says_what_to_install(tmp_path, monkeypatch):
    for name in [each for each in sys.modules if each.startswith("cryptography")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "headwater.cli.security.make_certificate", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)

    result = NOBODY("certificate", "make", str(tmp_path))

    assert "pip install 'headwater[security]'" in result.stderr
    assert result.exit_code == 3


def test_commands_talk_tls_and_log_in(certificates, tmp_path, monkeypatch):
    Users({}).with_user("ann", "secret").save(tmp_path / "users")
    given = [f"--tls-certificate={certificates / 'server.pem'}"]
    given += [f"--tls-key={certificates / 'server.key'}", f"--users={tmp_path / 'users'}"]
    with serving(tmp_path / "data", *given) as server:
        commands = Storage(server.address)
        monkeypatch.setenv("HEADWATER_USER", "ann")
        monkeypatch.setenv("HEADWATER_PASSWORD", "secret")
        without = commands("database", "list")
        unknown = commands("database", "list", "--tls")
        monkeypatch.setenv("HEADWATER_TLS", "1")
        monkeypatch.setenv("HEADWATER_TLS_CA", str(certificates / "ca.pem"))

        assert "fluss" in ok(commands("database", "list"))
        assert "This port speaks TLS" in without.stderr
        assert "tls_ca_file" in unknown.stderr
        assert (without.exit_code, unknown.exit_code) == (8, 8)


def test_options_of_servers_are_refused_for_directories(tmp_path):
    result = Storage(str(tmp_path))("database", "create", "shop", "--tls")

    assert result.exit_code == 3
    assert "--tls" in result.stderr
