# SPDX-License-Identifier: Apache-2.0
"""The licence of a bundle: turns an SPDX identifier or a URL into the URL for the RO-Crate. Pure."""

from __future__ import annotations

import contextlib
import difflib
import re
from urllib.parse import urlsplit

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from mprun.errors import SpecError
from mprun.model.problem import list_names

SPDX = "https://spdx.org/licenses/"
# The usual licences of data and programs. An error message names the nearest of these, not of all hundreds.
USUAL = (
    *("CC-BY-4.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0", "CC-BY-NC-SA-4.0", "CC-BY-ND-4.0", "CC0-1.0"),
    *("ODbL-1.0", "ODC-By-1.0", "PDDL-1.0", "CDLA-Permissive-2.0", "CDLA-Sharing-1.0"),
    *("Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MPL-2.0", "EUPL-1.2", "Unlicense"),
    *("GPL-2.0-only", "GPL-2.0-or-later", "GPL-3.0-only", "GPL-3.0-or-later", "AGPL-3.0-only", "LGPL-3.0-or-later"),
)
# With this cutoff, `gpl3` matches `GPL-3.0-only`.
LIKE = 0.45


def find_licence(text: str) -> str:
    """Return the URL of a licence by its SPDX identifier in any case, or the URL itself. Raises SpecError."""
    if ":" in text or "/" in text:
        return _check_url(text)
    try:
        name = canonicalize_license_expression(text)
    except InvalidLicenseExpression:
        known = {one.casefold(): one for one in USUAL}
        named = re.sub(r"\W*\blicen[cs]e\b\W*", "-", text.casefold()).strip("-")
        near = difflib.get_close_matches(named, known, n=1, cutoff=LIKE)
        hint = f": did you mean '{known[near[0]]}'?" if near else list_names(USUAL, "usual ones")
        raise SpecError(f"--license {text}: no SPDX identifier, and no URL{hint}") from None
    # an expression with several licences, or a name that is not on SPDX's list
    if not name.replace("-", "").replace(".", "").isalnum() or name.startswith("LicenseRef-"):
        raise SpecError(f"--license {text}: not one licence of SPDX's list: write one, or the URL of a text")
    return f"{SPDX}{name}"


def _check_url(text: str) -> str:
    with contextlib.suppress(ValueError):
        parts = urlsplit(text)
        if parts.scheme in ("http", "https") and parts.hostname and text.isprintable() and " " not in text:
            return text
    raise SpecError(f"--license {text}: no URL of a licence: write as in {SPDX}CC-BY-4.0, or its SPDX identifier")
