# SPDX-License-Identifier: Apache-2.0
"""The Linux kernel's own tests of MPTCP and packetdrill scripts, run inside an experiment kernel in simulated time."""
