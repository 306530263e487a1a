"""The table of cursors, made once by whoever comes first."""

import pytest

from headwater import aio
from headwater.client.cursors import ledger as store
from headwater.cluster import admin as own_tables
from headwater.cluster.router import TableKeys
from headwater.config.options import DATALAKE_FORMAT
from headwater.errors import ServerFaultError
from headwater.rows.buckets import BucketFunction
from headwater.rows.keys import primary_key_format
from headwater.wire.apis import ApiKey


class Racing:
    """Be a cluster on which others create the table at the same moment, or nobody does."""

    def __init__(self, pool, *, is_made, half_for=0):
        self._pool = pool
        self._is_made = is_made
        self._half_for = half_for
        self.reached = pool.reached

    async def link(self, address):
        self._link = await self._pool.link(address)
        return self

    async def exchange(self, api, parts, *, timeout_s):
        if api.key is ApiKey.GET_METADATA and self._half_for:
            self._half_for -= 1
            raise ServerFaultError("Failed to get tables.")
        if api.key is not ApiKey.CREATE_TABLE:
            return await self._link.exchange(api, parts, timeout_s=timeout_s)
        if self._is_made:
            await self._link.exchange(api, parts, timeout_s=timeout_s)
        raise ServerFaultError("Fail to register schema.")

    async def close(self):
        await self._pool.close()


async def test_a_table_that_others_make_at_the_same_moment_is_used(tmp_path):
    async with await aio.open(tmp_path / "data") as client:
        client.cluster._pool = Racing(client.cluster._pool, is_made=True)

        info = await store.ensure_cursors(client.cluster)

        assert str(info.path) == "headwater.cursors"


async def test_keys_are_in_the_form_of_fluss_whatever_the_lake_of_a_cluster_is(tmp_path):
    async with await aio.open(tmp_path / "data") as client:
        info = await store.ensure_cursors(client.cluster)

        found = TableKeys.of(info.descriptor)

    # A format is named, as a cluster would put its own in the place of none.
    assert DATALAKE_FORMAT.of(info.descriptor.properties) is not None
    assert found.function is BucketFunction.FLUSS
    assert primary_key_format(info.descriptor) is None


async def test_a_table_that_is_there_by_half_is_waited_for(tmp_path):
    async with await aio.open(tmp_path / "data") as client:
        await store.ensure_cursors(client.cluster)
        client.cluster._pool = Racing(client.cluster._pool, is_made=True, half_for=3)

        info = await store.ensure_cursors(client.cluster)

        assert str(info.path) == "headwater.cursors"


async def test_a_table_that_nobody_can_make_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(own_tables, "MADE_WITHIN_S", 0.2)
    async with await aio.open(tmp_path / "data") as client:
        client.cluster._pool = Racing(client.cluster._pool, is_made=False)

        with pytest.raises(ServerFaultError, match="register"):
            await store.ensure_cursors(client.cluster)
