"""The summary of a model that ``bitmix fit`` and ``bitmix inspect`` print: first a dictionary."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

from bitmix.cli.data import Dataset
from bitmix.support.words import WORDS, words_for

MAX_NAMES_SHOWN = 8
MAX_NOISE_LEVELS = 100
"""If there are more noise levels, only their mean is reported."""
MAX_PROBABILITIES = 20_000
"""If there are more probabilities, they are not listed by item."""
MAX_ITEMS_SHOWN, MAX_CLASSES_SHOWN, MAX_LINES = 40, 8, 20


def summarize_model(model: Any) -> dict[str, Any]:
    """What a fitted model holds, without its rows."""
    import numpy as np

    noise = np.asarray(model.noise_)
    summary = {
        "columns": model.n_features_in_,
        "n_components": len(model.weights_),
        "words": words_for(model).many,
        "weights": model.weights_,
        "bits_set": model.templates_.sum(axis=1),
        "noise": model.noise_ if noise.size <= MAX_NOISE_LEVELS else float(noise.mean()),
    }
    for name in (
        "noise_model", "noise_model_scores", "objective", "converged", "n_agreeing", "n_starts",
        "n_rows_searched", "starts",
    ):  # fmt: skip
        if hasattr(model, f"{name}_"):
            summary[name] = getattr(model, f"{name}_")
    return summary


def summarize_fit(
    model: Any, data: Dataset, errors: Any, words: str | None, *, drawn: bool
) -> dict[str, Any]:
    """What a fitted model holds, how well it fits, and how its rows are distributed.

    `errors` are standard errors of the fit, or None. `drawn` says that the report draws rows.
    """
    from bitmix.em.predict import tally
    from bitmix.inference.statistics import fit_statistics

    counts = tally(data.rows, model.mixture_)
    statistics = fit_statistics(model, data.rows)
    sizes = statistics.class_sizes
    summary = {
        "rows": data.rows.shape[0],
        **summarize_model(model),
        "density": counts.density,
        "members": sizes.astype(int) if (sizes % 1 == 0).all() else sizes,  # by weight
        **statistics.to_dict(),
    }
    summary["words"] = words_for(model, words, drawn=drawn).many
    if not hasattr(model, "noise_model_"):  # the paper's estimators score means that are not bits
        summary["log_likelihood"] = counts.log_likelihood
    summary |= items_of(model, data.rows, errors)
    if errors is not None:
        summary["standard_errors"] = vars(errors.standard_errors)
        summary["intervals"] = vars(errors.intervals)
    if data.transformer is not None:
        summary["skipped"] = len(data.transformer.skipped_)
    if data.table is not None:
        summary["reading"] = summarize_rows(data)
    if data.classes:
        from bitmix.metrics import conditional_entropy, conditional_purity

        labels = model.predict(data.rows)
        against = {
            name: {
                "purity": conditional_purity(classes, labels),
                "entropy": conditional_entropy(classes, labels),
            }
            for name, classes in data.classes.items()
        }
        summary |= next(iter(against.values()))
        summary["against"] = against
    return summary


def summarize_rows(data: Dataset) -> dict[str, Any]:
    """How a table was read."""
    rows, roles = data.rows, data.table.roles
    codes = getattr(rows, "codes", None)
    return {
        "read_as": [] if codes is None else codes.describe(),
        "missing_cells": getattr(rows, "n_missing", None),  # not counted on a cluster
        "id_column": roles.id_name,
        "label_columns": roles.label_names,
        "weight_column": roles.weight_name,
        "total_weight": rows.total_weight,
        "left_out": dict(roles.left_out),
    }


def reading_lines(summary: dict[str, Any]) -> list[str]:
    """How a table was read, in a few lines."""
    lines = list(summary["read_as"])
    if summary["missing_cells"]:
        lines.append(f"missing cells: {summary['missing_cells']:,}")
    if summary["id_column"] is not None:
        lines.append(f"ids: column {summary['id_column']!r}")
    if summary["label_columns"]:
        lines.append(f"labels: {', '.join(map(repr, summary['label_columns']))}")
    if summary["weight_column"] is not None:
        lines.append(
            f"weights: column {summary['weight_column']!r}, {summary['total_weight']:,g} in all"
        )
    reasons: dict[str, list[str]] = {}
    for column, reason in summary["left_out"].items():
        reasons.setdefault(reason, []).append(column)
    lines += [f"left out, {reason}: {listed(names)}" for reason, names in reasons.items()]
    return lines


def listed(names: Sequence[str]) -> str:
    """The first names, and how many there are in all."""
    more = f", … ({len(names):,} in all)" if len(names) > MAX_NAMES_SHOWN else ""
    return ", ".join(names[:MAX_NAMES_SHOWN]) + more


def items_of(model: Any, rows: Any, errors: Any) -> dict[str, Any]:
    """The item probabilities of a model with a probability per cell, unless there are too many."""
    from bitmix.inference.item_table import item_probabilities

    mixture = model.mixture_
    if mixture.noise is not None or mixture.means.size > MAX_PROBABILITIES:
        return {}
    return {"items": item_probabilities(model, rows, errors)}


def summarize_certificate(certificate: Any, reason: str) -> dict[str, Any]:
    """Whether a certificate was issued, and if not, why. `reason` is used if there is none."""
    if certificate is None:
        return {"issued": False, "verdict": "none", "why_not": [reason], "objections": []}
    failed = [f"{part.name}: {part.says}" for part in certificate.parts if not part.holds]
    mask = certificate.mask
    shown = {"mask": mask.astype(int)} if mask.size <= MAX_PROBABILITIES else {}
    return {
        "issued": certificate.issued,
        "verdict": certificate.verdict,
        "holds": certificate.holds,
        "alpha": certificate.alpha,
        "method": certificate.method,
        "why_not": failed,
        "objections": list(certificate.objections),
        "certified": float(mask.mean()),
        **shown,
    }


def print_fit(summary: dict[str, Any]) -> None:
    """Print the summary of a fit."""
    from rich.console import Console

    console, k = Console(highlight=False, markup=False), summary["n_components"]
    words = WORDS[summary["words"]].one if k == 1 else summary["words"]
    console.print(
        f"{summary['rows']:,} rows, {summary['columns']:,} columns, "
        f"density {summary['density']:.3f}, {k} {words}"
    )
    for line in reading_lines(summary["reading"]) if "reading" in summary else ():
        console.print(line, soft_wrap=True)
    console.print(template_table(summary))
    if summary.get("noise_model") == "cell":
        console.print(_fit_line(summary))
        if "items" in summary:
            console.print(items_table(summary))
        if summary["noise_model_scores"]:
            console.print(model_line(summary))
    else:
        console.print(noise_line(summary))
    if "n_agreeing" in summary:
        console.print(starts_line(summary))
        sample = summary["n_rows_searched"]
        if sample < summary["rows"]:
            console.print(f"searched in {sample:,} random rows, then fitted to all rows")
    for name, scores in summary.get("against", {}).items():
        console.print(
            f"purity {scores['purity']:.4f}, entropy {scores['entropy']:.4f} against {name}"
        )
    if "certificate" in summary:
        console.print(_certificate_line(summary["certificate"]))
    if "held_out" in summary:
        for line in summary["held_out"]["says"]:
            console.print(f"held out: {line}")


def _fit_line(summary: dict[str, Any]) -> str:
    """The log-likelihood and the statistics computed from it."""
    parts = [f"ln L {summary['log_likelihood']:.3f}", f"{summary['n_parameters']:,} parameters"]
    for name, title in (("bic", "BIC"), ("aic", "AIC")):
        parts.append(f"{title} {summary[name]:.2f}")
    if summary["n_components"] > 1:
        parts.append(f"entropy R² {summary['entropy_r2']:.3f}")
    if summary["df"] is not None and summary["df"] >= 0:
        g_squared, chi_squared = summary["g_squared"], summary["chi_squared"]
        parts.append(f"G² {g_squared:.2f}, χ² {chi_squared:.2f} with {summary['df']} df")
    return ", ".join(parts)


def items_table(summary: dict[str, Any]) -> Any:
    """The probability of each answer in each class, unless the table is too long to read."""
    from rich.box import SIMPLE
    from rich.table import Table

    items, few = summary["items"], summary["n_components"] <= MAX_CLASSES_SHOWN
    if len(items.records) > MAX_ITEMS_SHOWN or not few:
        report = " or --report" if summary["words"] == "classes" else ""
        return f"item probabilities: see --json{report}"
    table = Table(*(column.heading for column in items.columns), box=SIMPLE, pad_edge=False)
    for line in items.lines():
        table.add_row(*line)
    return table


def summarize_held_out(held_out: Any) -> dict[str, Any]:
    """The results on held-out rows; single bits only if there are not too many."""
    values: dict[str, Any] = held_out.to_dict()
    values["says"] = [str(held_out.bits), str(held_out.agreement)]
    if held_out.bits.mask.size > MAX_PROBABILITIES:
        for name in ("bits", "mask", "lower"):
            del values["bits"][name]
    return values


def print_next(
    path: Path | None, data: Path, model: Any, again: str, reading: str, *, offer: bool = False
) -> None:
    """Print what to do after a fit, with the options of the fit that are needed again.

    With `offer`, a command that holds out rows is among them.
    """
    from rich.console import Console

    commands = f"bitmix fit {quote(str(data))}{again} -o my.model"
    if path is not None:
        arguments = f"{quote(str(path))} {quote(str(data))}{reading}"
        commands = f"bitmix predict {arguments}"
        commands += f"  |  bitmix groups {arguments}"
        if model.mixture_.noise_model == "shared":
            commands += f"  |  bitmix certify {arguments}"
    if offer:
        commands += f"  |  bitmix fit {quote(str(data))}{again} --hold-out 0.3"
    Console(highlight=False, markup=False).print(f"next: {commands}", soft_wrap=True)


def template_table(summary: dict[str, Any]) -> Any:
    """A table with one line per template, at most `MAX_LINES`."""
    from rich.console import Group
    from rich.table import Table

    one = WORDS[summary["words"]].one
    columns = {
        one: [str(i) for i in range(summary["n_components"])],
        "share" if one == "class" else "weight": [f"{weight:.3f}" for weight in summary["weights"]],
        "rows": [f"{count:,}" for count in summary.get("members", ())],
        "bits set": [str(count) for count in summary["bits_set"]] if one != "class" else [],
    }
    shown = {heading: cells for heading, cells in columns.items() if cells}
    table = Table(*shown)
    for cells in islice(zip(*shown.values(), strict=True), MAX_LINES):
        table.add_row(*cells)
    n_more = summary["n_components"] - MAX_LINES
    return Group(table, f"{n_more:,} more: bitmix groups lists them") if n_more > 0 else table


def noise_line(summary: dict[str, Any]) -> str:
    """The flip rates, and how the noise model was chosen."""
    noise = summary["noise"]
    levels = [noise] if isinstance(noise, float) else noise.ravel().tolist()
    line = f"noise {', '.join(f'{level:.3g}' for level in levels)}"
    return f"{line}\n{model_line(summary)}" if summary.get("noise_model_scores") else line


def model_line(summary: dict[str, Any]) -> str:
    """How the noise model was chosen."""
    scores = summary["noise_model_scores"]
    behind = ", ".join(f"{model} {score['behind']:.3g}" for model, score in scores.items())
    if summary["noise_model"] == "cell" and scores["feature"]["behind"] < scores["cell"]["behind"]:
        return (  # see `em.levels`
            "noise model cell, as columns need separate rates in the group that was compared; "
            f"nats per row behind the best there: {behind}"
        )
    return (
        f"noise model {summary['noise_model']}, the simplest that predicts held-out rows as "
        f"well as the best; nats per row behind the best: {behind}"
    )


def starts_line(summary: dict[str, Any]) -> str:
    n_given_up = len(summary["starts"]) - summary["n_starts"]
    if summary["n_starts"] == 1 and n_given_up:
        return f"ahead of {n_given_up} other start{'s' * (n_given_up > 1)}, given up on the way"
    if summary["n_starts"] == 1:
        return "there was one start, so there is nothing to compare it with"
    return f"{summary['n_agreeing']} of {summary['n_starts']} finished starts agree on this fit"


def _certificate_line(certificate: dict[str, Any]) -> str:
    objections = certificate["objections"]
    if certificate["issued"] and not objections:
        return f"certificate: issued at α = {certificate['alpha']:g}, every template is exact"
    if certificate["issued"]:
        more = f", and {len(objections) - 1} more" if len(objections) > 1 else ""
        return (
            f"certificate: issued at α = {certificate['alpha']:g}, but a check of its conditions "
            f"objects, so the templates may be wrong ({objections[0]}{more})"
        )
    line = f"certificate: not issued ({certificate['why_not'][0]})"
    if certificate.get("certified") and not objections:
        line += f"; {certificate['certified']:.1%} of the template bits are certified"
    return line
