"""A storage in an object store: conditional puts, large objects, and a machine that is lost."""

import asyncio
import os
import shutil

import pytest

from headwater.errors import AccessError, InvalidOptionError, RetryLaterError
from headwater.remote.objects import MULTIPART_BYTES, open_objects
from headwater.remote.proof import prove
from tests.flows.test_remote import RemoteWriter, rows_of, with_tables
from tests.lake.formats import PLACE
from tests.serving import ServerProcess

FAST = ("--remote-interval", "200 ms")


@pytest.fixture
def options() -> dict[str, str]:
    given = dict(each.split("=", 1) for each in os.environ["HEADWATER_LAKE_OPTIONS"].split())
    return {
        "endpoint": given["s3.endpoint"],
        "allow_http": "true",
        "region": given["s3.region"],
        "access_key_id": "env:AWS_ACCESS_KEY_ID",
        "secret_access_key": "env:AWS_SECRET_ACCESS_KEY",
    }


@pytest.fixture
def address(request) -> str:
    return f"s3://{(PLACE or '').removeprefix('s3://').partition('/')[0]}/{request.node.name}"


def test_of_two_that_create_an_object_one_fails(address, options):
    objects = open_objects(address, options)

    assert objects.create("commits/1", b"first")
    assert not objects.create("commits/1", b"second")
    assert objects.read("commits/1") == b"first"


def test_an_object_of_many_parts_is_read_in_ranges(address, options):
    objects = open_objects(address, options)
    part = bytes(range(256)) * 4096

    objects.put("data/1", iter([part] * 20))

    assert 20 * len(part) > 2 * MULTIPART_BYTES
    assert objects.read("data/1", start=len(part) + 5, length=9) == part[5:14]
    assert dict(objects.listed("data/")) == {"data/1": 20 * len(part)}


def test_an_object_store_that_is_away_is_tried_again(address, options):
    objects = open_objects(address, options | {"endpoint": "http://127.0.0.1:1"})

    with pytest.raises(RetryLaterError, match="cannot be read"):
        objects.read("commits/1")


def test_an_option_that_the_store_does_not_know_is_refused(address, options):
    with pytest.raises((InvalidOptionError, AccessError), match="colour"):
        open_objects(address, options | {"colour": "blue"})


async def test_a_storage_goes_on_elsewhere_from_an_object_store(tmp_path, address, options):
    given = [f"--remote-option={name}={value}" for name, value in options.items()]
    server = ServerProcess(tmp_path / "data", "--remote", address, *given, *FAST)
    await with_tables(server.port)
    writers = [RemoteWriter(table) for table in ("rows", "stock")]
    writing = [asyncio.ensure_future(each.write_until_cut(server.port)) for each in writers]
    await asyncio.gather(*(each.acked_more(5) for each in writers))
    await asyncio.to_thread(server.kill)
    await asyncio.gather(*writing)
    shutil.rmtree(tmp_path / "data")
    assert prove(open_objects(address, options)).findings == ()

    other = ServerProcess(
        tmp_path / "other", "--restore-from", address, "--remote", address, *given, *FAST
    )

    for each in writers:
        assert set(range(each.acked)) <= set(await rows_of(other.port, each.table))
    assert other.stop() == 0
