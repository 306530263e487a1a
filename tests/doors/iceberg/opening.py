"""An open door of the catalog in this process, and requests to it as any client sends them."""

import json
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog

import headwater
from headwater.client.sync.client import Client
from headwater.doors.conductor import DoorListener
from headwater.doors.iceberg.door import IcebergDoor, TailLimits
from headwater.doors.iceberg.snapshots import POSITION
from headwater.doors.storage import DoorPlace, DoorStorage
from headwater.lake.iceberg.served import TAILS_FOLDER
from headwater.runtime.loops import LoopThread
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner


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

    def raw(self, path):
        with urlopen(self.address + path, timeout=30) as answer:
            return answer.read()


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
        try:
            yield OpenedDoor(address, door)
        finally:
            loop.run(door.stop())
    finally:
        loop.close()
        storage.close()


# Tables behind a door, read by pyiceberg and compared with what a client reads at the position.

LAKE = {"table.datalake.enabled": True, "table.datalake.format": "iceberg"}


async def tier_all(client):
    service = TieringService(client, LocalRunner(client), lakes=client.cluster.lakes)
    await service.run_once()


def rest_catalog(door, **properties):
    known = {"oauth2-server-uri": f"{door.address}/v1/oauth/tokens"}
    return load_catalog("door", type="rest", uri=door.address, **known, **properties)


def in_order(rows):
    """Sort rows by all columns that have an order."""
    names = [each.name for each in rows.schema if not pa.types.is_nested(each.type)]
    return rows.sort_by([(name, "ascending") for name in names]).combine_chunks()


def sorted_rows(rows):
    return sorted(rows.to_pylist(), key=repr)


@dataclass
class Shop:
    """A storage, a door in front of it, and a client of the catalog."""

    hw: Client
    door: OpenedDoor
    catalog: Catalog

    def tier(self):
        self.hw.run(tier_all)

    def load(self, name):
        return self.catalog.load_table(("fluss", name))

    def loaded(self, name):
        """Load a table, check that it has the rows of its position, and return it."""
        table = self.load(name)
        path, _, _ = name.partition("@")
        token = table.current_snapshot().summary[POSITION]
        wanted = self.hw.table(path).view(token=token).scan().to_arrow()
        found = table.scan().to_arrow().select(wanted.column_names).cast(wanted.schema)
        assert in_order(found).equals(in_order(wanted))
        return table

    def files(self, name):
        """Return the tail files of the newest load, by what they contain."""
        table = self.load(name)
        return {
            each["file_path"]
            for each in table.inspect.files().to_pylist()
            if f"/{TAILS_FOLDER}/" in each["file_path"]
        }


@contextmanager
def opened_shop(directory, **limits):
    with headwater.open(directory / "data", listen=True) as hw:
        chosen = TailLimits(**{"fresh_within_s": 0.0, **limits})
        with opened_door((hw.address,), limits=chosen) as door:
            yield Shop(hw, door, rest_catalog(door))
