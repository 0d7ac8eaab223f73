"""Links from an estimator in a notebook to its page of the documentation."""

from functools import cache
from importlib import metadata
from typing import Any


@cache
def address() -> str:
    """Return the address of the documentation from the package metadata, or an empty string."""
    try:
        urls = metadata.metadata("bitmix").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    for url in urls:
        name, _, place = url.partition(", ")
        if name == "Documentation" and ".invalid/" not in place:
            return place.rstrip("/") + "/"
    return ""


class Documented:
    """Mixin that links the question mark scikit-learn shows beside an estimator to its page."""

    _doc_link_module = "bitmix"
    _public_module = "bitmix"

    @property
    def _doc_link_template(self) -> Any:
        page = f"api/generated/{self._public_module}.{{estimator_name}}.html"
        return address() and address() + page
