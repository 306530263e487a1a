"""One bucket that is audited, and how to say what is wrong with it."""

from dataclasses import dataclass

from headwater.audit.finding import Check, Finding, Severity
from headwater.audit.report import Notes
from headwater.client.cluster import Cluster
from headwater.client.reading.log_batch import Place
from headwater.client.reading.offsets import When, list_offsets
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedBucket:
    """Name a bucket, for people and for servers, and take findings about it."""

    cluster: Cluster
    table: TableInfo
    place: Place
    bucket: TableBucket
    notes: Notes

    def bad(
        self,
        check: Check,
        message: str,
        *,
        offset: int | None = None,
        remedy: str = "",
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Note that something is wrong in the bucket."""
        self.notes.bad(
            Finding(
                check=check,
                severity=severity,
                table=str(self.table.path),
                partition=self.place.partition,
                bucket=self.place.bucket,
                offset=offset,
                message=message,
                remedy=remedy,
            )
        )

    @property
    def shown(self) -> str:
        """Return the name of the bucket as people write it."""
        of_partition = "" if self.place.partition is None else f"partition {self.place.partition} "
        return f"{of_partition}bucket {self.place.bucket}"

    async def offset(self, when: When) -> int:
        """Return the offset of the log at a moment."""
        buckets = {self.place: self.bucket}
        return (await list_offsets(self.cluster, self.table, when, buckets=buckets))[self.place]

    def repair(self, cure: str) -> str:
        """Return the command that mends the bucket where its data directory lies."""
        of_partition = (
            "" if self.place.partition is None else f" --partition {self.place.partition}"
        )
        return (
            f"headwater repair DIRECTORY {self.table.path}{of_partition}"
            f" --bucket {self.place.bucket} {cure}"
        )

    @property
    def rebuild(self) -> str:
        """Return the command that has the state built anew."""
        return self.repair("--rebuild-state")
