# SPDX-License-Identifier: Apache-2.0
"""Programs that are no package of the distribution: their sources are here, `mprun tools install` builds them.

A folder here holds a program's source; `PROGRAMS` names them. What is built lives in the user's cache, found
again by the digest of its source (`store`).
"""

from __future__ import annotations

from mprun.programs.recipe import CRecipe, Recipe

PROGRAMS: dict[str, Recipe] = {
    "quic": Recipe(
        name="quic",
        executable="mprun-quic",
        description="multipath QUIC client and server on the library tquic",
        patched="tquic",
    ),
    "cmtsctp": CRecipe(
        name="cmtsctp",
        executable="cmtsctp",
        description="SCTP with concurrent multipath transfer, in user space, on the library usrsctp",
        headers=(("usrsctp.h", "libusrsctp-dev"),),
        flags=("-Wl,--wrap=sendmsg", "-l:libusrsctp.a", "-lpthread"),
    ),
}
