# SPDX-License-Identifier: Apache-2.0
"""Labs: where they are (`shelf`), their steps run (`run`), a student's runs graded (`grade`)."""
