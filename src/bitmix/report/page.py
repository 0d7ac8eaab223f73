"""From facts to one page: drawings, words for numbers, and the template that holds them."""

import base64
import hashlib
import math
import platform
from dataclasses import dataclass
from importlib import metadata, resources
from typing import Any

import numpy as np

from bitmix import __version__
from bitmix.extras import need
from bitmix.fitted import FittedTemplates
from bitmix.report import svg
from bitmix.report.facts import CLEAR, FLAG, MOST_GROUPS, Facts, text
from bitmix.report.pictures import Picture, painter
from bitmix.report.svg import Drawing, Tick
from bitmix.select import Candidate, Selection

MOST_IN_MATRIX = 30
MOST_IN_STRIP = 12
MOST_PICTURE_BITS = 16_000_000
"""Of all pictures together; with more columns than that allows, fewer groups are drawn."""
MOST_TENS = 30
"""Odds beyond this power of ten are not told apart in words."""
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
CRITERIA = {
    "mdl": "nats to write the rows down",
    "icl": "nats, overlap counted",
    "bic": "BIC",
    "aic": "AIC",
    "stability": "disagreement of two halves",
}
SHORTFALLS = {
    "noise": "the noise could not be bounded",
    "partition": "the groups are too close to prove them apart",
    "templates": "not every bit is settled by its votes",
    "distinct rows": "too many rows are copies of each other",
}


def render(
    facts: Facts, model: FittedTemplates, *, selection: Selection | None, geometry: Any,
    title: str | None, source: str | None,
) -> str:  # fmt: skip
    """The whole page as text."""
    style, script = _asset("style.css"), _asset("page.js")
    origin = None if source is None else text(source)
    return str(
        _template().render(
            facts=facts,
            model=model,
            kind=type(model).__name__,
            title=text(title) if title is not None else _title(facts, origin),
            source=origin,
            style=Drawing(style),
            script=Drawing(script),
            policy=_policy(style, script),
            certain=_certain(facts),
            starts=starts(model),
            pictures=_pictures(facts, geometry),
            charts=_charts(facts, selection),
            selection=selection,
            criterion=CRITERIA[selection.criterion] if selection else "",
            noise_words=_noise_words(model),
            settings=settings(model),
            versions=versions(),
            snippet=snippet(model, facts, origin),
            clear_odds=odds(CLEAR),
            flag=FLAG,
            most_groups=MOST_GROUPS,
            most_in_strip=MOST_IN_STRIP,
            most_in_matrix=MOST_IN_MATRIX,
        )
    )


def _template() -> Any:
    need("jinja2")
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        percent=percent, count=count, odds=odds, chance=chance, bar=svg.bar, plural=plural
    )
    return environment.from_string(_asset("page.html.j2"))


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing from outside, and of what is inside only these two texts: known by their hashes."""
    a, b = (
        base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        for part in (style, script)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{a}'; script-src 'sha256-{b}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _title(facts: Facts, source: str | None) -> str:
    where = source or f"{count(facts.rows)} {plural(facts.rows, 'row')}"
    return f"{facts.k} {plural(facts.k, 'group')} in {where}"


# Numbers as words


def percent(share: float) -> str:
    """A share in per cent; never 0% or 100% unless it is exactly that."""
    if share in (0, 1):
        return f"{share:.0%}"
    if share < 0.001:
        return "under 0.1%"
    if share > 0.999:
        return "over 99.9%"
    return f"{share:.1%}" if share < 0.0995 or share > 0.9905 else f"{share:.0%}"


def count(value: float) -> str:
    """With thousands parted; below ten a decimal where there is one."""
    if value != int(value) and value < 10:
        return f"{value:.1f}"
    return f"{round(value):,}"


def odds(margin: float) -> str:
    """A margin in nats as odds."""
    if math.isinf(margin):
        return "no rival"
    if margin < math.log(10):
        return f"{math.exp(margin):.2g} to 1"
    if margin < math.log(1e6):
        return f"{float(f'{math.exp(margin):.2g}'):,.0f} to 1"
    tens = round(margin / math.log(10))
    return f"{_power(tens)} to 1" if tens <= MOST_TENS else f"over {_power(MOST_TENS)} to 1"


def chance(p: float) -> str:
    """A small probability."""
    if p >= 1:
        return "1"
    if p < 1e-300:
        return "under 10⁻³⁰⁰"
    if p >= 1e-3:
        return f"{p:.2g}"
    digit, exponent = f"{p:.0e}".split("e-")
    return f"{digit} × 10⁻{_raised(int(exponent))}"


def plural(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"


def _power(exponent: int) -> str:
    return f"10{_raised(exponent)}"


def _raised(exponent: int) -> str:
    return str(exponent).translate(_SUPERSCRIPTS)


# Words about the fit


@dataclass(frozen=True)
class Line:
    """A sentence with a sign before it: yes, no or so-so."""

    sign: str
    words: str


def _certain(facts: Facts) -> Line:
    certificate = facts.certificate
    if certificate is None:
        return Line("so", f"No certificate. {facts.no_certificate}")
    if certificate.issued:
        return Line(
            "yes",
            "Certified: the chance that this certificate is issued and a template is wrong "
            f"is at most {100 * certificate.alpha:g}%.",
        )
    failed = [SHORTFALLS.get(part.name, part.name) for part in certificate.parts if not part.holds]
    return Line(
        "no",
        f"Not certified: {', and '.join(failed)}. That does not mean that the templates are wrong.",
    )


def starts(model: FittedTemplates) -> Line:
    """How many starts agreed, as far as the estimator keeps it."""
    if hasattr(model, "n_agreeing_"):
        agreed, made = int(model.n_agreeing_), int(model.n_starts_)
        if made == 1:
            return Line("so", "There was one start only, so nothing to agree with.")
        if agreed == 1:
            words = f"No other of {made} starts ended with exactly these templates."
            return Line("so", f"{words} Another seed may find slightly different ones.")
        words = f"{agreed} of {made} starts ended with these very templates."
        return Line("yes" if 2 * agreed >= made else "so", words)
    made = int(model.get_params().get("n_init", 1))
    if made > 1:
        words = f"These are the likeliest of {made} starts. How many agreed is not recorded."
        return Line("so", words)
    return Line("so", "There was one start only, so nothing to agree with.")


def _noise_words(model: FittedTemplates) -> str:
    """What the model says of noise."""
    kinds = {
        "shared": "The model has one noise level for every cell.",
        "component": "The model has a noise level for each group.",
        "feature": "The model has a noise level for each column, fitted to it. "
        "So columns can hardly stand out here; groups can.",
        "cell": "The model has a noise level for each cell of each template, fitted to it. "
        "So observed and expected agree nearly by construction.",
    }
    if hasattr(model, "noise_model"):
        return kinds[model.noise_model]
    return (
        f"The noise level the steps used, {float(model.noise_):.3g}, is read off the closest pair "
        "of seeds and lies low by design, unless it was given. "
        "So the columns are set against the share of flips over all rows."
    )


def settings(model: FittedTemplates) -> list[tuple[str, str]]:
    """Every parameter, then what the fit kept of itself."""
    params = [(name, _shown(value)) for name, value in sorted(model.get_params().items())]
    kept = ("seed_", "n_seeds_", "round_one_rows_", "n_iter_", "converged_", "n_starts_")
    return params + [(name, _shown(getattr(model, name))) for name in kept if hasattr(model, name)]


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 and "\n" not in shown else f"{type(value).__name__} …"


def versions() -> list[tuple[str, str]]:
    found = [("bitmix", __version__), ("Python", platform.python_version())]
    for name in ("numpy", "scipy", "scikit-learn", "numba"):
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return found


def snippet(model: FittedTemplates, facts: Facts, source: str | None) -> str:
    """Python that fits the same model to the same rows."""
    usual = type(model)().get_params()
    given = {
        name: value
        for name, value in model.get_params().items()
        if name not in ("n_components", "random_state") and _shown(value) != _shown(usual[name])
    }
    arguments = [f"n_components={facts.k}", *(f"{k}={_shown(v)}" for k, v in given.items())]
    arguments.append(f"random_state={model.seed_}")
    rows = f"{facts.rows:,} rows × {facts.columns:,} columns"
    kind = type(model).__name__
    return "\n".join(
        [
            f"# X: the {rows}{f' of {source}' if source else ''}",
            f"from bitmix import {kind}, report",
            "",
            f"model = {kind}(",
            *(f"    {argument}," for argument in arguments),
            ").fit(X)",
            'report.write(model, X, "report.html")',
        ]
    )


# Drawings


@dataclass(frozen=True)
class Pictures:
    """Groups and outliers as pictures; none where columns have names and no place."""

    groups: tuple[Picture, ...] = ()
    outliers: tuple[Picture, ...] = ()


def _pictures(facts: Facts, geometry: Any) -> Pictures:
    if geometry is None and facts.named:
        return Pictures()
    n, odd = facts.columns, len(facts.outliers)
    drawn = min(facts.k, MOST_GROUPS, max(4, MOST_PICTURE_BITS // n))
    paint = painter(n, drawn + odd, geometry)
    groups = tuple(paint(facts.shares[i], True) for i in range(drawn))
    if drawn < min(facts.k, MOST_GROUPS):
        return Pictures(groups)
    return Pictures(groups, tuple(paint(o.bits.astype(np.float64), False) for o in facts.outliers))


def _charts(facts: Facts, selection: Selection | None) -> dict[str, Drawing]:
    charts = {"noise": _noise_chart(facts)}
    if facts.margins is not None:
        charts["margins"] = _margins_chart(facts)
        charts["distances"] = _distances_chart(facts)
    if selection is not None:
        charts["selection"] = _selection_chart(selection)
    return charts


def _margins_chart(facts: Facts) -> Drawing:
    found = facts.margins
    assert found is not None
    step = found.top / len(found.counts)
    edges = [_odds_at(step * i) for i in range(len(found.counts) + 1)]
    tips = [
        f"{count(rows)} {plural(rows, 'row')} with odds of {edges[i]} "
        + ("or more" if i == len(found.counts) - 1 else f"up to {edges[i + 1]}")
        for i, rows in enumerate(found.counts)
    ]
    stride = max(1, round(svg.nice_step(found.top, 5)))
    ticks = [Tick(d / found.top, _odds_at(d)) for d in range(0, int(found.top) + 1, stride)]
    return svg.histogram(
        found.counts, tips, ticks,
        f"Histogram of the odds of the best group against the second best. "
        f"{percent(found.clear)} of rows have odds of 20 to 1 or more.",
        across="odds, best group against second best", up="rows",
        markers=[Tick(math.log10(20) / found.top, "20 : 1")],
    )  # fmt: skip


def _odds_at(tens: float) -> str:
    """Odds of 10^tens to 1, for an axis."""
    if tens < 4:
        return f"{float(f'{10**tens:.2g}'):,.6g} : 1"
    return f"{_power(round(tens))} : 1"


def _noise_chart(facts: Facts) -> Drawing:
    noise = facts.noise
    step = noise.top / len(noise.counts)
    tips = [
        f"{count(columns)} {plural(columns, 'column')} flip in {100 * step * i:.3g}% "
        + ("of rows or more" if i == len(noise.counts) - 1 else f"to {100 * step * (i + 1):.3g}%")
        for i, columns in enumerate(noise.counts)
    ]
    stride = svg.nice_step(noise.top, 5)
    ticks = [
        Tick(i * stride / noise.top, f"{100 * i * stride:.3g}%")
        for i in range(math.floor(noise.top / stride) + 1)
    ]
    return svg.histogram(
        noise.counts, tips, ticks,
        f"Histogram of columns by the share of rows that differ from their template there. "
        f"The model expects {percent(noise.expected)} on average.",
        across="share of rows that differ from their template", up="columns",
        markers=[Tick(noise.expected / noise.top, f"model {percent(noise.expected)}")],
    )  # fmt: skip


def _distances_chart(facts: Facts) -> Drawing:
    k = min(facts.k, MOST_IN_MATRIX)
    values = facts.distances[:k, :k].tolist()
    tips = [
        [f"groups {i} and {j} differ in {count(values[i][j])} columns" for j in range(k)]
        for i in range(k)
    ]
    words = "For each two groups, in how many columns their templates differ"
    return svg.matrix(values, tips, words)


def _selection_chart(selection: Selection) -> Drawing:
    found = [each for each in selection.candidates if math.isfinite(_value(selection, each))]
    values = [_value(selection, each) for each in found]
    return svg.curve(
        [each.n_components for each in found], values,
        [f"{each.n_components} {plural(each.n_components, 'group')}: {value:,.6g}"
         for each, value in zip(found, values, strict=True)],
        selection.n_components,
        f"{selection.criterion} by number of groups, least at {selection.n_components}",
        across="number of groups", up=f"{selection.criterion}, lower is better",
    )  # fmt: skip


def _value(selection: Selection, candidate: Candidate) -> float:
    return float(getattr(candidate, selection.criterion))
