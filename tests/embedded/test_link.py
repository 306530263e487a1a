"""A link to a server in the same process."""

import pytest

from headwater.embedded.storage import InProcessLink
from headwater.errors import DisconnectedError
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.frames import ResponseKind

API = API_OF_REQUEST[pb.ScanKvRequest]


async def test_the_server_is_told_that_a_link_was_closed():
    sessions = []

    async def serve(_frame, session):
        sessions.append(session)
        return ResponseKind.ANSWER, [b"answer"]

    link = InProcessLink(serve)
    answer = await link.exchange(API, [b""], timeout_s=5)
    was_closed = sessions[0].is_closed
    await link.close()

    assert bytes(answer) == b"answer"
    assert (was_closed, sessions[0].is_closed) == (False, True)
    with pytest.raises(DisconnectedError, match="was closed"):
        await link.exchange(API, [b""], timeout_s=5)
