"""The one who audits: through the protocol while all goes on, and on files after a crash."""

from headwater.audit.files.walk import audit_disk
from headwater.audit.report import Check, Finding, Notes, Severity
from headwater.audit.tables import audit_storage
from headwater.client.client import AsyncClient
from headwater.errors import RetryLaterError
from headwater.store.memory import MemoryDisk
from tests.simulation.world import World

PAUSE_S = 6.0


async def audit_again_and_again(world: World, name: str) -> None:
    """Audit for ever; that something cannot be reached is nothing to be wondered at."""
    chance = world.chance(name)
    client = await world.connect()
    while True:
        await world.pause(chance, PAUSE_S)
        try:
            await audit_once(world, client, name, deep=chance.random() < 0.3, is_calm=False)
        except RetryLaterError as fault:
            world.refused("the audit ended", fault)


async def audit_once(
    world: World, client: AsyncClient, name: str, *, deep: bool, is_calm: bool
) -> None:
    """Audit all tables, and note what is found."""
    report = await audit_storage(client, deep=deep)
    world.figures["audits"] += 1
    amounts = ", ".join(f"{each.check} {each.amount}" for each in report.proofs)
    world.note(f"audited{' deeply' if deep else ''}: {amounts}")
    for finding in report.findings:
        if is_calm or finding.check is not Check.READABLE:
            _judge(world, name, finding)


def audit_image(world: World, disk: MemoryDisk) -> None:
    """Audit the files that a crash has left, before anybody mends them."""
    notes = Notes()
    audit_disk(disk, notes, deep=True)
    for finding in notes.findings:
        _judge(world, "the audit of files", finding)


def _judge(world: World, name: str, finding: Finding) -> None:
    where = f"{finding.table} {finding.bucket} {finding.offset}"
    text = f"{name}: {finding.check} of {where}: {finding.message}"
    if finding.severity is Severity.ERROR:
        world.violated(text)
    else:
        world.note(text)
