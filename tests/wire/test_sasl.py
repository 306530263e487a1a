"""SCRAM as its RFCs write it, and what is refused on both sides."""

import base64
import hashlib
import hmac
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import AuthenticationError
from headwater.wire.sasl import (
    DIGESTS,
    ITERATIONS_MAX,
    ClientFirst,
    ScramClient,
    Verifier,
    challenge,
    mechanism_refused,
    mechanisms_enabled,
    prepared,
)
from tests.cases import cases
from tests.choices import examples

# The exchange in section 3 of RFC 7677.
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
PROOF = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SIGNATURE = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
MECHANISMS = sorted(DIGESTS)


def verifier(mechanism="SCRAM-SHA-256", password="pencil", iterations=4096):
    return Verifier.of(mechanism, password, salt=SALT, iterations=iterations)


def asked(mechanism="SCRAM-SHA-256", **given):
    return challenge(ClientFirst.parse(FIRST), verifier(mechanism, **given), nonce=SERVER_NONCE)


def client(mechanism="SCRAM-SHA-256", password="pencil"):
    return ScramClient(mechanism, "user", password, nonce=CLIENT_NONCE)


def test_the_client_says_what_the_rfc_says():
    ours = client()

    assert ours.first() == FIRST
    assert ours.next(CHALLENGE) == PROOF
    assert ours.next(SIGNATURE) is None


def test_the_server_says_what_the_rfc_says():
    expected = asked()

    assert expected.message == CHALLENGE
    assert expected.answered(PROOF) == SIGNATURE


@cases("mechanism", MECHANISMS)
def test_a_verifier_is_what_the_rfc_computes(mechanism):
    digest = DIGESTS[mechanism]
    # Hi() of RFC 5802 written out, with its own loop in place of the library's.
    block = result = hmac.digest(b"pencil", SALT + b"\0\0\0\1", digest)
    for _ in range(4095):
        block = hmac.digest(b"pencil", block, digest)
        result = bytes(a ^ b for a, b in zip(result, block, strict=True))
    client_key = hmac.digest(result, b"Client Key", digest)

    made = verifier(mechanism)

    assert made.stored_key == hashlib.new(digest, client_key).digest()
    assert made.server_key == hmac.digest(result, b"Server Key", digest)


@settings(max_examples=examples(40), deadline=None)
@given(
    mechanism=st.sampled_from(MECHANISMS),
    user=st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=20),
    password=st.text(st.characters(codec="utf-8"), max_size=20),
    other=st.text(st.characters(codec="utf-8"), max_size=20),
)
def test_only_who_knows_the_password_gets_in(mechanism, user, password, other):
    ours = ScramClient(mechanism, user, other, nonce="abc")
    first = ClientFirst.parse(ours.first())
    expected = challenge(first, verifier(mechanism, password), nonce="def")
    proof = ours.next(expected.message)

    assert first.user == user
    if prepared(password) == prepared(other):
        assert ours.next(expected.answered(proof)) is None
    else:
        with pytest.raises(AuthenticationError, match="wrong"):
            expected.answered(proof)


@settings(max_examples=examples(300), deadline=None)
@given(token=st.binary(max_size=200), tail=st.binary(max_size=60))
def test_messages_from_strangers_are_refused_and_nothing_else(token, tail):
    for message in (token, FIRST + tail, PROOF + tail, CHALLENGE + tail):
        for take in (ClientFirst.parse, asked().answered, client().next):
            with suppress(AuthenticationError):
                take(message)


@cases(
    "first",
    [
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,m=ext,n=user,r=abc",
        b"n,a=root,n=user,r=abc",
        b"n,,n=us=er,r=abc",
        b"x,,n=user,r=abc",
        b"n,,n=user",
        b"\xff,,n=user,r=abc",
        b"n,,n=" + b"u" * 4000 + b",r=abc",
    ],
)
def test_a_first_message_that_is_not_allowed_is_refused(first):
    with pytest.raises(AuthenticationError):
        ClientFirst.parse(first)


@cases(
    "proof",
    [
        PROOF.replace(b"c=biws", b"c=eSws"),  # another header than in the first message
        PROOF.replace(b"k0,p=", b"k1,p="),  # another nonce
        PROOF[:-8] + b"AAAAAAA=",
        PROOF[: PROOF.index(b",p=")],
        PROOF.replace(b"dHzb", b"dHz!"),
        PROOF + b"AAAA",
        b"",
    ],
)
def test_a_proof_that_was_tampered_with_is_refused(proof):
    with pytest.raises(AuthenticationError):
        asked().answered(proof)


def test_a_proof_is_worth_nothing_in_another_exchange():
    again = challenge(ClientFirst.parse(FIRST), verifier(), nonce="another")

    with pytest.raises(AuthenticationError):
        again.answered(PROOF)


@cases(
    "told",
    [
        CHALLENGE.replace(b"i=4096", b"i=4095"),
        CHALLENGE.replace(b"i=4096", f"i={ITERATIONS_MAX + 1}".encode()),
        CHALLENGE.replace(b"i=4096", b"i=0"),
        CHALLENGE.replace(b"i=4096", b"i=-1"),
        CHALLENGE.replace(b"r=rOpr", b"r=rOpx"),
        b"r=" + CLIENT_NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        CHALLENGE.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="),
        b"e=other-error",
        b"",
    ],
)
def test_a_client_answers_no_challenge_that_weakens_the_password(told):
    with pytest.raises(AuthenticationError):
        client().next(told)


@cases("told", [b"v=AAAA", b"", b"v=", b"e=invalid-proof", SIGNATURE.replace(b"6rri", b"7rri")])
def test_a_server_that_does_not_know_the_password_is_an_impostor(told):
    ours = client()
    ours.next(CHALLENGE)

    with pytest.raises(AuthenticationError):
        ours.next(told)


@cases(
    ("typed", "same"),
    [("I\u00adX", "IX"), ("\u00aa", "a"), ("\u2168", "IX"), ("a\u00a0b", "a b"), ("e\u0301", "é")],
)
def test_a_password_is_the_same_however_it_was_typed(typed, same):
    assert prepared(typed) == prepared(same)


@cases("text", ["\x07", "\u0627\u0031", "\u00ad", ""])
def test_a_password_that_cannot_be_normalised_is_taken_as_it_is(text):
    assert prepared(text) == text.encode()


def test_a_refusal_names_the_mechanisms_as_apache_fluss_does():
    ours = mechanism_refused("GSSAPI", ("SCRAM-SHA-512", "PLAIN"))
    theirs = AuthenticationError("SASL server enables [PLAIN] while protocol of client is 'X'")

    assert mechanisms_enabled(ours) == ("SCRAM-SHA-512", "PLAIN")
    assert mechanisms_enabled(theirs) == ("PLAIN",)
    assert mechanisms_enabled(AuthenticationError("The password is wrong.")) is None
