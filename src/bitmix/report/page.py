"""The page of a report: numbers as text, charts, and the template that holds them."""

import base64
import hashlib
import itertools
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata, resources
from typing import Any

import numpy as np

from bitmix import __version__
from bitmix.estimators.base import FittedTemplates
from bitmix.estimators.select import Selection, enumeration_table
from bitmix.report import svg
from bitmix.report.facts import CLEAR_MARGIN, FLAG_LEVEL, MAX_GROUPS, Facts, printable
from bitmix.report.levels import Thumbnail, levels_of
from bitmix.report.molecules import SIZE, Molecules
from bitmix.report.paper import Paper
from bitmix.report.pictures import Picture, painter
from bitmix.report.svg import Drawing, Tick
from bitmix.support.extras import need
from bitmix.support.words import Words

MAX_MATRIX_GROUPS = 30
MAX_STRIP_GROUPS = 12
MAX_PICTURE_BITS = 16_000_000
"""Bits of all pictures together; if the columns are too many for that, fewer groups are drawn."""
MAX_POWER = 30
"""Odds beyond this power of ten are all written alike."""
MAX_VALUE_LENGTH = 60
MAX_PROFILE_ITEMS, MAX_PROFILE_TICKS, MAX_TICK_LENGTH = 40, 7, 9
CRITERIA = {
    "mdl": "nats needed to write the rows down",
    "icl": "nats needed to write the rows down, with a penalty for overlap",
    "bic": "BIC",
    "aic": "AIC",
    "stability": "disagreement between fits of two halves of the rows",
}
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def render(
    facts: Facts, model: FittedTemplates, paper: Paper, *, selection: Selection | None,
    geometry: Any, title: str | None, source: str | None, words: Words,
    molecules: Sequence[Molecules] = (),
) -> str:  # fmt: skip
    """The page as HTML."""
    need("jinja2")
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        percent=percent, count=count, odds=odds, probability=probability, bar=svg.bar,
        plural=plural, keyed=keyed,
    )  # fmt: skip
    style, script = asset("style.css"), asset("page.js")
    names = getattr(model, "feature_names_in_", None)
    pictures = Pictures() if molecules else _pictures(facts, geometry)
    thumbnails = _thumbnails(molecules, pictures if geometry is not None else Pictures())
    source = None if source is None else printable(source)
    if title is None:
        place = source or f"{count(facts.rows)} {plural(facts.rows, 'row')}"
        title = f"{facts.k} {words.one if facts.k == 1 else words.many} in {place}"
    return environment.from_string(asset("page.html.j2")).render(
        facts=facts,
        printable=printable,
        paper=paper,
        model=model,
        estimator=type(model).__name__,
        title=printable(title),
        source=source,
        style=Drawing(style),
        script=Drawing(script),
        policy=_security_policy(style, script),
        pictures=pictures,
        molecules=molecules,
        charts=_charts(facts, selection, words) | _profile(paper, words),
        one=words.one,
        many=words.many,
        levels=_levels(environment, facts, model, names, thumbnails),
        selection=selection,
        enumeration=enumeration_table(selection.candidates) if selection else None,
        criterion=CRITERIA[selection.criterion] if selection else "",
        settings=settings(model),
        versions=versions(),
        snippet=snippet(model, facts, source),
        clear_odds=round(math.exp(CLEAR_MARGIN)),
        flag_level=FLAG_LEVEL,
        max_groups=MAX_GROUPS,
        max_strip_groups=MAX_STRIP_GROUPS,
        max_matrix_groups=MAX_MATRIX_GROUPS,
    )


def asset(name: str) -> str:
    """The text of a file beside this module."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _security_policy(style: str, script: str) -> str:
    """Forbid everything from outside, and inside all styles and scripts but these two."""
    style_hash, script_hash = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


# Numbers as text


def percent(share: float) -> str:
    """A share in per cent; 0% and 100% only if it is exactly that."""
    if share in (0, 1):
        return f"{share:.0%}"
    if share < 0.001:
        return "under 0.1%"
    if share > 0.999:
        return "over 99.9%"
    return f"{share:.1%}" if share < 0.0995 or share > 0.9905 else f"{share:.0%}"


def count(value: float) -> str:
    """A number with separators of thousands; below ten with one decimal if it is not whole."""
    if value != int(value) and value < 10:
        return f"{value:.1f}"
    return f"{round(value):,}"


def odds(margin: float) -> str:
    """Odds from a margin in nats."""
    if math.isinf(margin):
        return "only one group"
    power = margin / math.log(10)
    return f"over {_power_of_ten(MAX_POWER)} : 1" if power > MAX_POWER else _odds_from_power(power)


def _odds_from_power(power: float) -> str:
    """Odds of 10^power to 1."""
    if power < 6:
        return f"{float(f'{10**power:.2g}'):,.6g} : 1"
    return f"{_power_of_ten(round(power))} : 1"


def probability(p: float) -> str:
    """A probability that may be very small."""
    if p >= 1:
        return "1"
    if p < 1e-300:
        return "under 10⁻³⁰⁰"
    if p >= 1e-3:
        return f"{p:.2g}"
    digit, exponent = f"{p:.0e}".split("e-")
    return f"{digit} × 10⁻{_superscript(int(exponent))}"


def plural(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"


def _power_of_ten(exponent: int) -> str:
    return f"10{_superscript(exponent)}"


def _superscript(number: int) -> str:
    return str(number).translate(_SUPERSCRIPTS)


# How to reproduce the fit


def settings(model: FittedTemplates) -> list[tuple[str, str]]:
    """Every parameter of the estimator, and the fitted numbers that belong to the search."""
    rows = [(name, _short_repr(value)) for name, value in sorted(model.get_params().items())]
    fitted = ("seed_", "n_seeds_", "n_rows_searched_", "n_iter_", "converged_", "n_starts_")
    return rows + [
        (name, _short_repr(getattr(model, name))) for name in fitted if hasattr(model, name)
    ]


def _short_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_VALUE_LENGTH and "\n" not in text else type(value).__name__


def versions() -> list[tuple[str, str]]:
    """The versions of bitmix, Python and the libraries that a fit uses."""
    rows = [("bitmix", __version__), ("Python", platform.python_version())]
    for name in ("numpy", "scipy", "scikit-learn", "numba"):
        try:
            rows.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return rows


def snippet(model: FittedTemplates, facts: Facts, source: str | None) -> str:
    """Python code that fits the same model to the same rows."""
    defaults = type(model)().get_params()
    arguments = {
        "n_components": str(facts.k),
        **{
            name: _short_repr(value)
            for name, value in model.get_params().items()
            if name != "n_components" and _short_repr(value) != _short_repr(defaults[name])
        },
        "random_state": str(model.seed_),
    }
    rows = f"{facts.rows:,} rows × {facts.columns:,} columns"
    kind = type(model).__name__
    return "\n".join(
        [
            f"# X: the {rows}{f' of {source}' if source else ''}",
            f"from bitmix import {kind}, report",
            "",
            f"model = {kind}(",
            *(f"    {name}={value}," for name, value in arguments.items()),
            ").fit(X)",
            'report.write(model, X, "report.html")',
        ]
    )


# Pictures and charts


@dataclass(frozen=True)
class Pictures:
    """Pictures of groups and outliers; none if columns have names but no geometry."""

    groups: tuple[Picture, ...] = ()
    outliers: tuple[Picture, ...] = ()


def _pictures(facts: Facts, geometry: Any) -> Pictures:
    if geometry is None and facts.named:
        return Pictures()
    n = facts.columns
    n_groups = min(facts.k, MAX_GROUPS)
    n_drawn = min(n_groups, max(4, MAX_PICTURE_BITS // n))
    paint = painter(n, n_drawn + len(facts.outliers), geometry)
    mask = facts.certified_bits
    groups = tuple(
        paint(facts.shares[i], True, None if mask is None else mask[i]) for i in range(n_drawn)
    )
    if n_drawn < n_groups:
        return Pictures(groups)
    return Pictures(groups, tuple(paint(o.bits.astype(np.float64), False) for o in facts.outliers))


def keyed(drawing: Drawing, key: str) -> Drawing:
    """The drawing with an id, so that it can be shown again."""
    return Drawing(drawing.replace("<svg ", f'<svg id="{key}" ', 1))


def _thumbnails(molecules: Sequence[Molecules], pictures: Pictures) -> tuple[Thumbnail, ...]:
    """What shows the first groups again, where they are drawn as molecules or images."""
    n_drawn = len(list(itertools.takewhile(lambda each: each.drawing is not None, molecules)))
    drawn = tuple(Thumbnail(f"molecule-{i}", *SIZE) for i in range(n_drawn))
    return drawn or tuple(
        Thumbnail(f"picture-{i}", each.width, each.height) for i, each in enumerate(pictures.groups)
    )


def _levels(
    environment: Any, facts: Facts, model: FittedTemplates, names: Any,
    thumbnails: Sequence[Thumbnail],
) -> Drawing:  # fmt: skip
    """The section of the levels, empty if there are none."""
    sizes = [group.size for group in facts.groups]
    representatives = [group.representative for group in facts.groups]
    levels = levels_of(model, sizes, representatives, names, thumbnails)
    if levels is None:
        return Drawing("")
    part = environment.from_string(asset("levels.html.j2"))
    return Drawing(part.render(levels=levels, named=facts.named, max_groups=MAX_GROUPS))


def _charts(facts: Facts, selection: Selection | None, words: Words) -> dict[str, Drawing]:
    noise, margins = facts.noise, facts.margins
    charts = {
        "noise": _histogram(
            noise.counts, noise.top, svg.nice_step(noise.top, 5), "column",
            lambda share: f"{100 * share:.3g}%",
            Tick(noise.expected / noise.top, f"model {percent(noise.expected)}"),
            "Histogram of columns by the share of rows that differ from their template. "
            f"The model expects {percent(noise.expected)} on average.",
            across="share of rows that differ from their template",
        )
    }  # fmt: skip
    if margins is not None:
        charts["margins"] = _histogram(
            margins.counts, margins.top, max(1, round(svg.nice_step(margins.top, 5))), "row",
            _odds_from_power,
            Tick(CLEAR_MARGIN / math.log(10) / margins.top, "20 : 1"),
            f"Histogram of rows by the odds of the best {words.one} against the second best. "
            f"{percent(margins.clear)} of rows have odds of 20 to 1 or more.",
            across=f"odds of the best {words.one} against the second best",
        )  # fmt: skip
    if selection is not None:
        charts["selection"] = _selection_chart(selection, words)
    return charts


def _profile(paper: Paper, words: Words) -> dict[str, Drawing]:
    """The probabilities of binary items as a line per class, if lines can be told apart."""
    items, k = paper.items, len(paper.statistics.class_shares)
    if items is None or "answer" in items.names or k > svg.MAX_LINES:
        return {}
    if not 2 <= len(items.records) <= MAX_PROFILE_ITEMS:
        return {}
    names = [printable(record["item"]) for record in items.records]
    lines = [[record[f"class_{i}"] for record in items.records] for i in range(k)]
    tips = [
        [f"{name}, {words.one} {i}: {p:.3f}" for name, p in zip(names, line, strict=True)]
        for i, line in enumerate(lines)
    ]
    n, every = len(names), math.ceil(len(names) / MAX_PROFILE_TICKS)
    ticks = [Tick((j + 0.5) / n, names[j][:MAX_TICK_LENGTH]) for j in range(0, n, every)]
    return {
        "profile": svg.profile(
            lines, tips, ticks, [str(i) for i in range(k)],
            f"Probability of a 1 for each item, a line per {words.one}", across="item",
            up="probability",
        )
    }  # fmt: skip


def _histogram(
    counts: Sequence[int], top: float, stride: float, unit: str, label: Callable[[float], str],
    marker: Tick, description: str, *, across: str,
) -> Drawing:  # fmt: skip
    """A histogram of bins from 0 to `top`; `label` writes a value, `stride` is between ticks."""
    width = top / len(counts)
    tips = [
        f"{count(number)} {plural(number, unit)}: {label(width * i)} to {label(width * (i + 1))}"
        for i, number in enumerate(counts)
    ]
    last = len(counts) - 1
    tips[-1] = f"{count(counts[-1])} {plural(counts[-1], unit)}: {label(width * last)} or more"
    ticks = [Tick(i * stride / top, label(i * stride)) for i in range(math.floor(top / stride) + 1)]
    return svg.histogram(
        counts, tips, ticks, description, across=across, up=f"{unit}s", marker=marker
    )


def _selection_chart(selection: Selection, words: Words) -> Drawing:
    values = {
        candidate.n_components: float(getattr(candidate, selection.criterion))
        for candidate in selection.candidates
    }
    finite = {k: value for k, value in values.items() if math.isfinite(value)}
    return svg.curve(
        list(finite), list(finite.values()),
        [f"{k} {words.one if k == 1 else words.many}: {v:,.6g}" for k, v in finite.items()],
        selection.n_components,
        f"{selection.criterion} by number of {words.many}, chosen: {selection.n_components}",
        across=f"number of {words.many}", up=f"{selection.criterion}, lower is better",
    )  # fmt: skip
