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
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "docs._ext.site",
]
exclude_patterns = ["_ext"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# Docstrings name types in words; signatures would say the same again, with imports of their own.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# It takes ten seconds to import, and no docstring needs it.
autodoc_mock_imports = ["keras", "tensorflow"]
napoleon_google_docstring = False
napoleon_use_rtype = False
# What stands in single backticks is code: a parameter, a name of this package or of another.
default_role = "code"

# Dots and quotes stay as they are typed.
smartquotes_action = "D"

toc_object_entries_show_parents = "hide"

nitpicky = True
# Types in docstrings are words for people, "sequence of str"; and without a network nothing of
# other projects can be looked up. Names of this package have to be right.
nitpick_ignore_regex = [("py:.*", r"(?!tos_notebook\b).*")]

html_theme = "furo"
html_title = "TensorOnSpark for notebooks"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_domain_indices = False
html_copy_source = False
html_show_sphinx = False
