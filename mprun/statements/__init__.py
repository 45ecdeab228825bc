# SPDX-License-Identifier: Apache-2.0
"""Statements over measured values: their language, their evaluation, and the claims that labs make with them."""
