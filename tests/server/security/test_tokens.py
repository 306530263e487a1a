"""Tokens: whom they name, and what a cheat tries."""

import base64
import hashlib
import hmac
import json
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from headwater.cluster.links import TcpConnection
from headwater.cluster.login import Credentials
from headwater.config.server import ServerSettings
from headwater.errors import AuthenticationError, DisconnectedError, InvalidOptionError
from headwater.server import tokens as served
from headwater.server.tokens import Tokens
from headwater.wire import fluss_pb2 as pb
from tests.cases import cases
from tests.server.security.certificates import databases
from tests.server.support import HOST, FakeClock, connected, running

ISSUER, AUDIENCE = "https://issuer.example", "headwater"
RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def public(key) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def claims(**changed):
    now = datetime.now(UTC)
    usual = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ann",
        "exp": now + timedelta(minutes=5),
        "groups": ["sales", "eu"],
    }
    return {name: value for name, value in {**usual, **changed}.items() if value is not None}


def token(key=RSA, algorithm="RS256", headers=None, **changed):
    return jwt.encode(claims(**changed), key, algorithm=algorithm, headers=headers)


def jwks(**keys) -> str:
    kinds = {rsa.RSAPrivateKey: "RSAAlgorithm", ec.EllipticCurvePrivateKey: "ECAlgorithm"}
    made = []
    for name, key in keys.items():
        kind = next(value for each, value in kinds.items() if isinstance(key, each))
        described = getattr(jwt.algorithms, kind).to_jwk(key.public_key(), as_dict=True)
        made.append({**described, "kid": name})
    return json.dumps({"keys": made})


def settings(place, **changed):
    usual = {"token_issuer": ISSUER, "token_audience": AUDIENCE, "token_groups_claim": "groups"}
    return ServerSettings(token_keys=str(place), **{**usual, **changed})


def checks(path, content, **changed):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Tokens(settings(path, **changed), FakeClock())


@cases(("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS512"), (EC, "ES256"), (ED, "EdDSA")])
def test_a_token_of_the_issuer_names_its_principal_and_groups(tmp_path_factory, key, algorithm):
    tokens = checks(tmp_path_factory.mktemp("keys") / "key.pem", public(key))

    found = tokens.check(token(key, algorithm))

    assert (found.principal, found.groups) == ("ann", ("sales", "eu"))
    assert found.expires_ms is not None


def _unsigned() -> str:
    return jwt.encode(claims(), None, algorithm="none")


def _signed_with_the_public_key() -> str:
    """Pass the public key off as the secret of an HMAC, by hand: the library refuses to."""
    head = {"alg": "HS256", "typ": "JWT"}
    body = {**claims(), "exp": int(datetime.now(UTC).timestamp()) + 300}
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (head, body)
    ]
    signature = hmac.new(public(RSA), b".".join(parts), hashlib.sha256).digest()
    return b".".join((*parts, base64.urlsafe_b64encode(signature).rstrip(b"="))).decode()


@cases(
    ("made", "told"),
    [
        (lambda: token(OTHER_RSA), "signature"),
        (_unsigned, "No key of this server fits"),
        (_signed_with_the_public_key, "No key of this server fits"),
        (lambda: token(exp=datetime.now(UTC) - timedelta(minutes=1)), "expired"),
        (lambda: token(exp=None), "exp"),
        (lambda: token(nbf=datetime.now(UTC) + timedelta(minutes=5)), "not yet valid"),
        (lambda: token(iss="https://cheat.example"), "(?i)issuer"),
        (lambda: token(iss=None), "iss"),
        (lambda: token(aud="somebody"), "(?i)audience"),
        (lambda: token(aud=None), "aud"),
        (lambda: token(sub=None), "sub"),
        (lambda: token(sub=""), "not a name"),
        (lambda: token(sub="a\nb"), "not a name"),
        (lambda: token(groups={"a": 1}), "not a list of names"),
        (lambda: token(groups=[1]), "not a list of names"),
        (lambda: token()[:-4] + "AAAA", "signature"),
        (lambda: "a.b.c", "not accepted"),
        (lambda: "", "not accepted"),
    ],
)
def test_a_token_that_is_not_genuine_is_refused(tmp_path_factory, made, told):
    tokens = checks(tmp_path_factory.mktemp("keys") / "key.pem", public(RSA))

    with pytest.raises(AuthenticationError, match=told):
        tokens.check(made())


def test_another_claim_may_name_the_principal_and_none_the_groups(tmp_path):
    named = {"token_principal_claim": "email", "token_groups_claim": ""}
    tokens = checks(tmp_path / "key.pem", public(RSA), **named)

    found = tokens.check(token(email="ann@example.org"))

    assert (found.principal, found.groups) == ("ann@example.org", ())


def test_a_token_says_with_which_key_of_many_it_was_signed(tmp_path):
    tokens = checks(tmp_path / "keys.json", jwks(one=RSA, two=EC))

    assert tokens.check(token(EC, "ES256", {"kid": "two"})).principal == "ann"
    with pytest.raises(AuthenticationError):
        tokens.check(token(EC, "ES256", {"kid": "one"}))
    with pytest.raises(AuthenticationError, match="No key"):
        tokens.check(token(RSA, headers={"kid": "three"}))


def test_keys_in_a_file_are_read_again_when_it_changes(tmp_path):
    path = tmp_path / "keys.json"
    tokens = checks(path, jwks(one=RSA))
    assert tokens.check(token(headers={"kid": "one"})).principal == "ann"
    path.write_text(jwks(second=OTHER_RSA))

    with pytest.raises(AuthenticationError):
        tokens.check(token(headers={"kid": "one"}))
    assert tokens.check(token(OTHER_RSA, headers={"kid": "second"})).principal == "ann"


@cases(
    "content",
    [
        b"rubbish",
        b"{}",
        b'{"keys": []}',
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}]}).encode(),
        b"x" * (served.KEYS_BYTES_MAX + 1),
        b"[" * 5000,
    ],
)
def test_keys_that_cannot_be_used_are_refused_at_the_start(tmp_path_factory, content):
    tokens = checks(tmp_path_factory.mktemp("keys") / "keys", content)

    with pytest.raises(InvalidOptionError):
        tokens.load()


@cases("place", ["http://example.org/keys", "file:///etc/passwd", "https://", "ftp://a/b"])
def test_keys_are_fetched_over_https_only(place):
    with pytest.raises(InvalidOptionError, match="https"):
        Tokens(settings(place), FakeClock())


# ---- keys behind an address


class Issuer(BaseHTTPRequestHandler):
    """Serve keys on this machine, where http is allowed."""

    content = b""
    status = 200
    asked = 0

    def do_GET(self):
        type(self).asked += 1
        self.send_response(self.status)
        if self.status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_):
        pass


@pytest.fixture
def issuer():
    kind = type("OneIssuer", (Issuer,), {})
    server = HTTPServer((HOST, 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    kind.place = f"http://{HOST}:{server.server_port}/keys"
    yield kind
    server.shutdown()
    thread.join()
    server.server_close()


def test_keys_are_fetched_once_and_again_for_a_new_key_but_not_for_every_token(issuer):
    clock = FakeClock()
    tokens = Tokens(settings(issuer.place), clock)
    issuer.content = jwks(one=RSA).encode()
    for _ in range(5):
        tokens.check(token(headers={"kid": "one"}))
    assert issuer.asked == 1
    issuer.content = jwks(one=RSA, two=OTHER_RSA).encode()
    clock.milliseconds += 60_000

    assert tokens.check(token(OTHER_RSA, headers={"kid": "two"})).principal == "ann"
    for number in range(20):
        with pytest.raises(AuthenticationError):
            tokens.check(token(headers={"kid": f"made up {number}"}))
    assert issuer.asked == 2


@cases(
    ("status", "content"),
    [(500, b""), (302, b""), (200, b"x" * (served.KEYS_BYTES_MAX + 1)), (200, b"rubbish")],
)
def test_an_issuer_that_fails_lets_nobody_in_and_is_not_followed(issuer, status, content):
    issuer.status, issuer.content, issuer.asked = status, content, 0
    tokens = Tokens(settings(issuer.place), FakeClock())

    with pytest.raises(AuthenticationError, match="No key"):
        tokens.check(token(headers={"kid": "one"}))
    assert issuer.asked == 1


def test_keys_stay_in_force_while_the_issuer_is_away(issuer):
    clock = FakeClock()
    tokens = Tokens(settings(issuer.place), clock)
    issuer.content = jwks(one=RSA).encode()
    tokens.check(token(headers={"kid": "one"}))
    issuer.status = 503
    clock.milliseconds += 1_000_000

    assert tokens.check(token(headers={"kid": "one"})).principal == "ann"
    assert issuer.asked == 2


# ---- sessions


def served_with(path) -> dict[str, str]:
    path.write_bytes(public(RSA))
    return {
        "token_keys": str(path),
        "token_issuer": ISSUER,
        "token_audience": AUDIENCE,
        "token_groups_claim": "groups",
    }


async def test_a_client_logs_in_with_a_token_and_reads_a_new_one_from_its_file(tmp_path):
    file = tmp_path / "token"
    async with running(tmp_path / "data", **served_with(tmp_path / "key.pem")) as server:
        for name in ("ann", "bob"):
            file.write_text(token(sub=name) + "\n")
            credentials = Credentials(token_file=str(file))
            client = await TcpConnection.open(HOST, server.port, credentials=credentials)
            assert await databases(client) == ["fluss"]
            (connection,) = server.listener._connections
            assert connection.session.principal == name
            assert connection.session.groups == ("sales", "eu")
            await client.close()


async def test_a_session_ends_with_its_token(tmp_path):
    clock = FakeClock(int(datetime.now(UTC).timestamp() * 1000))
    given = served_with(tmp_path / "key.pem")
    async with running(tmp_path / "data", clock=clock, **given) as server:
        credentials = Credentials(token=token())
        client = await TcpConnection.open(HOST, server.port, credentials=credentials)
        (connection,) = server.listener._connections
        connection._look_at_expiry()
        assert await databases(client) == ["fluss"]
        clock.milliseconds += 400_000
        connection._look_at_expiry()

        with pytest.raises(DisconnectedError):
            await databases(client)
        await client.close()


@cases(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer a\x01\x01",
        b"n,a=root,\x01auth=Bearer TOKEN\x01\x01",
        b"n,,\x01auth=Bearer TOKEN",
        b"\xff",
    ],
)
async def test_a_message_without_a_token_of_its_own_is_refused(tmp_path_factory, message):
    folder = tmp_path_factory.mktemp("data")
    given = served_with(folder / "key.pem")
    async with running(folder / "data", **given) as server, connected(server) as client:
        text = message.replace(b"TOKEN", token().encode())
        request = pb.AuthenticateRequest(protocol="OAUTHBEARER", token=text)

        with pytest.raises(AuthenticationError):
            await client.call(request, pb.AuthenticateResponse)


def test_a_token_whose_end_is_a_text_is_refused(tmp_path):
    tokens = checks(tmp_path / "key.pem", public(RSA))

    with pytest.raises(AuthenticationError, match="'exp' of the token is not a number"):
        tokens.check(token(exp="99999999999"))


def test_what_a_token_says_of_its_key_opens_no_file_and_no_address(tmp_path):
    tokens = checks(tmp_path / "jwks.json", jwks(ours=RSA))
    tricks = [
        {"kid": "../../../etc/passwd"},
        {"kid": "zz", "jku": "http://127.0.0.1:1/jwks", "x5u": "file:///etc/passwd"},
        {"kid": "zz", "jwk": json.loads(jwks(zz=OTHER_RSA))["keys"][0]},
        {"kid": "ours", "crit": ["ours-only"], "ours-only": 1},
    ]

    for headers in tricks:
        with pytest.raises(AuthenticationError):
            tokens.check(token(OTHER_RSA, headers=headers))
