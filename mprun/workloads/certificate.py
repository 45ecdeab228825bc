# SPDX-License-Identifier: Apache-2.0
"""A key and a certificate for the server of a flow, made by openssl(1) before the run begins.

The key is Ed25519 if the program accepts it. Signatures then have a fixed length, so the sizes of packets repeat
whatever the random numbers are.
"""

from __future__ import annotations

from mprun.model.plan import File, Process
from mprun.model.spec import Flow
from mprun.workloads.tool import Program, temporary

PROGRAMS = {"openssl": Program("openssl", "version")}

# Disable the processor's random numbers (RDRAND, RDSEED) and clock (RDTSC) for OpenSSL, because no seed controls them;
# see OPENSSL_ia32cap(3).
DETERMINISTIC = {"OPENSSL_ia32cap": "~0x4000000000000010:~0x40000"}
# The same, and without the processor's instructions for AES.
WITHOUT_AES = {"OPENSSL_ia32cap": "~0x4200000000000010:~0x40000"}
# Kinds of key, as arguments of openssl-req(1).
ED25519 = ("ed25519",)
P256 = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
_DAYS = 3650
_CONFIGURATION = """\
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = {name}
[extensions]
basicConstraints = critical, CA:TRUE
subjectAltName = IP:{address}, DNS:{name}{more}
"""
# Further names, for a certificate of more than 3600 bytes: a QUIC server may not send more to a new address before the
# client answers 1200 bytes (RFC 9000 8.1). Without a certificate, a padded answer has at most 1500 bytes.
_MORE_NAMES = "".join(f", DNS:{n:060}" for n in range(64))


def certificate_of(flow: Flow) -> str:
    """Return the path of the certificate, in PEM format. A client must trust it, as it is self-signed."""
    return temporary(flow, "certificate.pem")


def key_of(flow: Flow) -> str:
    """Return the path of the certificate's private key, in PEM format."""
    return temporary(flow, "key.pem")


def make_certificate(flow: Flow, address: str, key: tuple[str, ...] = ED25519) -> Process:
    """Return the preparation that makes key and certificate for a server at `address`.

    The certificate of a test case of interoperability runners is large.
    """
    more = _MORE_NAMES if flow.options.get("testcase") else ""
    text = _CONFIGURATION.format(name=flow.destination, address=address, more=more)
    configuration = File(temporary(flow, "openssl.cnf"), text)
    argv = ["openssl", "req", "-x509", "-newkey", *key, "-nodes", "-config", configuration.path]
    argv += ["-set_serial", "1", "-days", str(_DAYS), "-keyout", key_of(flow), "-out", certificate_of(flow)]
    return Process(
        name=f"{flow.name}.certificate",
        node=flow.destination,
        argv=tuple(argv),
        env=DETERMINISTIC,
        role="preparation",
        files=(configuration,),
    )
