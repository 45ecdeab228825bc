# SPDX-License-Identifier: Apache-2.0
"""Pictures of what was asked and of what came of it.

    resolved topology --draw--> Drawing --to_dot, to_mermaid--> text --graphviz.render--> SVG, PNG

All but `graphviz` is pure: what to show is decided once, in `drawing`, and each language only
spells it.
"""

from __future__ import annotations
