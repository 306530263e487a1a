"""An open console in this process, and a browser as far as HTTP is concerned."""

import re
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, Request, build_opener

from headwater.console.door import ConsoleDoor, rules_for
from headwater.doors.conductor import DoorListener
from headwater.doors.storage import DoorPlace, DoorStorage
from headwater.runtime.loops import LoopThread

_TOKEN = re.compile(r'data-form-token="([^"]+)"')


@dataclass(frozen=True)
class Shown:
    status: int
    headers: dict
    text: str


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Browser:
    """Keeps cookies, follows no redirects, and sends the token of the last page with forms."""

    def __init__(self, address):
        self.address = address
        self.cookies = CookieJar()
        self.token = ""
        self._opener = build_opener(HTTPCookieProcessor(self.cookies), _NoRedirects())

    def get(self, path, **headers):
        return self._ask(Request(self.address + path, headers=_named(headers)))

    def post(self, path, values=None, *, token=None, **headers):
        form = {**(values or {}), "form_token": self.token if token is None else token}
        data = urlencode(form).encode()
        return self._ask(Request(self.address + path, data=data, headers=_named(headers)))

    def log_in(self, user, password):
        self.get("/login")
        return self.post("/login", {"user": user, "password": password, "to": "/tables"})

    def _ask(self, request):
        try:
            with self._opener.open(request, timeout=30) as answer:
                return self._shown(answer.status, answer)
        except HTTPError as refusal:
            with refusal:
                return self._shown(refusal.code, refusal)

    def _shown(self, status, answer):
        text = answer.read().decode("utf-8", "replace")
        if found := _TOKEN.search(text):
            self.token = found[1]
        return Shown(status, {k.lower(): v for k, v in answer.headers.items()}, text)


def _named(headers):
    return {name.replace("_", "-"): value for name, value in headers.items()}


@contextmanager
def opened_console(at, *, edit=False, measured=None, report=None, **place):
    storage = DoorStorage(DoorPlace(at=at, **place))
    loop = LoopThread("console")
    try:
        listener = DoorListener()
        rules = rules_for(listener, may_edit=edit, report=report)
        door = ConsoleDoor(storage, listener, rules, measured=measured)
        address = loop.run(door.start())
        yield address
        loop.run(door.stop())
    finally:
        loop.close()
        storage.close()
