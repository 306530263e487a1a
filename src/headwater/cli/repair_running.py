"""Running a repair from the command line: say what would be done, ask, and do it."""

from headwater.audit.files.repair_steps import RepairPlan
from headwater.audit.files.repairing import Begin, Cure, Cut, Rebuild, prepared
from headwater.cli.repair import RepairOptions
from headwater.cli.session import confirm, write
from headwater.client.paths import table_path


def run_repair(options: RepairOptions) -> None:
    """Decide, show, ask and mend, holding the directory all the while."""
    with prepared(
        options.directory,
        str(table_path(options.table)),
        bucket=options.bucket,
        partition=options.partition,
        cure=_cure(options),
    ) as repair:
        write(_text(repair.plan))
        if options.dry_run or not repair.plan.steps:
            return
        confirm(f"Repair bucket {options.bucket} of {options.table} like that?", yes=options.yes)
        repair.carry_out()
        write(f"{repair.plan.outcome}\n")


def _cure(options: RepairOptions) -> Cure:
    if options.cut_at is not None:
        return Cut(options.cut_at)
    if options.begin_at is not None:
        return Begin(options.begin_at)
    return Rebuild.STATE if options.rebuilds_state else Rebuild.INDEX


def _text(plan: RepairPlan) -> str:
    if not plan.steps:
        return f"{plan.outcome}\n"
    steps = [f"  {number}. {step}" for number, step in enumerate(plan.steps, start=1)]
    return "\n".join(["Steps, in the log directory:", *steps, *plan.warnings, ""])
