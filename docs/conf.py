# SPDX-License-Identifier: Apache-2.0
"""The site of the documentation (Sphinx): `make docs` builds it into build/site.

Its source is the whole tree, so that a link from a page to a lab or back is the same on the site and in a
checkout. The pages need no network: fonts are the reader's, scripts and styles are copied beside them.
"""

from docutils.nodes import document
from sphinx.application import Sphinx

project = "mprun"
copyright = "the mprun authors; Apache-2.0"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "labs/**.md",
    "mprun/*/DECISIONS.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = ["build", "runs", "labs/**/runs", ".*", "tests", "benchmarks"]
suppress_warnings = ["toc.empty_glob"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
highlight_language = "none"

html_theme = "furo"
html_title = "mprun"
html_static_path = ["site/static"]
html_extra_path = ["site/root"]
html_css_files = ["mprun.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", _keep_apart)


def _keep_apart(app: Sphinx, _tree: document) -> None:
    """Answers are reached from their lab, and stand in no list of pages."""
    if app.env.docname.endswith("/ANSWERS"):
        app.env.metadata[app.env.docname]["orphan"] = True
