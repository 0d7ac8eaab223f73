"""The measurements over a grid of sizes, one process each, and their table, JSON and plot."""

import json
import math
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.peers.machine import described, rates
from benchmarks.peers.methods import METHODS, Method
from bitmix.datasets import make_templates, sample_mixture
from bitmix.errors import BitmixWarning
from bitmix.support.progress import progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOISE, SEPARATION, WARM_RUNS = 0.1, 0.4, 5
_TIMEOUT = 4  # times the limit: a process also loads its data and warms up
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Size:
    """m rows of n columns, k templates."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m:,} × {self.n:,}, k = {self.k}"

    @property
    def work(self) -> float:
        """The size to which the time of most methods is about proportional."""
        return float(self.m) * self.n * self.k

    @property
    def nbytes(self) -> int:
        return self.m * 8 * -(-self.n // 64)


@dataclass(frozen=True)
class Measurement:
    """One method at one size."""

    method: str
    size: Size
    seconds: float
    """Median of the warm runs."""
    peak: int | None
    """The peak memory in bytes beyond the data; None but on Linux."""
    recovered: int | None
    """Templates recovered to the last bit; None if the method has no clusters."""


@dataclass(frozen=True)
class Result:
    """All measurements, and the machine they were made on."""

    machine: str
    rates: dict[str, float]
    measurements: tuple[Measurement, ...]

    def of(self, method: str, size: Size) -> Measurement | None:
        matching = (m for m in self.measurements if (m.method, m.size) == (method, size))
        return next(matching, None)

    @property
    def sizes(self) -> list[Size]:
        return list(dict.fromkeys(each.size for each in self.measurements))

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    def exponents(self, method: str) -> dict[str, float]:
        """The exponents of m, n and k in the time: the slope between the two largest sizes that
        differ in one of them only."""
        exponents = {}
        mine = [each for each in self.measurements if each.method == method]
        for name in ("m", "n", "k"):
            pairs = [
                (a, b)
                for a in mine
                for b in mine
                if getattr(a.size, name) < getattr(b.size, name)
                and all(
                    getattr(a.size, other) == getattr(b.size, other)
                    for other in "mnk"
                    if other != name
                )
            ]
            if pairs:
                largest = max(getattr(b.size, name) for _, b in pairs)
                a, b = max(
                    (pair for pair in pairs if getattr(pair[1].size, name) == largest),
                    key=lambda pair: getattr(pair[0].size, name),
                )
                growth = getattr(b.size, name) / getattr(a.size, name)
                exponents[name] = math.log(b.seconds / a.seconds) / math.log(growth)
        return exponents


def grid(quick: bool = False, rows: int = 10**6) -> list[Size]:
    """The sizes up to `rows` rows, in which first m, then n, then k varies."""
    if quick:
        return [Size(10_000, 2048, 10), Size(20_000, 2048, 10)]
    by_rows = [m for m in (10_000, 20_000, 100_000, 200_000, 1_000_000, 10_000_000) if m <= rows]
    sizes = [Size(m, 2048, 10) for m in by_rows]
    sizes += [Size(10_000, n, 10) for n in (128, 16_384, 65_536)]
    sizes += [Size(100_000, 2048, k) for k in (2, 100)]
    return [size for size in sizes if size.m <= rows]


def measure_all(sizes: Sequence[Size], *, limit: float = 120.0, only: Sequence[str] = ()) -> Result:
    """Measure every installed method, but no peer that is expected to take more than `limit` s."""
    methods = [each for each in METHODS if each.installed and (not only or each.name in only)]
    measured: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="bitmix-bench-") as folder:
        for size in progress(sizes, "sizes", total=len(sizes)):
            sample(size, Path(folder))
            for method in methods:
                if expected_seconds(method, size, measured) <= limit:
                    measured.append(_measure(method, size, Path(folder), limit))
    return Result(described(), rates(), tuple(each for each in measured if each.seconds < limit))


def sample(size: Size, folder: Path) -> None:
    """Write rows of this size and their templates to a folder."""
    truth = make_templates(size.k, size.n, separation=SEPARATION, random_state=0)
    X, _ = sample_mixture(truth, np.full(size.k, 1 / size.k), NOISE, size.m, random_state=0)
    X.save(folder / "rows.bits")
    np.save(folder / "truth.npy", truth)


def expected_seconds(method: Method, size: Size, measured: Sequence[Measurement]) -> float:
    """In proportion to what the method took for the nearest size; 0 for ours and at first."""
    mine = [each for each in measured if each.method == method.name]
    if method.ours or not mine:
        return 0.0
    near = min(mine, key=lambda each: abs(math.log(size.work / each.size.work)))
    return near.seconds * size.work / near.size.work


def _measure(method: Method, size: Size, folder: Path, limit: float) -> Measurement:
    runs = str(WARM_RUNS if method.ours else 1)
    program = [sys.executable, "-m", "benchmarks.peers.measure"]
    command = [*program, method.name, str(folder), str(size.k), runs]
    try:
        done = subprocess.run(
            command, cwd=_ROOT, capture_output=True, text=True, check=True, timeout=_TIMEOUT * limit
        )
    except subprocess.TimeoutExpired:
        return Measurement(method.name, size, math.inf, 0, None)
    except subprocess.CalledProcessError as error:
        if method.ours:
            raise
        last = error.stderr.strip().splitlines()[-1] if error.stderr.strip() else "no message"
        warnings.warn(f"{method.name} failed on {size}: {last}", BitmixWarning, stacklevel=2)
        return Measurement(method.name, size, math.inf, 0, None)
    line: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Measurement(method.name, size, median(line["seconds"]), line["peak"], line["recovered"])


def table(result: Result) -> Iterator[str]:
    """The lines of a table: the machine, every measurement, and how the time grows."""
    raw, read = result.rates["popcount"], result.rates["read"]
    relative = result.rates["distances"] / raw
    yield result.machine
    yield (
        f"exclusive or and popcount in cache {raw / 1e9:.1f} GB/s, distances of rows to 212 seeds "
        f"{100 * relative:.0f} % of that; reading memory {read / 1e9:.1f} GB/s"
    )
    for size in result.sizes:
        once = size.nbytes / read
        yield ""
        yield f"{size}: {size.nbytes / 1e6:,.0f} MB packed, one read {once * 1e3:.1f} ms"
        yield (
            f"  {'':<20}{'seconds':>10}{'rows/s':>12}{'GB/s':>8}{'reads':>8}{'popcount':>10}"
            f"{'peak MB':>9}{'exact':>9}{'ratio':>8}"
        )
        best = result.of("TemplateMixture", size)
        for method in METHODS:
            each = result.of(method.name, size)
            if each is None:
                continue
            speed = size.nbytes / each.seconds
            exact = "" if each.recovered is None else f"{each.recovered}/{size.k}"
            peak = "" if each.peak is None else f"{each.peak / 1e6:.0f}"
            ratio = each.seconds / best.seconds if best else math.nan
            yield (
                f"  {method.name:<20}{each.seconds:>10.3f}{size.m / each.seconds:>12,.0f}"
                f"{speed / 1e9:>8.2f}{each.seconds / once:>8.1f}"
                f"{100 * size.k * speed / raw:>9.0f}%{peak:>9}{exact:>9}{ratio:>8.1f}"
            )
    yield ""
    for method in METHODS:
        exponents = result.exponents(method.name)
        if exponents:
            text = ", ".join(f"{name}^{power:.2f}" for name, power in exponents.items())
            yield f"the time of {method.name} grows as {text}"


def draw(result: Result, figure: "Figure") -> None:
    """Plot seconds over rows at 2,048 columns and 10 templates, one line per method."""
    ax = figure.subplots()
    for method in METHODS:
        points = sorted(
            (each.size.m, each.seconds)
            for each in result.measurements
            if each.method == method.name and (each.size.n, each.size.k) == (2048, 10)
        )
        if points:
            width = 2.4 if method.ours else 1.2
            ax.plot(*zip(*points, strict=True), marker="o", lw=width, label=method.name)
    ax.set(xscale="log", yscale="log", xlabel="rows of 2,048 bits", ylabel="seconds")
    ax.set_title("Time of a fit, 10 templates")
    ax.grid(True, which="both", alpha=0.25)
    figure.legend(loc="outside right center", frameon=False)
