"""``bitmix plan``."""

import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli.options import Force, Json
from bitmix.cli.output import check_writable, print_json

MAX_SIMULATED_CELLS = 2_000_000
"""Larger settings are not simulated by default, because it would take too long."""


Unknown = StrEnum("Unknown", ["m", "n", "c"])
Reading = StrEnum("Reading", ["corrected", "printed"])
Pruning = StrEnum("Pruning", ["l1", "hamming"])


class Estimator(StrEnum):
    two_round = "two-round"
    template = "template"
    classic = "classic"
    none = "none"

    def made(self) -> Any:
        """The unfitted estimator."""
        from bitmix.estimators.paper import ClassicEM, TwoRoundEM
        from bitmix.estimators.template import TemplateMixture

        if self is Estimator.template:
            return TemplateMixture(noise_model="shared")
        return ClassicEM() if self is Estimator.classic else TwoRoundEM()


@dataclass(frozen=True)
class Setting:
    """The numbers that the theorem and the certificate depend on."""

    q: Annotated[float, typer.Option("--q", help="Noise level, in (0, ½).")]
    n: Annotated[int | None, typer.Option("--n", help="Number of columns.")] = None
    m: Annotated[int, typer.Option("--m", help="Number of rows.")] = 300
    k: Annotated[int, typer.Option("--k", help="Number of templates, at least 2.")] = 2
    c: Annotated[
        float | None, typer.Option("--c", help="Separation. Default: the largest possible.")
    ] = None
    w_min: Annotated[float | None, typer.Option(help="Smallest weight. Default: 1/k.")] = None
    delta: Annotated[float, typer.Option(help="Allowed probability of failure.")] = 0.1
    epsilon: Annotated[float, typer.Option(help="Allowed excess error, in units of q.")] = 0.1
    reading: Annotated[
        Reading, typer.Option(help="The conditions as printed in the paper, or corrected.")
    ] = Reading.corrected
    pruning: Annotated[Pruning, typer.Option(help="Distance of step 6.")] = Pruning.l1

    def values(self) -> dict[str, Any]:
        """All numbers by name, with the defaults that depend on k."""
        from bitmix.theory.checks import count, largest_separation

        k = count(self.k, "k")
        return {
            **vars(self),
            "c": largest_separation(k) if self.c is None else self.c,
            "w_min": 1 / k if self.w_min is None else self.w_min,
            "reading": str(self.reading),
            "pruning": str(self.pruning),
        }


def plan(
    setting: Setting,
    solve_for: Annotated[
        Unknown | None, typer.Option(help="Compute the smallest sufficient m, n or c.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the region of guaranteed recovery (.png, .svg).")
    ] = None,
    estimator: Annotated[
        Estimator, typer.Option(help="The estimator to simulate, or none.")
    ] = Estimator.two_round,
    seeds: Annotated[
        str | None,
        typer.Option(help="Number of seeds for the certificate, or best. Default: the paper's."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compute how much data exact recovery needs.

    Evaluates the paper's theorem, the certificate, a simulation of the estimator, and the limit for
    any method.

    \b
    Examples:
      bitmix plan --n 2000 --q 0.01
      bitmix plan --q 0.1 --solve-for n --plot domain.png
    """
    if setting.n is None and solve_for is not Unknown.n:
        raise ValueError("--n, the number of columns, is needed unless --solve-for is n")
    check_writable(plot, force, ".png", ".svg")
    values = setting.values()
    n_seeds: Any = int(seeds) if seeds is not None and seeds.isdecimal() else seeds
    if isinstance(n_seeds, str) and n_seeds != "best":
        raise ValueError(f"--seeds must be a number or best, got {seeds!r}")
    results = _least_values(values, solve_for, estimator, n_seeds)
    solved = [
        result.value
        for result in results.values()
        if result.value is not None and result.method != "simulate"
    ]
    point = {**values, str(solve_for): min(solved)} if solved else values
    if point["n"] is not None:
        results |= _at(point, estimator, n_seeds)
    if as_json:
        print_json({name: value.to_dict() for name, value in results.items()})
    else:
        _show(results)
    if plot is not None:
        from bitmix.plots import save_domain

        save_domain(plot, over="w_min" if solve_for is Unknown.c else "m", **values)
        if not as_json:
            typer.echo(f"plot written to {plot}")


def _least_values(
    values: dict[str, Any], unknown: Unknown | None, estimator: Estimator, n_seeds: Any
) -> dict[str, Any]:
    """The smallest value of the unknown by the theorem, the certificate and a simulation."""
    from bitmix import theory

    if unknown is None:
        return {}
    options: dict[str, Any] = {"n_seeds": n_seeds, "estimator": estimator.made(), **values}
    methods = {"theorem": "theorem", "certificate": "certificate"}
    if estimator is not Estimator.none:
        methods["simulation"] = "simulate"
    return {
        f"least_{unknown}_by_{name}": theory.plan(str(unknown), method=method, **options)  # type: ignore[arg-type]
        for name, method in methods.items()
    }


def _at(point: dict[str, Any], estimator: Estimator, n_seeds: Any) -> dict[str, Any]:
    """The theorem, the certificate, a simulation and the limit at one point."""
    from bitmix import theory
    from bitmix.theory.checks import weights_with_least

    sizes = {name: point[name] for name in ("n", "m", "k", "q")}
    theorem = {name: point[name] for name in ("c", "w_min", "delta", "epsilon", "reading")}
    mixture = {
        "distances": point["c"] * point["n"],
        "weights": weights_with_least(point["w_min"], point["k"]),
    }
    certificate = {"delta": point["delta"], "pruning": point["pruning"], "n_seeds": n_seeds}
    results = {
        "guarantee": theory.guarantee(**sizes, **theorem),
        "certificate": theory.certificate(**sizes, **mixture, **certificate),
        "limit": theory.limit(**sizes, **mixture),
    }
    if estimator is not Estimator.none and point["n"] * point["m"] <= MAX_SIMULATED_CELLS:
        from bitmix.estimators.simulate import simulate

        d = math.floor(round(point["c"] * point["n"], 6))
        results["simulation"] = simulate(
            **sizes, distance=d, weights=mixture["weights"], delta=point["delta"],
            estimator=estimator.made(),
        )  # fmt: skip
    return results


def _show(results: dict[str, Any]) -> None:
    """Print the results; all but the limit format themselves."""
    limit = results.pop("limit", None)
    for result in results.values():
        typer.echo(f"{result}\n")
    if limit is None:
        return
    bound = "" if limit.label_error_is_exact else "at least "
    typer.echo(
        "Limits for any method\n"
        f"  probability that a row is mislabelled, if all parameters are known: "
        f"{bound}{limit.label_error:.3g}\n"
        f"  probability that all templates are exact, at most\n"
        f"  {limit.recovery_masks:12.4g}  if the labels and the differing columns are known\n"
        f"  {limit.recovery_uniform:12.4g}  if the labels are known and the templates are uniform"
    )
