"""Connections whose clients may vanish are watched by the kernel."""

import socket

import pytest

from headwater.server.connection import IDLE_S, acknowledge, keep_alive


def test_a_connection_is_probed_when_its_client_is_silent():
    with socket.socket() as connection:
        keep_alive(connection)

        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == IDLE_S


def test_a_connection_within_the_machine_is_left_alone():
    with socket.socket(socket.AF_UNIX) as connection:
        keep_alive(connection)

        assert not connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux has it")
def test_what_has_come_is_acknowledged_without_delay():
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as connection,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)

        acknowledge(connection)

        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)


def test_a_connection_that_is_gone_is_not_acknowledged():
    with socket.socket() as connection:
        pass

    acknowledge(connection)
