# SPDX-License-Identifier: Apache-2.0
"""Labs: find them (`shelf`), run their steps (`run`), grade a student's runs (`grade`)."""
