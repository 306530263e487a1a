"""The pages of a server for those who watch it: its metrics, and whether it is well."""

from collections.abc import Callable
from http import HTTPStatus

from headwater.metrics.exposition import CONTENT_TYPE, Exposition
from headwater.server.context import Services
from headwater.server.listener import Listener
from headwater.server.metrics import ServerMetrics
from headwater.server.metrics_health import reasons_unwell
from headwater.server.metrics_listener import Page


def watched_pages(services: Services, listener: Listener) -> dict[str, Callable[[], Page]]:
    """Return the pages by their paths."""
    exposition = Exposition(ServerMetrics(services, listener).read)

    def metrics() -> Page:
        return Page(exposition.text(), CONTENT_TYPE)

    def health() -> Page:
        reasons = reasons_unwell(services)
        if not reasons:
            return Page(b"ok\n")
        content = "".join(f"{reason}\n" for reason in reasons).encode()
        return Page(content, status=HTTPStatus.SERVICE_UNAVAILABLE)

    return {"/metrics": metrics, "/health": health}
