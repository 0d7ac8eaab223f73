"""Where rows live. Every kind of rows has `shape`, `take`, `map_reduce` and `map_rows`."""

from bitmix.rows.protocol import Rows, as_rows

__all__ = ["Rows", "as_rows"]
