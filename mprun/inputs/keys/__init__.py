# SPDX-License-Identifier: Apache-2.0
"""The models of files: which keys and values a topology or an experiment may hold."""
