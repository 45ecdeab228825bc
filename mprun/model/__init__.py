# SPDX-License-Identifier: Apache-2.0
"""The values of topologies and experiments, which all later stages share. This room imports only `errors`."""
