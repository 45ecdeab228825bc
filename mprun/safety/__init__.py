# SPDX-License-Identifier: Apache-2.0
"""Files of strangers: opened below one folder, read, checked, written as harmless text, and confined when they run."""
