"""Real tables of bits with classes, for the benchmarks. Classes judge; nothing is fitted to them.

scikit-learn's digits come with it. Other tables are read from a folder, which the environment
variable BITMIX_TABLES names: ``suite/*.npz`` (`bits` packed in bytes, little end first, `n` the
number of columns, `y` classes) and ``semeion/semeion.data`` (256 bits, then 10 columns for the
digit). They are left out where the folder is absent.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits


@dataclass(frozen=True, eq=False)
class RealTable:
    name: str
    X: NDArray[np.uint8]
    y: NDArray[Any]

    @property
    def k(self) -> int:
        """The number of classes."""
        return len(np.unique(self.y))


def real_tables() -> Iterator[RealTable]:
    """Every table that is here, small ones first."""
    digits = load_digits()
    yield RealTable("digits", (digits.data > 7.5).astype(np.uint8), digits.target)
    folder = Path(os.environ.get("BITMIX_TABLES", "/nowhere"))
    path = folder / "semeion" / "semeion.data"
    if path.exists():
        cells = np.loadtxt(path)
        yield RealTable("semeion", cells[:, :256].astype(np.uint8), cells[:, 256:].argmax(axis=1))
    for path in sorted((folder / "suite").glob("*.npz"), key=lambda path: path.stat().st_size):
        arrays = np.load(path, allow_pickle=False)
        bits = np.unpackbits(arrays["bits"], axis=1, bitorder="little")[:, : int(arrays["n"])]
        yield RealTable(path.stem, bits, arrays["y"])
