# SPDX-License-Identifier: Apache-2.0
"""The part of ethtool(8) that a plan uses: offloads of an interface, with one ioctl per interface.

Source: include/uapi/linux/ethtool.h. The names of features are those of net/ethtool/common.c.
"""

from __future__ import annotations

import ctypes
import fcntl
import struct
from collections.abc import Sequence

SIOCETHTOOL = 0x8946
ETHTOOL_GSTRINGS, ETHTOOL_GSSET_INFO, ETHTOOL_SFEATURES = 0x1B, 0x37, 0x3B
ETH_SS_FEATURES = 4
ETH_GSTRING_LEN = 32
# ETHTOOL_SFEATURES returns this bit if a feature is not as requested.
ETHTOOL_F_WISH = 2
GENERIC = {"gso": "tx-generic-segmentation", "gro": "rx-gro"}


class Features:
    """The numbers of the kernel's features, read once.

    descriptor: any socket. interface: any interface in the socket's namespace. Raises OSError.
    """

    def __init__(self, descriptor: int, interface: str) -> None:
        count = bytearray(struct.pack("=IIQI", ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0))
        _ask(descriptor, interface, count)
        (length,) = struct.unpack_from("=I", count, 16)
        text = bytearray(struct.pack("=III", ETHTOOL_GSTRINGS, ETH_SS_FEATURES, length))
        text += bytes(length * ETH_GSTRING_LEN)
        _ask(descriptor, interface, text)
        names = [text[at : at + ETH_GSTRING_LEN] for at in range(12, len(text), ETH_GSTRING_LEN)]
        self._requests: dict[tuple[str, ...], bytes] = {}
        self._names = [name.rstrip(b"\0").decode() for name in names]

    def set(self, descriptor: int, interface: str, words: Sequence[str]) -> bool:
        """Do `ethtool -K interface` with words such as `tso off gro off`.

        Return True if all features are then as requested.

        descriptor: any socket of the interface's namespace. Raises OSError.
        """
        key = tuple(words)
        if key not in self._requests:
            self._requests[key] = self._request(words)
        return not _ask(descriptor, interface, bytearray(self._requests[key])) & ETHTOOL_F_WISH

    def _request(self, words: Sequence[str]) -> bytes:
        """Return a struct ethtool_sfeatures.

        Per 32 features it has two masks: features to set, and features to switch on.
        """
        valid = wanted = 0
        for name, state in zip(words[::2], words[1::2], strict=True):
            bits = self._bits(name)
            valid |= bits
            wanted |= bits if state == "on" else 0
        blocks = (len(self._names) + 31) // 32
        parts = [part for n in range(blocks) for part in (valid >> 32 * n & 0xFFFFFFFF, wanted >> 32 * n & 0xFFFFFFFF)]
        return struct.pack(f"=II{2 * blocks}I", ETHTOOL_SFEATURES, blocks, *parts)

    def _bits(self, name: str) -> int:
        """Return the bits of a feature. `tso` has a feature for each kind of segment."""
        if name == "tso":
            return sum(1 << n for n, of in enumerate(self._names) if of.startswith("tx-tcp") and "segmentation" in of)
        return 1 << self._names.index(GENERIC.get(name, name))


def _ask(descriptor: int, interface: str, value: bytearray) -> int:
    """Call the ioctl with a struct ifreq whose data points at `value`. Return its result. Raises OSError."""
    buffer = (ctypes.c_char * len(value)).from_buffer(value)
    request = bytearray(struct.pack("16sP", interface.encode(), ctypes.addressof(buffer)) + bytes(16))
    said: int = fcntl.ioctl(descriptor, SIOCETHTOOL, request)
    return said
