# SPDX-License-Identifier: Apache-2.0
"""A course: what a teacher hands to a class, made by `mprun course export`."""
