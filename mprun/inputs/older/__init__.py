# SPDX-License-Identifier: Apache-2.0
"""The older flat `key:value` files: their lines become the node tree of the same YAML file.

lines -> older_file (keys and values) -> topology or experiment (nodes) -> conversion

Nodes carry the marks of the older file's lines, and later stages do not know where nodes came from. Only the models
decide what is allowed. `mprun.inputs.rendering` writes such a tree as a YAML file.
"""
