"""Connections whose clients may vanish are watched by the kernel."""

import socket

from headwater.server.keep_alive import IDLE_S, keep_alive


def test_a_connection_is_probed_when_its_client_is_silent():
    with socket.socket() as connection:
        keep_alive(connection)

        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == IDLE_S


def test_a_connection_within_the_machine_is_left_alone():
    with socket.socket(socket.AF_UNIX) as connection:
        keep_alive(connection)

        assert not connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
