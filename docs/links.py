"""Every link within the built pages leads somewhere: ``python docs/links.py docs/_build/html``."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The names within a page, and where it points to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.names, self.targets = {""}, set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.names.add(value or "")
            elif name in ("href", "src") and value:
                self.targets.add(value)


def broken(folder: Path) -> list[str]:
    """The links that lead nowhere, with their pages."""
    paths = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: Page(path) for path in paths}
    found = []
    for path, page in pages.items():
        for target in sorted(page.targets):
            url = urlsplit(target)
            if url.scheme or url.netloc:
                continue
            other = (path.parent / unquote(url.path)).resolve() if url.path else path
            names = pages[other].names if other in pages else {""}
            if not other.exists() or (
                other.suffix == ".html" and unquote(url.fragment) not in names
            ):
                found.append(f"{path.relative_to(folder)}: {target} leads nowhere")
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    count, found = len(list(folder.rglob("*.html"))), broken(folder)
    print("\n".join(found) or f"all links within {count} pages lead somewhere")
    sys.exit(1 if found else 0)
