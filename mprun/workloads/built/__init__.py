# SPDX-License-Identifier: Apache-2.0
"""Programs without a package in the distribution. Their sources are here; `mprun tools install` builds them.

Each folder here has a program's source; `PROGRAMS` names them. A built program is in the user's cache, where the digest
of its source identifies it (`program_store`).
"""

from __future__ import annotations

from mprun.workloads.built.source import CRecipe, PipRecipe, Recipe

PROGRAMS: dict[str, Recipe] = {
    "quic": Recipe(
        name="quic",
        executable="mprun-quic",
        description="multipath QUIC client and server on the library tquic",
        patched="tquic",
        shared=("exchange",),
        needs=(("cmake", "cmake"), ("g++", "g++"), ("gcc", "gcc"), ("make", "make"), ("patch", "patch")),
    ),
    "noq": Recipe(
        name="noq",
        executable="mprun-noq",
        description="multipath QUIC client and server on the library noq, for flows with `stack: noq`",
        patched="noq-proto",
        shared=("exchange",),
        oldest_cargo=(1, 88),
        needs=(("gcc", "gcc"), ("patch", "patch")),
    ),
    "aioquic": PipRecipe(
        name="aioquic",
        executable="mprun-aioquic",
        description="QUIC client and server on the library aioquic, for flows with `stack: aioquic`",
    ),
    "cmtsctp": CRecipe(
        name="cmtsctp",
        executable="cmtsctp",
        description="SCTP with concurrent multipath transfer, in user space, on the library usrsctp",
        headers=(("usrsctp.h", "libusrsctp-dev"),),
        flags=("-Wl,--wrap=sendmsg", "-l:libusrsctp.a", "-lpthread"),
    ),
}
