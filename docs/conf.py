"""Sphinx settings."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "bitmix"
copyright = "2026, the bitmix developers"
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "mathml",
]
html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_theme_options = {"show_prev_next": False, "secondary_sidebar_items": ["page-toc"]}
html_show_sourcelink = False
autosummary_generate = True
numpydoc_show_class_members = True
numpydoc_show_inherited_class_members = {
    "bitmix.TwoRoundEM": True,
    "bitmix.ClassicEM": True,
}
numpydoc_class_members_toctree = False
exclude_patterns = ["_build"]
html_sidebars = {
    page: []
    for page in ("index", "first_steps", "images", "certificates", "paper_in_code", "arithmetic")
}
default_role = "code"
