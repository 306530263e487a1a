"""SQL as people type it: where a statement ends, and what a word may become."""

import re
from collections.abc import Iterable

_KEYWORDS = """
    ALL ANALYZE AND AS ASC BETWEEN BY CASE CAST COUNT CREATE DESC DESCRIBE DISTINCT DROP ELSE END
    EXCEPT EXISTS EXPLAIN FALSE FROM GROUP HAVING IN INSERT INTERSECT INTO IS JOIN LEFT LIKE LIMIT
    MACRO MAX MIN NOT NULL OFFSET ON OR ORDER OVER PARTITION PIVOT QUALIFY SELECT SET SHOW SUM
    SUMMARIZE TABLE TABLES THEN TRUE UNION USING VALUES VIEW WHEN WHERE WINDOW WITH
"""
KEYWORDS = tuple(_KEYWORDS.split())
# What hides a semicolon: text, quoted names, text between dollars, and both kinds of comments.
_HIDING = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | (?P<dollar>\$\w*\$).*?(?P=dollar)"""
    r""" | --[^\n]*(?:\n|\Z) | /\*.*?\*/""",
    re.VERBOSE | re.DOTALL,
)
_OPEN = re.compile(r"""['"] | \$\w*\$ | /\*""", re.VERBOSE)
_WORD = re.compile(r"""[\w.$"]*\Z""")
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")


def is_complete(text: str) -> bool:
    """Tell whether what was typed ends with a semicolon that ends a statement."""
    bare = _HIDING.sub(" ", text)
    return _OPEN.search(bare) is None and bare.rstrip().endswith(";")


def is_blank(text: str) -> bool:
    """Tell whether there is nothing in a text but space, comments and semicolons."""
    return not re.sub(r"--[^\n]*(?:\n|\Z)|/\*.*?\*/|[\s;]", "", text, flags=re.DOTALL)


def quoted_name(name: str) -> str:
    """Return a name as it has to be written, in quotes where it needs them."""
    if _PLAIN.match(name) and name.upper() not in KEYWORDS:
        return name
    return '"{}"'.format(name.replace('"', '""'))


def completions(typed: str, names: Iterable[str]) -> list[str]:
    """Return what the last word of a line may become: names first, then keywords."""
    found = _WORD.search(typed)
    word = "" if found is None else found.group()
    lower = word.lower()
    fitting = [name for name in dict.fromkeys(names) if name.lower().startswith(lower)]
    if not word:
        return fitting
    written = str.lower if word == lower else str.upper
    return fitting + [written(key) for key in KEYWORDS if key.startswith(word.upper())]
