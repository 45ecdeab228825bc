# SPDX-License-Identifier: Apache-2.0
"""Labs: find them (`catalog`), run their steps (`steps`), grade a student's runs (`grade`)."""
