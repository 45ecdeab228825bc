# SPDX-License-Identifier: Apache-2.0
"""Distributions' own kernels in virtual machines, and the real engine in them: `make vm KERNEL="6.1 6.12"`.

    release   the table of kernels, and the packages that each needs
    packages  download packages of a release with apt, in a directory of its own
    kernel    unpack a kernel, and make the initrd that mounts the image
    image     the user space as a disk image: the packages that running needs, and Python's
    payload   the second disk: the kernel's modules, this checkout, the orders for the machine
    machine   start QEMU, follow its console, take the results from its third disk
    table     read the results of the tests, and print them
    suite     the tests of the suite that use the real engine
    exchange  packages that make trees of several releases equal where captures depend on versions
    guest     the tests that run inside; `pytest tests/vm/guest.py` runs them on this machine's own kernel
    labs      claims of labs, held against the real engine

What was downloaded and built stays below `~/.cache/mprun/vm`, under the digest of what it was made from.
"""
