"""`bitmix demo`: two dogs, drowned in noise, found again."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text
from scipy.optimize import linear_sum_assignment

from bitmix.datasets import sample_mixture, sketch_dogs
from bitmix.estimators import TwoRoundEM
from bitmix.features import Alphabet
from bitmix.rows.packed import BitMatrix

WEIGHTS = (0.6, 0.4)
STARTS, ROUNDS = 5, 10


@dataclass(frozen=True, eq=False)
class Demo:
    """A planted mixture, the fit to it, and how they compare."""

    noise: float
    rows: BitMatrix
    labels: NDArray[np.int64]
    truth: NDArray[np.uint8]
    model: TwoRoundEM
    seconds: float

    @property
    def found(self) -> NDArray[np.uint8]:
        """The templates found, in the order of the true ones."""
        return self.model.templates_[self._match]

    @property
    def weights(self) -> NDArray[np.float64]:
        return self.model.weights_[self._match]

    @property
    def wrong_bits(self) -> list[int]:
        """How many bits of each template are wrong."""
        return [int(wrong) for wrong in (self.found != self.truth).sum(axis=1)]

    def example(self, i: int) -> NDArray[np.uint8] | None:
        """The first row of template i, if there is one."""
        of_it = np.flatnonzero(self.labels == i)
        return self.rows[of_it[0]] if len(of_it) else None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, one entry a true template."""
        return {
            "n_components": self.model.n_components,
            "n_seeds": self.model.n_seeds_,
            "noise": self.model.noise_,
            "weights": self.weights.tolist(),
            "wrong_bits": self.wrong_bits,
            "seconds": self.seconds,
        }

    @property
    def _match(self) -> list[int]:
        cost = [(self.model.templates_ != template).sum(axis=1) for template in self.truth]
        return [int(i) for i in linear_sum_assignment(cost)[1]]


def run(rows: int, noise: float, seed: int) -> Demo:
    """Sample the dogs, fit them with nothing known but their number."""
    truth = sketch_dogs()
    X, labels = sample_mixture(truth, WEIGHTS, noise, rows, seed)
    start = time.perf_counter()
    model = TwoRoundEM(len(truth), rounds=ROUNDS, n_init=STARTS, random_state=seed).fit(X)
    return Demo(noise, X, labels, truth, model, time.perf_counter() - start)


def show(demo: Demo, console: Console) -> None:
    """Rows as they came, templates as they were found, and the figures."""
    m, n = demo.rows.shape
    console.print(
        f"\n{m:,} rows of {n:,} bits: sketches of two dogs that differ in 29 bits,\n"
        f"every bit flipped with probability {demo.noise:g}.\n",
        highlight=False,
    )
    console.print(_table(demo))
    model, wrong = demo.model, sum(demo.wrong_bits)
    verdict = "Every template exact" if wrong == 0 else f"{wrong} template bits wrong"
    console.print(
        f"\n[bold]{verdict}[/]: the likeliest of {STARTS} fits of {ROUNDS} rounds, each from "
        f"{model.n_seeds_} random rows,\nin {demo.seconds:.2f} s. Noise {demo.noise:g} planted; "
        f"{model.noise_:.3f} read off the closest pair of seeds (step 2),\n"
        "which is low by construction.\n\n"
        "What to try next\n"
        f"  {_command()} demo --picture demo.png   the same as a picture\n"
        f"  {_command()} demo --noise 0.25         harder\n"
        f"  {_command()} --help                    everything else\n",
        highlight=False,
    )


def _command() -> str:
    """How this program was called, so that it can be called again."""
    name = Path(sys.argv[0])
    return str(name) if name.name == "bitmix" else f"{Path(sys.executable).name} -m bitmix"


def _table(demo: Demo) -> Table:
    table = Table(show_lines=True, padding=(0, 1))
    for heading in ("one of the rows", "template found", "weight", "wrong"):
        table.add_column(heading, no_wrap=True, vertical="middle")
    for i, (bits, weight, wrong) in enumerate(
        zip(demo.found, demo.weights, demo.wrong_bits, strict=True)
    ):
        row = demo.example(i)
        table.add_row(
            Text("" if row is None else _picture(row), "dim"),
            Text(_picture(bits), "green"),
            f"{WEIGHTS[i]:.2f} → {weight:.2f}",
            f"{wrong} bits",
        )
    return table


def _picture(bits: NDArray[np.uint8]) -> str:
    """Strokes in braille: 2×4 dots a character."""
    image = Alphabet().draw(bits, resolution=4)[:36, :36]
    dots = image.reshape(9, 4, 18, 2).transpose(0, 2, 1, 3)
    values = (dots * _DOTS).sum(axis=(2, 3))
    return "\n".join("".join(chr(0x2800 + int(v)) for v in line) for line in values)


_DOTS = np.array([[1, 8], [2, 16], [4, 32], [64, 128]])
