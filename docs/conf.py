"""Sphinx settings."""

import os
import sys
import tomllib
from pathlib import Path

# Sums of floats in scikit-learn's k-means depend on the number of threads; so would the pages.
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

from inventories import mapping

from bitmix import __version__ as release

project = "bitmix"
version = release
copyright = "2026, the bitmix developers"
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
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
intersphinx_mapping = mapping()
html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 6,
    "logo": {"text": "bitmix"},
}
# The addresses stand in pyproject.toml; as long as they are placeholders, no page names them.
urls = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
urls = {name: url for name, url in urls["project"]["urls"].items() if ".invalid/" not in url}
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", urls.get("Documentation", ""))
html_context = {"html_card": html_baseurl and f"{html_baseurl}_static/card.png"}
if "Source" in urls:
    html_theme_options["icon_links"] = [
        {"name": "Source", "url": urls["Source"], "icon": "fa-brands fa-github"}
    ]
html_show_sourcelink = False
html_title = "bitmix"
html_static_path = ["_static"]
html_css_files = ["bitmix.css"]
autosummary_generate = True
toc_object_entries_show_parents = "hide"
templates_path = ["_templates"]
numpydoc_show_class_members = False  # the template of classes shows them, in full
linkcheck_ignore = [r"https?://[^/]*\.invalid/.*", r"https?://localhost.*"]
exclude_patterns = ["_build", "gallery/**/*.ipynb"]
html_sidebars = {page.stem: [] for page in Path(__file__).parent.glob("*.rst")}
html_sidebars["gallery/*"] = []
default_role = "code"
