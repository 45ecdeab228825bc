# SPDX-License-Identifier: Apache-2.0
"""The older flat `key:value` files: their lines become the node tree that the same YAML file has.

entry (lines) -> source (keys and values) -> topology or experiment (nodes) -> conversion
Nodes carry the marks of the older file's lines, and nothing after the reader knows where they came
from: what may be written is for the models alone. `spec.rendering` writes such a tree as a YAML file.
"""
