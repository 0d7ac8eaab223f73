"""Sphinx settings."""

import os
import sys
from pathlib import Path

# Sums of floats in scikit-learn's k-means depend on the number of threads; so would the pages.
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

project = "bitmix"
copyright = "2026, the bitmix developers"
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "gallery_look.Order",
    "reset_modules": ("matplotlib", "gallery_look.reset"),
    "image_scrapers": ("matplotlib",),
    "capture_repr": ("_repr_html_",),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,  # a time would make every build another page
    "only_warn_on_example_error": False,
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "plot_gallery": "True",
}
html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 6,
    "logo": {"text": "bitmix"},
}
html_show_sourcelink = False
html_title = "bitmix"
html_static_path = ["_static"]
html_css_files = ["bitmix.css"]
autosummary_generate = True
toc_object_entries_show_parents = "hide"
templates_path = ["_templates"]
numpydoc_show_class_members = False  # the template of classes shows them, in full
exclude_patterns = ["_build", "gallery/**/*.ipynb"]
html_sidebars = {page.stem: [] for page in Path(__file__).parent.glob("*.rst")}
html_sidebars["gallery/*"] = []
default_role = "code"
