# SPDX-License-Identifier: Apache-2.0
"""The documentation's site is built without a warning, and depends on no other site."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.conftest import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site like `make docs`. A link to a missing page or heading is a warning, and a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", "docs", ".", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 20
    assert [page for page in pages if not (site / page.with_suffix(".html")).is_file()] == []
    assert 'url=docs/index.html"' in (site / "index.html").read_text()


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures are files of the site."""
    loaded = r"""<(?:script|img|iframe)[^>]*src="(?!data:)[a-z]+:[^"]*|<link[^>]*href="[a-z]+:[^"]*"""
    for page in site.rglob("*.html"):
        assert re.findall(loaded, page.read_text()) == [], page
    for style in site.rglob("*.css"):
        assert re.findall(r"""url\(["']?https?:[^)]*|@import[^;]*https?:""", style.read_text()) == [], style


def test_links_between_pages_lead_somewhere(site: Path) -> None:
    """Links to files are checked too, which the builder ignores: drawings, answers, and files named on a lab's page."""
    lost = set()
    for page in site.rglob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"#?:]+)["#?]', page.read_text()):
            if not (page.parent / target).exists():
                lost.add(f"{page.relative_to(site)}: {target}")
    assert lost == set()
