"""The list of figures and tables, and the function that makes them."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bitmix.errors import InputError
from bitmix.kernels.threads import num_threads
from bitmix.support import checks
from bitmix.support.extras import need
from reproduction import (
    fig1_alphabet,
    fig2_sketches,
    fig3_separation,
    fig4_dimensions,
    fig5_dogs,
    fig6_examples,
    fig7_fig8_clusters,
    tables,
)
from reproduction.images import check_folder
from reproduction.session import SEEDS_APART, Session
from reproduction.store import Store, check_export

RUNS, QUICK_RUNS = 100, 15
MAX_SEED = 10**12  # keeps the seeds of all runs below 2⁶³


@dataclass(frozen=True)
class Artefact:
    """One figure or table of the paper."""

    name: str
    title: str
    make: Callable[[Session], list[Path]]
    """Writes its files and returns their paths."""
    needs_images: bool = False


ARTEFACTS = {
    artefact.name: artefact
    for artefact in (
        Artefact("fig1", "the alphabet of 18 patterns, a template and examples of it",
                 fig1_alphabet.reproduce),
        Artefact("fig2", "images and their sketches", fig2_sketches.reproduce, True),
        Artefact("fig3", "the least separation that suffices, over the least weight",
                 fig3_separation.reproduce),
        Artefact("fig4", "the numbers of rows and columns that suffice, in theory and measured",
                 fig4_dimensions.reproduce),
        Artefact("fig5", "the two dogs, and rows sampled from them", fig5_dogs.reproduce),
        Artefact("fig6", "how often the dogs are recovered, over the number of examples",
                 fig6_examples.reproduce),
        Artefact("fig7", "clusters of vehicles",
                 partial(fig7_fig8_clusters.reproduce, name="fig7"), True),
        Artefact("fig8", "clusters of animals",
                 partial(fig7_fig8_clusters.reproduce, name="fig8"), True),
        Artefact("table1", "vehicles: all methods", partial(tables.reproduce, name="table1"), True),
        Artefact("table2", "animals: all methods", partial(tables.reproduce, name="table2"), True),
        Artefact("table3", "all six classes: all methods",
                 partial(tables.reproduce, name="table3"), True),
    )
}  # fmt: skip


def select(name: str) -> Sequence[Artefact]:
    """The artefact of that name, or every artefact for ``all``."""
    if name == "all":
        return list(ARTEFACTS.values())
    if name not in ARTEFACTS:
        names = ", ".join(ARTEFACTS)
        raise InputError(f"the name must be one of {names}, all or list, got {name!r}")
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
    """Make figures and tables one after the other; yields each with the paths of its files.

    The arguments are checked at the call, before anything is computed or written.

    Parameters
    ----------
    name : str
        ``"fig1"`` … ``"fig8"``, ``"table1"`` … ``"table3"`` or ``"all"``.
    out : path
        The folder for the files and for ``results.sqlite``, which stores every run. A second call
        with the same folder continues where the first was interrupted.
    runs : int, optional
        The number of runs per point. The default is 100, as in the paper, or 15 with `quick`.
    quick : bool, default=False
        Compute fewer points with fewer runs.
    jobs : int, optional
        The number of worker processes, by default one per core.
    images : path, optional
        A folder with one sub-folder per class. The default is scikit-learn's digits.
    seed : int, default=0
        Different seeds give different random samples.
    export : path, optional
        A CSV or Parquet file to which all stored runs are written at the end.
    """
    artefacts = select(name)
    if runs is None:
        runs = QUICK_RUNS if quick else RUNS
    runs = checks.whole(runs, "runs", least=1)
    jobs = checks.whole(num_threads() if jobs is None else jobs, "jobs", least=1)
    seed = checks.whole(seed, "seed", least=0)
    if runs > SEEDS_APART or seed > MAX_SEED:
        raise InputError(
            f"runs must be at most {SEEDS_APART:,} and seed at most {MAX_SEED:,}, "
            f"got {runs:,} and {seed:,}"
        )
    folder = None if images is None else Path(images)
    if folder is not None and any(artefact.needs_images for artefact in artefacts):
        check_folder(folder)
    if export is not None:
        check_export(export)
    need("matplotlib")
    target = Path(out)
    target.mkdir(parents=True, exist_ok=True)
    session = Session(target, Store(target / "results.sqlite"), jobs, runs, quick, seed, folder)
    return _make(artefacts, session, export)


def _make(
    artefacts: Sequence[Artefact], session: Session, export: str | os.PathLike[str] | None
) -> Iterator[tuple[Artefact, list[Path]]]:
    with session.store:
        for artefact in artefacts:
            yield artefact, artefact.make(session)
        if export is not None:
            session.store.export(export)
