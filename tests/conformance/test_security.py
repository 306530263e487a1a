"""User names and passwords, as the Fluss client sends them."""

import fluss
import pytest

from headwater.server.logins import Users
from tests.serving import serving


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    root = tmp_path_factory.mktemp("guarded")
    users = root / "users"
    Users({}).with_user("ada", "secret").with_user("bob", "hush").save(users)
    with serving(root / "data", "--users", str(users)) as running:
        yield running


def config_for(server, name, password):
    return fluss.Config(
        {
            "bootstrap.servers": server.address,
            "security.protocol": "sasl",
            "security.sasl.mechanism": "PLAIN",
            "security.sasl.username": name,
            "security.sasl.password": password,
        }
    )


@pytest.mark.parametrize(("name", "password"), [("ada", "secret"), ("bob", "hush")])
async def test_a_user_with_the_right_password_gets_in(guarded, name, password):
    connection = await fluss.FlussConnection.create(config_for(guarded, name, password))

    assert "fluss" in await connection.get_admin().list_databases()


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong"), ("eve", "secret")])
async def test_a_wrong_name_or_password_does_not_get_in(guarded, name, password):
    with pytest.raises(fluss.FlussError) as error:
        await fluss.FlussConnection.create(config_for(guarded, name, password))

    assert error.value.error_code == fluss.ErrorCode.AUTHENTICATE_EXCEPTION


async def test_a_client_without_credentials_does_not_get_in(guarded):
    config = fluss.Config({"bootstrap.servers": guarded.address})

    with pytest.raises(fluss.FlussError) as error:
        await fluss.FlussConnection.create(config)

    assert error.value.error_code == fluss.ErrorCode.AUTHENTICATE_EXCEPTION


async def test_a_server_without_users_says_that_it_takes_no_credentials(server):
    with pytest.raises(fluss.FlussError) as error:
        await fluss.FlussConnection.create(config_for(server, "ada", "secret"))

    assert error.value.error_code == fluss.ErrorCode.SECURITY_DISABLED_EXCEPTION
