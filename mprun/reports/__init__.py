# SPDX-License-Identifier: Apache-2.0
"""Reports: figures and pages from the files of a run or a sweep, and drawings of networks.

    resolved topology --draw--> Drawing --to_dot--> text --render--> SVG, PNG

All functions of a drawing but `render` are pure. `drawing` decides once what to show; each language only writes it.
"""

from __future__ import annotations
