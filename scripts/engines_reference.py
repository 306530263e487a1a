"""The reference page of what reads tables in other engines, from signatures and docstrings."""

from collections.abc import Iterator
from importlib import import_module

from scripts.python_reference import function_text

MODULES = {
    "duckdb": "[How to use it](../how-to/duckdb.md), with the SQL functions and their arguments.",
    "polars": "[How to use it](../how-to/polars-datafusion-pandas.md#polars).",
    "datafusion": "[How to use it](../how-to/polars-datafusion-pandas.md#datafusion).",
    "arrow": "[How to use it](../how-to/polars-datafusion-pandas.md#arrow).",
}


def engines_reference() -> Iterator[str]:
    """Yield the parts of the page."""
    yield "# Other engines"
    yield (
        "What makes an engine read [lake and log as one](../how-to/union-read.md). Each module"
        " needs the extra of its name, such as `pip install 'headwater[duckdb]'`; `headwater.arrow`"
        " needs none. Spark has [a page of its own](spark.md)."
    )
    for name, text in MODULES.items():
        module = import_module(f"headwater.{name}")
        yield f"## headwater.{name}"
        yield text
        for member in module.__all__:
            yield from function_text(getattr(module, member), called=f"{name}.{member}")
