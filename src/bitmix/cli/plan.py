"""``bitmix plan``."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitmix.cli.output import Force, Json, print_json, writable

if TYPE_CHECKING:
    from rich.table import Table

    from bitmix.theory import Certificate, Guarantee


class Unknown(StrEnum):
    m = "m"
    n = "n"
    c = "c"


class Reading(StrEnum):
    corrected = "corrected"
    printed = "printed"
    kl = "kl"


class Pruning(StrEnum):
    l1 = "l1"
    hamming = "hamming"


def plan(
    q: Annotated[float, typer.Option("--q", help="Noise level, in (0, ½).")],
    n: Annotated[int | None, typer.Option("--n", help="Columns.")] = None,
    m: Annotated[int, typer.Option("--m", help="Rows.")] = 300,
    k: Annotated[int, typer.Option("--k", help="Templates, at least 2.")] = 2,
    c: Annotated[
        float | None, typer.Option("--c", help="Separation; by default the largest possible.")
    ] = None,
    w_min: Annotated[float | None, typer.Option(help="Least weight; by default 1/k.")] = None,
    delta: Annotated[float, typer.Option(help="Probability of failure allowed.")] = 0.1,
    epsilon: Annotated[float, typer.Option(help="Excess error allowed, in units of q.")] = 0.1,
    solve_for: Annotated[Unknown | None, typer.Option(help="Find the least m, n or c.")] = None,
    reading: Annotated[Reading, typer.Option(help="How to read the paper.")] = Reading.corrected,
    pruning: Annotated[Pruning, typer.Option(help="Distance of step 6.")] = Pruning.l1,
    plot: Annotated[Path | None, typer.Option(help="Draw the domain into this PNG or SVG.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Before the data: how many rows, columns, how much separation? Theorem, certificate, limit.

    Examples:  bitmix plan --n 2000 --q 0.01  |  bitmix plan --q 0.1 --solve-for n --plot domain.png
    """
    if n is None and solve_for is not Unknown.n:
        raise ValueError("give --n, the number of columns, or --solve-for n")
    from bitmix.theory.checks import count, most_apart

    count(k, "k")
    point: dict[str, Any] = {
        "n": n, "m": m, "k": k, "q": q, "delta": delta, "epsilon": epsilon,
        "c": most_apart(k) if c is None else c,
        "w_min": 1 / k if w_min is None else w_min,
        "reading": str(reading), "pruning": str(pruning),
    }  # fmt: skip
    target = None if plot is None else writable(plot, force, ".png", ".svg")
    answer = _answer(point, None if solve_for is None else str(solve_for))
    if as_json:
        print_json({name: value.to_dict() for name, value in answer.items() if value is not None})
    else:
        _show(answer)
    if target is not None:
        from bitmix.plots import save_domain

        save_domain(target, over="w_min" if solve_for is Unknown.c else "m", **point)
        if not as_json:
            typer.echo(f"domain drawn into {target}")


def _answer(point: dict[str, Any], unknown: str | None) -> dict[str, Any]:
    """Theorem and certificate, solved for the unknown first; then all three at the point."""
    from bitmix import theory
    from bitmix.theory.checks import one_light

    answer: dict[str, Any] = {}
    if unknown is not None:
        for method in ("theorem", "certificate"):
            answer[f"least_{unknown}_by_{method}"] = theory.plan(unknown, method=method, **point)  # type: ignore[arg-type]
        found = [plan.value for plan in answer.values() if plan.value is not None]
        if found:
            point = {**point, unknown: min(found)}
    if point["n"] is None:
        return answer
    n, m, k, q, w = point["n"], point["m"], point["k"], point["q"], point["w_min"]
    answer["guarantee"] = theory.guarantee(
        n, m, k, q, point["c"], w, point["delta"], point["epsilon"], reading=point["reading"]
    )
    weights = one_light(w, k)
    d = point["c"] * n
    answer["certificate"] = theory.certificate(
        n, m, k, q, d, weights, delta=point["delta"], pruning=point["pruning"]
    )
    answer["limit"] = theory.limit(n, m, k, q, d, weights)
    return answer


def _show(answer: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    for name, plan in answer.items():
        if name.startswith("least"):
            console.print(str(plan))
    if "guarantee" not in answer:
        return
    guarantee, certificate, limit = answer["guarantee"], answer["certificate"], answer["limit"]
    console.print(
        f"\nn = {guarantee.n:,} columns, m = {guarantee.m:,} rows, k = {guarantee.k} templates, "
        f"q = {guarantee.q:g}, c = {guarantee.c:g}, w_min = {guarantee.w_min:g}, "
        f"δ = {guarantee.delta:g}\n"
    )
    side = Table.grid(padding=(0, 2))
    side.add_row(_theorem_table(guarantee), _certificate_table(certificate))
    if console.width >= 100:
        console.print(side)
    else:
        console.print(_theorem_table(guarantee), _certificate_table(certificate))
    console.print(
        f"\nLimit, whatever the method: a row is mislabelled with probability "
        f"{'' if limit.label_error_is_exact else 'at least '}"
        f"{limit.label_error:.3g} even if all is known; the templates are found with probability "
        f"at most {limit.recovery_masks:.4g} (labels and differing columns known), "
        f"{limit.recovery_uniform:.4g} (labels known, uniform templates)."
    )


def _theorem_table(guarantee: "Guarantee") -> "Table":
    from rich.table import Table

    verdict = "holds" if guarantee.holds else "does not hold"
    table = Table(title=f"Theorem 1 ({guarantee.reading}) {verdict}", title_justify="left")
    for heading in ("", "condition", "needs", "has", "slack"):
        table.add_column(heading, justify="left" if heading in ("", "condition") else "right")
    for condition in guarantee.conditions.values():
        table.add_row(
            "✓" if condition.holds else "✗", condition.name, f"{condition.needs:.5g}",
            f"{condition.has:.5g}", f"{condition.slack:.2f}×",
        )  # fmt: skip
    for name, holds in guarantee.hypotheses.items():
        if not holds:
            table.add_row("✗", name, "", "", "")
    return table


def _certificate_table(certificate: "Certificate") -> "Table":
    from rich.table import Table

    verdict = "holds" if certificate.holds else "does not hold"
    table = Table(title=f"Certificate {verdict}", title_justify="left")
    table.add_column("what may go wrong")
    table.add_column("at most", justify="right")
    for name, value in certificate.failure_terms.items():
        table.add_row(name, f"{value:.2g}")
    table.add_section()
    mark = "✓" if certificate.holds else "✗"
    table.add_row(
        f"{mark} failure, δ = {certificate.delta:g} allowed",
        f"{certificate.failure_probability:.3g}",
    )
    return table
