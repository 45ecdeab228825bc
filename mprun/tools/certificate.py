# SPDX-License-Identifier: Apache-2.0
"""A certificate for a flow's server: openssl(1) makes a key and a self-signed certificate before the run begins.

The key is an Ed25519 key if the program accepts it. Signatures then have one length, so that the sizes of packets
repeat with any random numbers.
"""

from __future__ import annotations

from mprun.model.spec import Flow
from mprun.plan import File, Process
from mprun.tools.tool import Program, temporary

PROGRAMS = {"openssl": Program("openssl", "version")}

# OpenSSL's random numbers without those of the processor (RDRAND, RDSEED) and without its clock (RDTSC), which no
# seed governs; see OPENSSL_ia32cap(3).
DETERMINISTIC = {"OPENSSL_ia32cap": "~0x4000000000000010:~0x40000"}
# Kinds of key, as openssl-req(1) is told.
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
subjectAltName = IP:{address}, DNS:{name}
"""


def certificate_of(flow: Flow) -> str:
    """The path of the certificate, PEM."""
    return temporary(flow, "certificate.pem")


def key_of(flow: Flow) -> str:
    """The path of its private key, PEM."""
    return temporary(flow, "key.pem")


def authority_of(flow: Flow) -> str:
    """The path of the certificate that a client must trust. The certificate is self-signed."""
    return certificate_of(flow)


def make_certificate(flow: Flow, address: str, key: tuple[str, ...] = ED25519) -> Process:
    """The preparation that makes key and certificate for a server at `address`."""
    configuration = File(temporary(flow, "openssl.cnf"), _CONFIGURATION.format(name=flow.destination, address=address))
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
