"""What every figure and table is given: the settings, the store and the output folder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitmix.plots import saved_figure
from reproduction.images import ImageSet, image_set
from reproduction.runner import run_sweeps
from reproduction.runs import Sweep
from reproduction.store import Store, write_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS_APART = 1_000_000


@dataclass(frozen=True)
class Session:
    """One call of ``python -m reproduction``. A figure measures by `run` and ends with `write`."""

    out: Path
    store: Store
    jobs: int = 1
    runs: int = 100
    """Runs per point."""
    quick: bool = False
    seed: int = 0
    images: Path | None = None

    @property
    def first_seed(self) -> int:
        """The seed of the first run; sessions with different seeds have no run in common."""
        return SEEDS_APART * self.seed

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.runs)

    def run(self, name: str, sweeps: Sequence[Sweep[Any]]) -> list[Any]:
        """What the sweeps return, in their order; stored results are not computed again."""
        return run_sweeps(sweeps, self.store, self.jobs, name)

    def image_set(self, classes: Sequence[str]) -> ImageSet:
        """The images of these classes if the folder has all of them, otherwise all its images."""
        return image_set(self.images, classes, self.out)

    def write(
        self,
        name: str,
        rows: Sequence[Mapping[str, Any]],
        draw: "Callable[[Figure], None]",
        size: tuple[float, float],
    ) -> list[Path]:
        """Write NAME.csv, NAME.png and NAME.svg; the paths of all three."""
        columns = {column: None for row in rows for column in row}
        paths = [self.out / f"{name}.{ending}" for ending in ("csv", "png", "svg")]
        write_csv(paths[0], [_rounded(row) for row in rows], columns)
        for path in paths[1:]:
            with saved_figure(path, size) as figure:
                draw(figure)
        return paths


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Floats rounded to ten digits, so that differences in the last bits do not show."""
    return {
        name: float(f"{value:.10g}") if isinstance(value, float) else value
        for name, value in row.items()
    }
