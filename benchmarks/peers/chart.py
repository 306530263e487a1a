"""One picture of all figures: a panel for each thing measured, a bar for each peer."""

import html
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.results import Line, told

OURS, OTHERS = "#0b7285", "#adb5bd"
COLUMNS = 3
PANEL_INCHES = (5.2, 2.0)
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em}}
table{{border-collapse:collapse;font-size:13px}}td,th{{border-bottom:1px solid #ddd;padding:4px 8px;
text-align:right}}td:first-child,th:first-child{{text-align:left}}img{{width:100%;height:auto}}
</style><h1>{title}</h1><p>{about}</p><img src="peers.png" alt="{title}">{table}</html>
"""


def draw(lines: Sequence[Line], peers: Sequence[str], title: str):  # noqa: ANN201 - untyped
    """Return the picture."""
    import matplotlib as mpl  # noqa: PLC0415 - installed for this run only

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    shown = [line for line in lines if "processor" not in line.what]
    height = -(-len(shown) // COLUMNS)
    figure, panels = plt.subplots(
        height, COLUMNS, figsize=(PANEL_INCHES[0] * COLUMNS, PANEL_INCHES[1] * height + 0.6)
    )
    for panel in panels.flat[len(shown) :]:
        panel.set_visible(False)
    for panel, line in zip(panels.flat, shown, strict=False):
        _draw_line(panel, line, [name for name in peers if name in line.values])
    figure.suptitle(title, fontsize=14)
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    return figure


def _draw_line(panel, line: Line, names: Sequence[str]) -> None:  # noqa: ANN001 - untyped
    values = [line.values[name] for name in names]
    middles = [value.middle for value in values]
    errors = [
        [value.middle - value.least for value in values],
        [value.most - value.middle for value in values],
    ]
    colours = [OURS if name.startswith("Headwater") else OTHERS for name in names]
    panel.barh(names, middles, xerr=errors, color=colours, ecolor="#495057", height=0.7)
    panel.invert_yaxis()
    better = "more is better" if line.is_more_better else "less is better"
    panel.set_title(f"{line.what} ({line.unit}; {better})", fontsize=9, loc="left")
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
    most = max(value.most for value in values)
    panel.set_xlim(0, most * 1.18)
    for place, value in enumerate(values):
        panel.text(value.most + most * 0.015, place, told(value.middle), va="center", fontsize=8)


def save(lines: Sequence[Line], peers: Sequence[str], place: Path, *, title: str, about: str):  # noqa: ANN201
    """Write the picture as PNG, and as a page with the table below it."""
    figure = draw(lines, peers, title)
    figure.savefig(place / "peers.png", dpi=110)
    (place / "peers.html").write_text(
        PAGE.format(
            title=html.escape(title),
            about=html.escape(about),
            table=_table(lines, peers),
        ),
        encoding="utf-8",
    )


def _table(lines: Sequence[Line], peers: Sequence[str]) -> str:
    head = "".join(f"<th>{html.escape(each)}</th>" for each in ("what", "unit", *peers))
    rows = []
    for line in lines:
        cells = [line.what, line.unit]
        cells += [told(line.values[name].middle) if name in line.values else "" for name in peers]
        rows.append("".join(f"<td>{html.escape(each)}</td>" for each in cells))
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"
