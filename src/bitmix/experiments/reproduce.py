"""The list of figures and tables, and how to make them."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bitmix import checks
from bitmix.errors import InputError
from bitmix.experiments import (
    fig1_alphabet,
    fig2_sketches,
    fig3_separation,
    fig4_dimensions,
    fig5_dogs,
    fig6_examples,
    sheets,
    tables,
)
from bitmix.experiments.bench import SEEDS_APART, Bench
from bitmix.experiments.images import check_folder
from bitmix.experiments.store import Store, check_export
from bitmix.extras import need
from bitmix.kernels import num_threads

RUNS, QUICK_RUNS = 100, 15
MOST_SEED = 10**12  # seeds of runs must fit 64 bits


@dataclass(frozen=True)
class Artefact:
    """One figure or table of the paper."""

    name: str
    title: str
    make: Callable[[Bench], None]
    needs_images: bool = False


ARTEFACTS = {
    artefact.name: artefact
    for artefact in (
        Artefact("fig1", "the alphabet of 18 patterns, a template, examples",
                 fig1_alphabet.reproduce),
        Artefact("fig2", "images and their sketches", fig2_sketches.reproduce, True),
        Artefact("fig3", "least separation over least weight: who finds the templates",
                 fig3_separation.reproduce),
        Artefact("fig4", "rows and columns that are enough: theory and practice",
                 fig4_dimensions.reproduce),
        Artefact("fig5", "the two dogs, and rows sampled from them", fig5_dogs.reproduce),
        Artefact("fig6", "success over the number of examples, for the dogs",
                 fig6_examples.reproduce),
        Artefact("fig7", "clusters of vehicles", partial(sheets.reproduce, name="fig7"), True),
        Artefact("fig8", "clusters of animals", partial(sheets.reproduce, name="fig8"), True),
        Artefact("table1", "vehicles: all methods", partial(tables.reproduce, name="table1"), True),
        Artefact("table2", "animals: all methods", partial(tables.reproduce, name="table2"), True),
        Artefact("table3", "all six classes: all methods",
                 partial(tables.reproduce, name="table3"), True),
    )
}  # fmt: skip


def named(name: str) -> Sequence[Artefact]:
    """The artefact of that name; ``all`` are all of them."""
    if name == "all":
        return list(ARTEFACTS.values())
    if name not in ARTEFACTS:
        raise InputError(f"there is no {name!r}: choose one of {', '.join(ARTEFACTS)}, all, list")
    return [ARTEFACTS[name]]


def reproduce(
    name: str,
    out: str | os.PathLike[str],
    *,
    runs: int | None = None,
    quick: bool = False,
    jobs: int | None = None,
    images: str | os.PathLike[str] | None = None,
    seed: int = 0,
    export: str | os.PathLike[str] | None = None,
) -> Iterator[tuple[Artefact, list[Path]]]:
    """Make figures and tables one after the other; yields each with the files it is in.

    Parameters
    ----------
    name : str
        ``"fig1"`` … ``"fig8"``, ``"table1"`` … ``"table3"`` or ``"all"``.
    out : path
        The folder for the files and for ``results.sqlite``, where every run is kept. Call again to
        go on after an interruption: nothing that finished is computed twice.
    runs : int, optional
        Runs a point; by default 100, as in the paper, or 15 with `quick`.
    quick : bool, default=False
        Fewer points and runs.
    jobs : int, optional
        Worker processes; by default one a core.
    images : path, optional
        A folder of class folders. Without it, scikit-learn's digits stand in.
    seed : int, default=0
        Another number, other runs.
    export : path, optional
        All stored runs into this CSV or Parquet file.
    """
    wanted = named(name)
    runs = checks.whole(
        runs if runs is not None else QUICK_RUNS if quick else RUNS, "runs", least=1
    )
    jobs = checks.whole(num_threads() if jobs is None else jobs, "jobs", least=1)
    seed = checks.whole(seed, "seed", least=0)
    if runs > SEEDS_APART or seed > MOST_SEED:
        raise InputError(
            f"runs must be at most {SEEDS_APART:,} and seed at most {MOST_SEED:,}, "
            f"got {runs:,} and {seed:,}"
        )
    folder = None if images is None else Path(images)
    if folder is not None and any(artefact.needs_images for artefact in wanted):
        check_folder(folder)
    if export is not None:
        check_export(export)
    need("matplotlib")  # a missing extra is better known now than at the end
    target = Path(out)
    target.mkdir(parents=True, exist_ok=True)
    bench = Bench(target, Store(target / "results.sqlite"), jobs, runs, quick, seed, folder)
    return _made(wanted, bench, export)


def _made(
    wanted: Sequence[Artefact], bench: Bench, export: str | os.PathLike[str] | None
) -> Iterator[tuple[Artefact, list[Path]]]:
    with bench.store:
        for artefact in wanted:
            bench.written.clear()
            artefact.make(bench)
            yield artefact, list(bench.written)
        if export is not None:
            bench.store.export(export)
