# SPDX-License-Identifier: Apache-2.0
"""Reports: figures and pages from the files of a run or a sweep, and drawings of networks.

    resolved topology --draw--> Drawing --to_dot--> text --graphviz.render--> SVG, PNG

All modules of a drawing but `graphviz` are pure. `drawing` decides once what to show; each language only writes it.
"""

from __future__ import annotations
