# SPDX-License-Identifier: Apache-2.0
"""Captures: their files, and the packets, connections and subflows in them."""
