"""The documentation as a site: `make docs` builds it into build/docs, without a network."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

# The extensions here, the package, and the layers that the tests hold.
sys.path.insert(0, str(Path(__file__).parents[1]))

from tos_notebook import __version__

# What a build makes stays until its end; looking for garbage in it takes a third of the time.
gc.disable()

project = "TensorOnSpark for notebooks"
author = "The tos_notebook authors"
copyright = "2026, the tos_notebook authors. BSD-3-Clause"
release = __version__

extensions = [
    "myst_parser",
    "docs._ext.site",
]
exclude_patterns = ["_ext"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# Dots and quotes stay as they are typed.
smartquotes_action = "D"

nitpicky = True

html_theme = "furo"
html_title = "TensorOnSpark for notebooks"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_domain_indices = False
html_copy_source = False
html_show_sphinx = False
