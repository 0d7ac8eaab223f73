"""Tables 1 to 3: purity, entropy and log-likelihood of clusters of images."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from bitmix.support.atomic import atomic_write
from reproduction.images import ANIMALS, VEHICLES, ImageSet
from reproduction.methods import ORACLE, TEMPLATE_MIXTURE, Method, classic, two_round
from reproduction.runs import Run, Sweep, ask
from reproduction.session import Session
from reproduction.style import BLUE, GREEN, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLES = {"table1": VEHICLES, "table2": ANIMALS, "table3": VEHICLES + ANIMALS}
METHODS = (
    two_round(2),
    two_round(10),
    *(classic(iterations, starts) for starts in (1, 5, 10) for iterations in (2, 10, 20, 100)),
    TEMPLATE_MIXTURE,
    Method(
        "TemplateMixture, cell noise",
        {"estimator": "TemplateMixture", "noise_model": "cell"},
        ours=True,
    ),
    ORACLE,
)
MEASURES = ("purity", "entropy", "log_likelihood")


def reproduce(session: Session, name: str) -> list[Path]:
    images = session.image_set(TABLES[name])
    *qualities, certificate = session.run(
        name,
        [_quality(session, images, method) for method in METHODS] + [_certificate(session, images)],
    )
    paper = printed()[name] if images.as_in_paper else {}
    rows = [
        {"method": method.label, "ours": method.ours, **quality,
         **{f"paper_{measure}": value for measure, value in paper.get(method.label, {}).items()}}
        for method, quality in zip(METHODS, qualities, strict=True)
    ]  # fmt: skip
    paths = session.write(name, rows, lambda figure: draw(figure, rows, images.title), (10.5, 5.0))
    with atomic_write(session.out / f"{name}.md") as file:
        file.write(markdown(name, images, rows, certificate).encode())
    return [*paths, session.out / f"{name}.md"]


def printed() -> dict[str, dict[str, dict[str, float]]]:
    """The paper's tables: table, method, then mean and standard deviation of each measure."""
    text = Path(__file__).with_name("printed.toml").read_text(encoding="utf-8")
    return {
        table: {method: dict(zip(_PRINTED, values, strict=True)) for method, values in rows.items()}
        for table, rows in tomllib.loads(text).items()
    }


_PRINTED = (
    "purity", "purity_std", "entropy", "entropy_std", "log_likelihood", "log_likelihood_std",
    "perfect",
)  # fmt: skip


def _quality(session: Session, images: ImageSet, method: Method) -> Sweep[dict[str, Any]]:
    setting = {"sketches": images.digest, "classes": list(images.classes)}
    seeds = session.seeds[:1] if method is ORACLE else session.seeds  # it is not random
    results = yield from ask(
        [Run("clusters", setting, method.params, seed, str(images.path)) for seed in seeds]
    )
    row: dict[str, Any] = {}
    for measure in MEASURES:
        values = [result[measure] for result in results]
        row[measure] = fmean(values)
        row[f"{measure}_std"] = stdev(values) if len(values) > 1 else 0.0
    row["perfect"] = sum(result["purity"] == 1 for result in results)
    row["runs"] = len(results)
    return row


def _certificate(session: Session, images: ImageSet) -> Sweep[dict[str, Any]]:
    """The certificate of TemplateMixture's fit with the first seed."""
    setting = {"sketches": images.digest, "classes": list(images.classes)}
    cell = Run("certified", setting, TEMPLATE_MIXTURE.params, session.first_seed, str(images.path))
    (result,) = yield from ask([cell])
    return dict(result)


def markdown(
    name: str, images: ImageSet, rows: Sequence[Mapping[str, Any]], certificate: Mapping[str, Any]
) -> str:
    """The table as the paper prints it, with the paper's values in italics below ours."""
    number = name.removeprefix("table")
    lines = [
        f"# Table {number}: {images.title}",
        "",
        f"{len(images.labels)} images, {len(images.classes)} classes, "
        f"{images.rows.shape[1]:,} bits per image. Mean ± standard deviation over the runs; N is "
        "the number of runs that recover the classes perfectly. The paper's values are in italics.",
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
        verdict = "issued, the templates are certified"
    else:
        verdict = "not issued. " + " ".join(f"{reason}." for reason in certificate["refused"])
    lines += ["", f"Certificate of the fit (ours): {verdict}", ""]
    if not images.as_in_paper:
        lines += ["The paper's values are shown only for the classes that it used.", ""]
    return "\n".join(lines)


def _entry(row: Mapping[str, Any], measure: str, digits: int) -> str:
    entry = f"{row[measure]:.{digits}f} ± {row[f'{measure}_std']:.{digits}f}"
    if f"paper_{measure}" in row:
        beside = f"{row[f'paper_{measure}']:.{digits}f} ± {row[f'paper_{measure}_std']:.{digits}f}"
        entry += f"<br>*{beside}*"
    return entry


def draw(figure: "Figure", rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """One dot per method with one standard deviation, and a diamond for the paper's value."""
    figure.suptitle(title, fontsize=10)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, measure in zip(axes, ("purity", "entropy"), strict=True):
        for place, row in enumerate(rows):
            color = GREEN if row["ours"] else BLUE
            ax.errorbar(
                row[measure], place, xerr=row[f"{measure}_std"], color=color, marker="o",
                markersize=5, linewidth=1, capsize=2, label="our runs" if place == 0 else None,
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
