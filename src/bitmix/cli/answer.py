"""What ``bitmix fit`` and ``bitmix inspect`` tell of a model."""

from pathlib import Path
from typing import Any

from bitmix.cli.data import Data

NEXT = ("predict", "certify")
MOST_NOISES = 100  # noise levels to print; of more, their mean


def of_model(model: Any) -> dict[str, Any]:
    """What the model itself knows."""
    import numpy as np

    noise = np.asarray(model.noise_)
    answer = {
        "columns": model.n_features_in_,
        "n_components": len(model.weights_),
        "weights": model.weights_,
        "bits_set": model.templates_.sum(axis=1),
        "noise": model.noise_ if noise.size <= MOST_NOISES else float(noise.mean()),
    }
    for name in ("n_agreeing", "n_starts", "round_one_rows"):
        if hasattr(model, f"{name}_"):
            answer[name] = getattr(model, f"{name}_")
    return answer


def about(model: Any, found: Data, certificate: Any) -> dict[str, Any]:
    """What the model knows, and what its rows and a certificate say of it."""
    from bitmix.em.predict import tally

    rows = found.rows
    counted = tally(rows, model._mixture)
    m, n = rows.shape
    answer = {
        "rows": m,
        **of_model(model),
        "density": counted.ones / (m * n),
        "members": counted.members,
        "log_likelihood": counted.log_likelihood,
    }
    if found.transformer is not None:
        answer["skipped"] = len(found.transformer.skipped_)
    if found.truth:
        from bitmix.metrics import conditional_entropy, conditional_purity

        labels = model.predict(rows)
        answer["purity"] = conditional_purity(found.truth, labels)
        answer["entropy"] = conditional_entropy(found.truth, labels)
    if certificate is not None:
        missing = [f"{part.name}: {part.says}" for part in certificate.parts if not part.holds]
        answer["certificate"] = {
            "issued": certificate.issued, "alpha": certificate.alpha, "why_not": missing
        }  # fmt: skip
    return answer


def certified(model: Any, found: Data) -> Any:
    """A certificate, where there is one noise level for it to speak of."""
    if getattr(model, "noise_model", "shared") != "shared":
        return None
    from bitmix.certify import certify_fit

    return certify_fit(found.rows, model.templates_)


def show(
    answer: dict[str, Any], files: dict[str, Path | None], data: Path | None, classes: str
) -> None:
    """The answer, for people."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(
        f"{answer['rows']:,} rows, {answer['columns']:,} columns, density {answer['density']:.3f}, "
        f"{answer['n_components']} templates"
    )
    console.print(templates(answer))
    console.print(noise_line(answer))
    if "n_agreeing" in answer:
        sample = answer["round_one_rows"]
        seen = f", which saw {sample:,} random rows" if sample < answer["rows"] else ""
        console.print(f"reached by {answer['n_agreeing']} of {answer['n_starts']} starts{seen}")
    if "purity" in answer:
        console.print(
            f"purity {answer['purity']:.4f}, entropy {answer['entropy']:.4f} against {classes}"
        )
    if "certificate" in answer:
        console.print(_verdict(answer["certificate"]), markup=False)
    for what, path in files.items():
        if path is not None:
            console.print(f"{what} in {path}", markup=False, soft_wrap=True)
    if data is not None:
        then = (
            f"bitmix fit {data} -k {answer['n_components']} -o my.model"
            if files["model"] is None
            else "  |  ".join(f"bitmix {do} {files['model']} {data}" for do in NEXT)
        )
        console.print(f"next: {then}", markup=False, soft_wrap=True)


def templates(answer: dict[str, Any]) -> Any:
    """A table with a line for each template."""
    from rich.table import Table

    counted = "members" in answer
    table = Table("template", "weight", *(("rows",) if counted else ()), "bits set")
    for i, weight in enumerate(answer["weights"]):
        members = (f"{answer['members'][i]:,}",) if counted else ()
        table.add_row(str(i), f"{weight:.3f}", *members, str(answer["bits_set"][i]))
    return table


def noise_line(answer: dict[str, Any]) -> str:
    noise = answer["noise"]
    levels = [noise] if isinstance(noise, float) else noise.ravel().tolist()
    return f"noise {', '.join(f'{level:.3g}' for level in levels)}"


def _verdict(certificate: dict[str, Any]) -> str:
    if certificate["issued"]:
        return f"certificate: issued at α = {certificate['alpha']:g}, every template is exact"
    return f"certificate: not issued ({certificate['why_not'][0]})"
