"""Tables 1 to 3: purity, entropy and log-likelihood of clusters of images."""

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from bitmix.experiments.bench import Bench
from bitmix.experiments.cells import Cell, Sweep, ask
from bitmix.experiments.images import ANIMALS, VEHICLES, ImageSet
from bitmix.experiments.methods import BETTER, ORACLE, Method, classic, two_round
from bitmix.experiments.style import BLUE, GREEN, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLES = {"table1": VEHICLES, "table2": ANIMALS, "table3": VEHICLES + ANIMALS}
METHODS = (
    two_round(2),
    two_round(10),
    *(classic(iterations, starts) for starts in (1, 5, 10) for iterations in (2, 10, 20, 100)),
    BETTER,
    Method(
        "TemplateMixture, cell noise",
        {"estimator": "TemplateMixture", "noise_model": "cell"},
        ours=True,
    ),
    ORACLE,
)
MEASURES = ("purity", "entropy", "log_likelihood")


def reproduce(bench: Bench, name: str) -> None:
    images = bench.image_set(TABLES[name])
    *findings, certificate = bench.run(
        name,
        [_quality(bench, images, method) for method in METHODS] + [_certificate(bench, images)],
    )
    paper = printed()[name] if images.as_in_paper else {}
    rows = [
        {"method": method.label, "ours": method.ours, **found, **_beside(paper.get(method.label))}
        for method, found in zip(METHODS, findings, strict=True)
    ]
    bench.write(name, rows, lambda figure: draw(figure, rows, images.title), (10.5, 5.0))
    bench.write_text(f"{name}.md", markdown(name, images, rows, certificate))


def printed() -> dict[str, dict[str, dict[str, float]]]:
    """The paper's tables: table, method, then mean and standard deviation of each measure."""
    text = files("bitmix.experiments").joinpath("printed.toml").read_text(encoding="utf-8")
    return {
        table: {method: dict(zip(_PRINTED, values, strict=True)) for method, values in rows.items()}
        for table, rows in tomllib.loads(text).items()
    }


_PRINTED = (
    "purity", "purity_std", "entropy", "entropy_std", "log_likelihood", "log_likelihood_std",
    "perfect",
)  # fmt: skip


def _beside(paper: Mapping[str, float] | None) -> dict[str, float]:
    return {f"paper_{name}": value for name, value in (paper or {}).items()}


def _quality(bench: Bench, images: ImageSet, method: Method) -> Sweep[dict[str, Any]]:
    setting = {"sketches": images.digest, "classes": list(images.classes)}
    seeds = bench.seeds[:1] if method is ORACLE else bench.seeds  # nothing random in it
    results = yield from ask(
        [Cell("clusters", setting, method.params, seed, str(images.path)) for seed in seeds]
    )
    row: dict[str, Any] = {}
    for measure in MEASURES:
        values = [result[measure] for result in results]
        row[measure] = fmean(values)
        row[f"{measure}_std"] = stdev(values) if len(values) > 1 else 0.0
    row["perfect"] = sum(result["purity"] == 1 for result in results)
    row["runs"] = len(results)
    return row


def _certificate(bench: Bench, images: ImageSet) -> Sweep[dict[str, Any]]:
    """The certificate of the best estimator's fit at the first seed."""
    setting = {"sketches": images.digest, "classes": list(images.classes)}
    cell = Cell("certified", setting, BETTER.params, bench.first_seed, str(images.path))
    (result,) = yield from ask([cell])
    return dict(result)


def markdown(
    name: str, images: ImageSet, rows: Sequence[Mapping[str, Any]], certificate: Mapping[str, Any]
) -> str:
    """The table as the paper prints it, its values in italics beside ours."""
    number = name.removeprefix("table")
    lines = [
        f"# Table {number}: {images.title}",
        "",
        f"{len(images.labels)} images, {len(images.classes)} classes, "
        f"{images.rows.shape[1]:,} bits each. Mean ± standard deviation over the runs; N: runs "
        "that recover the classes perfectly. In italics: the paper's value.",
        "",
        "| method | purity | entropy | log-likelihood | N |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        label = f"**{row['method']}** (ours)" if row["ours"] else row["method"]
        entries = [
            _entry(row, measure, digits)
            for measure, digits in zip(MEASURES, (4, 4, 1), strict=True)
        ]
        perfect = f"{row['perfect']} of {row['runs']}"
        if "paper_perfect" in row:
            perfect += f"<br>*{row['paper_perfect']:.0f} of 100*"
        lines.append(f"| {label} | {' | '.join(entries)} | {perfect} |")
    if certificate["issued"]:
        says = "issued: the templates are certified"
    else:
        says = "not issued. " + " ".join(f"{reason}." for reason in certificate["refused"])
    lines += ["", f"Certificate of the fit (ours): {says}", ""]
    if not images.as_in_paper:
        lines += ["The paper's values stand beside ours for its own classes only.", ""]
    return "\n".join(lines)


def _entry(row: Mapping[str, Any], measure: str, digits: int) -> str:
    entry = f"{row[measure]:.{digits}f} ± {row[f'{measure}_std']:.{digits}f}"
    if f"paper_{measure}" in row:
        beside = f"{row[f'paper_{measure}']:.{digits}f} ± {row[f'paper_{measure}_std']:.{digits}f}"
        entry += f"<br>*{beside}*"
    return entry


def draw(figure: "Figure", rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """A dot a method, the paper's as a ring, with one standard deviation."""
    figure.suptitle(title, fontsize=10)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, measure in zip(axes, ("purity", "entropy"), strict=True):
        for place, row in enumerate(rows):
            color = GREEN if row["ours"] else BLUE
            ax.errorbar(
                row[measure], place, xerr=row[f"{measure}_std"], color=color, marker="o",
                markersize=5, linewidth=1, capsize=2, label="here" if place == 0 else None,
            )  # fmt: skip
            if f"paper_{measure}" in row:
                ax.plot(
                    row[f"paper_{measure}"], place + 0.28, marker="D", markersize=5,
                    markerfacecolor="white", color="black", linestyle="",
                    label="the paper" if place == 0 else None,
                )  # fmt: skip
        names = [f"{row['method']} (ours)" if row["ours"] else row["method"] for row in rows]
        ax.set_yticks(range(len(rows)), names, fontsize=8)
        ax.set_xlabel(f"conditional {measure}" + (" (nats)" if measure == "entropy" else ""))
        tidy(ax)
    axes[0].invert_yaxis()
    axes[0].set_xlim(right=1.02)
    axes[1].set_xlim(left=-0.02)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
