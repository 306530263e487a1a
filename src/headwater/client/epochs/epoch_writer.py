"""Writing the rows of one epoch exactly once: the conductor."""

from collections.abc import Sequence

from headwater.client.cluster import Cluster
from headwater.client.epochs.epoch import Epoch
from headwater.client.epochs.receipts import EpochReceipt
from headwater.client.rows_in import RowsLike
from headwater.client.writing.writers import Writers
from headwater.errors import UnsupportedError
from headwater.model.table import TableInfo


class EpochWriter:
    """Write epochs of one table."""

    def __init__(self, cluster: Cluster, table: TableInfo, writers: Writers) -> None:
        self._cluster = cluster
        self._table = table
        self._writers = writers

    async def write(
        self,
        rows: RowsLike,
        epoch: Epoch,
        *,
        deletes: str | None,
        columns: Sequence[str] | None,
    ) -> EpochReceipt:
        """Write all rows of an epoch, less those that have landed before."""
        raise UnsupportedError("Epochs cannot be written yet.")
