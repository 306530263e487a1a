"""Ask a server of a cluster which tablet servers it knows."""

import socket
import struct

from headwater.wire import fluss_pb2 as pb

GET_METADATA = 1012
TIMEOUT_S = 5.0
_REQUEST_HEAD = struct.Struct(">ihhi")  # length, api key, version, request id
_RESPONSE_HEAD = struct.Struct(">iBi")  # length, kind, request id
_ANSWER = 0


def is_listening(host: str, port: int) -> bool:
    """Tell whether something accepts connections there."""
    try:
        socket.create_connection((host, port), timeout=TIMEOUT_S).close()
    except OSError:
        return False
    return True


def tablet_servers(host: str, port: int) -> dict[int, str]:
    """Return id and address of the tablet servers that a server knows; none if it is not up."""
    try:
        answer = _metadata(host, port)
    except OSError:
        return {}
    return {node.node_id: f"{node.host}:{node.port}" for node in answer.tablet_servers}


def _metadata(host: str, port: int) -> pb.MetadataResponse:
    # By hand, and not with the client: what is tested should not decide whether tests can start.
    body = pb.MetadataRequest().SerializeToString()
    length = _REQUEST_HEAD.size - 4 + len(body)
    with socket.create_connection((host, port), timeout=TIMEOUT_S) as link:
        link.sendall(_REQUEST_HEAD.pack(length, GET_METADATA, 0, 1) + body)
        with link.makefile("rb") as stream:
            head = stream.read(_RESPONSE_HEAD.size)
            if len(head) < _RESPONSE_HEAD.size:
                raise ConnectionError("closed before the answer")
            length, kind, _ = _RESPONSE_HEAD.unpack(head)
            data = stream.read(length - (_RESPONSE_HEAD.size - 4))
    if kind != _ANSWER:
        raise ConnectionError("not ready to answer")
    answer = pb.MetadataResponse()
    answer.ParseFromString(data)
    return answer
