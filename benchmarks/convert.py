"""How fast text becomes bits, file to file, in MB of text per second. Prints a table.

CSV with 10^5 rows of 1,000 columns, with ids before and labels after them too, and with cells that
are not one character; FPS with 10^6 fingerprints of 2,048 bits. Files of single digits are also
read by pyarrow and by the standard csv module, which read them if anything else is in a block.
`--small` has a tenth of the rows.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np

from bitmix.rows import bitfile
from bitmix.rows.files import open_table, text

BLOCK = 1000


def csv(path: Path, rows: int, ids: bool = False, cell: str = "01") -> None:
    rng = np.random.default_rng(0)
    names = [f"bit{i}" for i in range(1000)]
    with path.open("w") as file:
        file.write(",".join(["name", *names, "kind"] if ids else names) + "\n")
        for start in range(0, rows, BLOCK):
            for i, row in enumerate(rng.integers(2, size=(BLOCK, 1000)), start):
                cells = ",".join(["1.0" if bit else "0.0" for bit in row] if cell == "1.0" else
                                 ["1" if bit else "0" for bit in row])  # fmt: skip
                file.write(f"row{i},{cells},kind{i % 7}\n" if ids else f"{cells}\n")


def fps(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write("#FPS1\n#num_bits=2048\n#type=random\n")
        for start in range(0, rows, BLOCK):
            octets = rng.integers(256, size=(BLOCK, 256), dtype=np.uint8).tobytes()
            for i in range(BLOCK):
                file.write(f"{octets[256 * i : 256 * (i + 1)].hex()}\tMOL{start + i:07d}\n")


def never(*_: object) -> None:
    """In place of a way to read text, so that the next one is taken."""


def rates(path: Path, options: dict[str, str]) -> tuple[float, float]:
    """MB per second, by the clock and of processor time."""
    start, busy = time.perf_counter(), time.process_time()
    table = open_table(path, **options)
    with bitfile.writing(path.with_suffix(".bits"), table.n_columns, table.names) as writer:
        for chunk in table.chunks():
            writer.append(chunk.words)
    size = table.size / 1e6
    return size / (time.perf_counter() - start), size / (time.process_time() - busy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    scale = 10 if parser.parse_args().small else 1
    apart = {"id_column": "name", "label_column": "kind"}
    cases: list[tuple[str, str, Callable[[Path], None], dict[str, str], list[str]]] = [
        ("CSV 10^5 × 1,000", "a.csv", lambda p: csv(p, 100_000 // scale), {}, []),
        ("  by pyarrow", "a.csv", never, {}, ["_digits"]),
        ("  by the csv module", "a.csv", never, {}, ["_digits", "_by_pyarrow"]),
        ("CSV with ids and labels", "b.csv", lambda p: csv(p, 100_000 // scale, True), apart, []),
        ("  by pyarrow", "b.csv", never, apart, ["_digits"]),
        ("CSV of 0.0 and 1.0", "c.csv", lambda p: csv(p, 10_000 // scale, cell="1.0"), {}, []),
        ("FPS 10^6 × 2,048", "d.fps", lambda p: fps(p, 1_000_000 // scale), {}, []),
    ]
    print(f"{'best of 3':<24}{'text':>11} {'MB/s':>12} {'MB/cpu s':>12}")
    with tempfile.TemporaryDirectory() as folder:
        for name, file, write, options, left_out in cases:
            path = Path(folder) / file
            write(path)
            with ExitStack() as stack:
                for way in left_out:
                    stack.enter_context(mock.patch.object(text.TextPart, way, never))
                clock, busy = map(max, zip(*(rates(path, options) for _ in range(3)), strict=True))
            size = path.stat().st_size / 1e6
            print(f"{name:<24}{size:8,.0f} MB {clock:12,.0f} {busy:12,.0f}", flush=True)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    print(f"peak resident memory {peak / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
