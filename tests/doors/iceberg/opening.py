"""An open door of the catalog in this process, and requests to it as any client sends them."""

import json
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from headwater.doors.conductor import DoorListener
from headwater.doors.iceberg.door import IcebergDoor, TailLimits
from headwater.doors.storage import DoorPlace, DoorStorage
from headwater.runtime.loops import LoopThread


@dataclass(frozen=True)
class HttpAnswer:
    status: int
    headers: dict
    body: dict


@dataclass(frozen=True)
class OpenedDoor:
    address: str
    door: IcebergDoor

    def ask(self, path, *, method="GET", headers=None, data=None):
        request = Request(self.address + path, method=method, headers=headers or {}, data=data)
        try:
            with urlopen(request, timeout=30) as answer:
                return _answer(answer.status, answer)
        except HTTPError as refusal:
            with refusal:
                return _answer(refusal.code, refusal)


def _answer(status, answer):
    content = answer.read()
    return HttpAnswer(status, dict(answer.headers), json.loads(content) if content else {})


@contextmanager
def opened_door(at, *, limits=None, **place):
    storage = DoorStorage(DoorPlace(at=at, **place))
    loop = LoopThread("door")
    try:
        door = IcebergDoor(storage, DoorListener(), limits or TailLimits(fresh_within_s=0.0))
        address = loop.run(door.start())
        yield OpenedDoor(address, door)
        loop.run(door.stop())
    finally:
        loop.close()
        storage.close()
