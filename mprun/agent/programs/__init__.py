# SPDX-License-Identifier: Apache-2.0
"""Programs of ours that plans start inside an engine: workloads, a proxy, an OpenFlow controller, a path manager.

They need nothing but Python. Most run as files, without the package.
"""
