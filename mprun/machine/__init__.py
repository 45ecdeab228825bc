# SPDX-License-Identifier: Apache-2.0
"""The user and the system that mprun works on: home, cache, temporary folders, packaged data, plugins."""
