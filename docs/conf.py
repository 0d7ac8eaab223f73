"""Sphinx settings."""

project = "bitmix"
copyright = "2026, the bitmix developers"
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
]
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
default_role = "code"
