"""The bench an experiment works on: how many runs, where results are kept, where pictures go."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitmix.atomic import atomic_write
from bitmix.experiments import runner
from bitmix.experiments.cells import Sweep
from bitmix.experiments.images import ImageSet, image_set
from bitmix.experiments.store import Store, write_csv
from bitmix.plots import saved_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS_APART = 1_000_000


@dataclass(frozen=True)
class Bench:
    """Given to every experiment; it measures with `run` and ends with `write`."""

    out: Path
    store: Store
    jobs: int = 1
    runs: int = 100
    quick: bool = False
    seed: int = 0
    images: Path | None = None
    written: list[Path] = field(default_factory=list)

    @property
    def first_seed(self) -> int:
        """Run r has the seed `first_seed` + r; two values of `seed` share no run."""
        return SEEDS_APART * self.seed

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.runs)

    def run(self, name: str, sweeps: Sequence[Sweep[Any]]) -> list[Any]:
        """What the sweeps find, in their order; stored results are not computed again."""
        return runner.run(sweeps, self.store, self.jobs, name)

    def image_set(self, classes: Sequence[str]) -> ImageSet:
        """The images of these classes where the folder has them, otherwise of all it has."""
        return image_set(self.images, classes, self.out)

    def write(
        self,
        name: str,
        rows: Sequence[Mapping[str, Any]],
        draw: "Callable[[Figure], None]",
        size: tuple[float, float],
    ) -> None:
        """NAME.csv, NAME.png and NAME.svg."""
        columns = {column: None for row in rows for column in row}
        write_csv(self.out / f"{name}.csv", [_rounded(row) for row in rows], columns)
        self.written.append(self.out / f"{name}.csv")
        for ending in ("png", "svg"):
            path = self.out / f"{name}.{ending}"
            with saved_figure(path, size) as figure:
                draw(figure)
            self.written.append(path)

    def write_text(self, name: str, text: str) -> None:
        with atomic_write(self.out / name) as file:
            file.write(text.encode())
        self.written.append(self.out / name)


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers to ten digits: enough for any use, and small differences do not show."""
    return {
        name: float(f"{value:.10g}") if isinstance(value, float) else value
        for name, value in row.items()
    }
