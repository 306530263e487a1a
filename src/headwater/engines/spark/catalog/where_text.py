"""Conditions as EXPLAIN shows them."""

from headwater.client.reading.filters import Term, Where, branches_of


def where_text(where: Where) -> str:
    """Return a condition as people write it."""
    texts = [" and ".join(map(_term, branch)) for branch in branches_of(where)]
    return texts[0] if len(texts) == 1 else " or ".join(f"({text})" for text in texts)


def _term(term: Term) -> str:
    column, operator, *value = term
    return " ".join((column, operator, *map(repr, value)))
