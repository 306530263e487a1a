"""`headwater explain`: what reading a table would do, and what it would leave out."""

from headwater.cli.command import command
from headwater.cli.layout import clean
from headwater.cli.naming import TableName
from headwater.cli.output import Output, document_text
from headwater.cli.pairs import listed
from headwater.cli.plan import AsJson
from headwater.cli.positions import Position, positioned
from headwater.cli.read import Columns, WhereOption
from headwater.cli.session import Session, write
from headwater.cli.where import conditions


@command(reads_lakes=True)
@positioned
def explain(
    session: Session,
    table: TableName,
    *,
    columns: Columns = None,
    where: WhereOption = None,
    json: AsJson = False,
    position: Position,
) -> None:
    """Tell what reading a table would do: tiers, files, offsets, what is left out, how fresh it is.

    Example: headwater explain orders --where "day = '2026-03-01'"
    """
    view = position.view(session.client.table(table))
    told = view.explain(
        columns=listed([columns]) if columns else None,
        where=conditions(where, view.schema) if where else None,
    )
    if session.output is Output.TABLE and not json:
        write("".join(f"{clean(line)}\n" for line in str(told).splitlines()))
    else:
        output = Output.JSON if json else session.output
        write(document_text(told.to_json(), output=output))
