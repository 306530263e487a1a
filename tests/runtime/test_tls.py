"""What a certificate says, read as another library reads it, and rubbish in its place."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.runtime.tls import CertificateFacts, facts_of
from headwater.server.security.tls import identity_of, subject_text
from tests.cases import cases
from tests.choices import examples

KEY = ec.generate_private_key(ec.SECP256R1())
# Names of a subject: printable, as a CA would sign them.
NAMES = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), min_size=1, max_size=20
)
MOMENTS = st.datetimes(datetime(1951, 1, 1), datetime(2200, 1, 1)).map(
    lambda each: each.replace(microsecond=0)
)


def certificate(name, begins, ends):
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "less specific"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "sales"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    building = x509.CertificateBuilder().subject_name(subject).issuer_name(subject)
    building = building.public_key(KEY.public_key()).serial_number(1)
    building = building.not_valid_before(begins).not_valid_after(ends)
    return building.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


@settings(max_examples=examples(100), deadline=None)
@given(name=NAMES, begins=MOMENTS, days=st.integers(0, 10_000))
def test_name_and_validity_are_what_was_signed(name, begins, days):
    ends = begins + timedelta(days=days)

    found = facts_of(certificate(name, begins, ends))

    assert found == CertificateFacts(name, begins.replace(tzinfo=UTC), ends.replace(tzinfo=UTC))


@settings(max_examples=examples(400), deadline=None)
@given(at=st.integers(0, 400), value=st.integers(0, 255), cut=st.integers(0, 500))
def test_a_certificate_that_was_tampered_with_is_read_or_refused(at, value, cut):
    whole = bytearray(certificate("ann", datetime(2026, 1, 1), datetime(2027, 1, 1)))
    whole[at % len(whole)] = value

    for data in (bytes(whole), bytes(whole[:cut]), bytes(whole[cut:])):
        with suppress(ValueError):
            facts_of(data)


@cases(
    ("year", "told"),
    [(2025, "not valid before 2026-01-01"), (2026, ""), (2028, "until 2027-01-01")],
)
def test_a_certificate_says_what_is_wrong_with_it(year, told):
    facts = CertificateFacts(
        "ann", datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    )

    found = facts.fault(int(datetime(year, 6, 1, tzinfo=UTC).timestamp() * 1000))

    assert (told in found) if told else found == ""


SUBJECT = (
    (("countryName", "DE"),),
    (("organizationName", "Smith, Sons; + Co"),),
    (("organizationalUnitName", "sales"),),
    (("commonName", " #ann "),),
)


def test_a_subject_is_written_as_the_rfc_says():
    assert subject_text(SUBJECT) == "CN=\\ #ann\\ ,OU=sales,O=Smith\\, Sons\\; \\+ Co,C=DE"


@cases(
    "found",
    [
        None,
        {},
        {"subject": ()},
        {"subject": ((("organizationName", "Shop"),),)},
        {"subject": ((("commonName", "a\nb"),),)},
        {"subject": ((("commonName", "x" * 500),),)},
        {"subject": ((("commonName", "root"),), (("commonName", "ann"),))},
        {"subject": ((("commonName", "root"), ("commonName", "ann")),)},
    ],
)
def test_a_certificate_without_a_usable_name_names_nobody(found):
    assert identity_of(found, kind="cn") is None


def test_a_certificate_names_whom_it_belongs_to():
    found = identity_of({"subject": SUBJECT, "notAfter": "Jan  5 09:34:43 2027 GMT"}, kind="cn")

    assert found is not None
    assert (found.principal, found.groups) == (" #ann ", ("sales",))
    assert found.expires_ms == int(datetime(2027, 1, 5, 9, 34, 43, tzinfo=UTC).timestamp() * 1000)


def test_a_subject_that_is_no_certificate_is_refused():
    with pytest.raises(ValueError, match="certificate"):
        facts_of(b"\x30\x03\x02\x01\x01")
