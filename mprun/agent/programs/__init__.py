# SPDX-License-Identifier: Apache-2.0
"""The programs of mprun that plans start inside an engine: workloads, a proxy, a controller, a path manager.

They need nothing but Python. Most run as files, without the package.
"""
