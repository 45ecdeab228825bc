# SPDX-License-Identifier: Apache-2.0
"""Protection from files of strangers.

Such files are opened only below one folder, checked when they are read, written as harmless text, and confined when
they run.
"""
