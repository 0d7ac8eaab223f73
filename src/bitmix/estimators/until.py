"""Split groups until a rule holds: the rows of each group are alike, or groups are small."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bitmix.em import predict
from bitmix.em.dendrogram import tree_of
from bitmix.em.search import begin
from bitmix.em.step import Statistics
from bitmix.errors import InputError
from bitmix.estimators.template import TemplateMixture, count_distinct
from bitmix.estimators.tree import TemplateTree
from bitmix.kernels import backend, fixed
from bitmix.kernels.fixed import Ints
from bitmix.models.mixture import Mixture
from bitmix.models.tree import Tree
from bitmix.rows import Rows, as_rows
from bitmix.rows.convert import spans
from bitmix.support import checks
from bitmix.support.randomness import stream

_FIRST, _PARTS = 64, 4  # components of the first tree; parts into which a component is split
_ROWS_AT_ONCE = 1 << 16


def _tanimoto(n_rows: Ints, ones: Ints) -> NDArray[np.float64]:
    """Mean Tanimoto similarity within each group, from the number of ones per column (iSIM): the
    columns that both rows of a pair have over those that either has, summed over all pairs.
    """
    both = (ones * (ones - 1) // 2).sum(axis=1)
    either = both + (ones * (n_rows[:, None] - ones)).sum(axis=1)
    return np.where(either > 0, both / np.maximum(either, 1), 1.0)


MEASURES: dict[str, Callable[[Ints, Ints, float], NDArray[np.bool_]]] = {
    "tanimoto": lambda n_rows, ones, limit: (n_rows < 2) | (_tanimoto(n_rows, ones) >= limit),
    "size": lambda n_rows, ones, limit: n_rows <= limit,
}
"""Whether groups meet the limit, given their numbers of rows and of ones per column."""


@dataclass(frozen=True)
class Rule:
    """A rule that every group must fulfil."""

    measure: str
    limit: float

    @classmethod
    def parse(cls, text: Any) -> "Rule":
        """Parse a text such as ``tanimoto=.35`` or ``size=50``."""
        measure, sign, value = str(text).partition("=")
        if measure not in MEASURES or not sign:
            raise InputError(
                f"until must be one of {', '.join(f'{name}=…' for name in MEASURES)}, got {text!r}"
            )
        try:
            number = float(value)
        except ValueError:
            raise InputError(f"until must have a number after =, got {text!r}") from None
        if measure == "tanimoto":
            return cls(measure, checks.between(number, "tanimoto", 0, 1))
        return cls(measure, float(checks.whole(_whole(number), "size", least=1)))

    def fulfilled(self, n_rows: Ints, ones: Ints) -> NDArray[np.bool_]:
        """Whether each group fulfils the rule."""
        return MEASURES[self.measure](n_rows, ones, self.limit)


@dataclass(frozen=True, eq=False)
class Until:
    """The groups that `fit_until` found."""

    model: TemplateMixture
    """The groups as a mixture."""
    labels: Ints
    """The group of each row of the fit. The rule holds for these groups; ``model.predict`` may
    assign a row between two groups differently."""
    rule: Rule
    n_broken: int
    """Groups that do not fulfil the rule, because their rows cannot be told apart."""


def fit_until(X: Any, rule: str, estimator: TemplateTree | None = None) -> Until:
    """Split groups of rows until each fulfils a rule.

    A tree of 64 components is fitted, and components that break the rule are split repeatedly.
    Then components are merged as long as the rule holds, those first that lose the least
    likelihood.

    Parameters
    ----------
    X : as in `TemplateTree.fit`
    rule : str
        ``"tanimoto=.35"``: the mean Tanimoto similarity of the rows of a group is at least this.
        ``"size=50"``: a group has at most this many rows.
    estimator : TemplateTree, optional
        Its parameters are used, except `n_components`.

    Examples
    --------
    >>> from bitmix.datasets import make_templates, sample_mixture
    >>> from bitmix.estimators.until import fit_until
    >>> truth = make_templates(4, 200, separation=0.4, random_state=0)
    >>> X, labels = sample_mixture(truth, [0.4, 0.3, 0.2, 0.1], noise=0.05, m=400, random_state=0)
    >>> fit_until(X, "tanimoto=.7").model.n_components
    4
    """
    wanted = Rule.parse(rule)
    estimator = TemplateTree(random_state=0) if estimator is None else estimator
    rows = as_rows(X, estimator.binarize)
    k = min(_FIRST, count_distinct(rows, _FIRST) or _FIRST)
    tree = clone(estimator).set_params(n_components=k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more components than needed are tried on purpose
        tree.fit(rows)
    leaves, n_broken = _split(rows, tree, wanted)
    sizes, ones = _counts(rows, leaves, int(leaves.max()) + 1)
    unit = 1 << fixed.SHARE_BITS
    counted = Statistics(len(leaves), sizes * unit, ones * unit, 0, items=tree.mixture_.items)
    groups = _highest(tree_of(counted), sizes, ones, wanted)
    heaviest = np.argsort(-np.bincount(groups, sizes), kind="stable")
    groups = np.argsort(heaviest)[groups]
    means = counted.means(np.full(ones.shape, 0.5))
    start = Mixture(means, counted.weights, None, tree.mixture_.items)
    tree._set_mixture(tree.settings_like_fit().noise.maximise(counted, start), means)
    model = tree.merged(groups)
    return Until(model, groups[leaves], wanted, n_broken)


def _split(rows: Rows, tree: TemplateTree, rule: Rule) -> tuple[Ints, int]:
    """Split components that break the rule; return labels and how many still break it."""
    settings, rng = tree.settings_like_fit(), stream(tree.seed_, "seeds", 1)
    labels = tree.predict(rows)
    waiting = [np.flatnonzero(labels == i) for i in range(len(tree.weights_))]
    n_leaves = n_broken = 0
    while waiting:
        which = waiting.pop()
        if not which.size:
            continue
        some = rows.subset(which)
        sizes, ones = _counts(some, np.zeros(len(which), dtype=np.int64), 1)
        if not rule.fulfilled(sizes, ones)[0]:
            parts = predict.labels(some, begin(some, min(_PARTS, len(which)), settings, rng))
            if parts.min() == parts.max():
                n_broken += 1
            else:
                waiting += [which[parts == part] for part in range(parts.max() + 1)]
                continue
        labels[which] = n_leaves
        n_leaves += 1
    return labels, n_broken


def _highest(tree: Tree, sizes: Ints, ones: Ints, rule: Rule) -> Ints:
    """The group of each component: the highest nodes that fulfil the rule, or components."""
    k = tree.n_components
    all_sizes, all_ones = list(sizes), list(ones)
    for i, j in tree.merges.tolist():
        all_sizes.append(all_sizes[i] + all_sizes[j])
        all_ones.append(all_ones[i] + all_ones[j])
    good = rule.fulfilled(np.array(all_sizes), np.array(all_ones))
    groups, nodes, n_groups = np.empty(k, dtype=np.int64), [2 * k - 2], 0
    while nodes:
        node = nodes.pop()
        if node >= k and not good[node]:
            nodes += tree.merges[node - k].tolist()
            continue
        groups[tree.members(node)] = n_groups
        n_groups += 1
    return groups


def _counts(rows: Rows, labels: Ints, k: int) -> tuple[Ints, Ints]:
    """Rows per group, and ones per group and column; weights of rows are not used."""
    n = rows.shape[1]
    ones = np.zeros((k, n), dtype=np.int64)
    for start, stop in spans(rows.shape[0], _ROWS_AT_ONCE):
        words = rows.take(np.arange(start, stop))
        ones += backend(6e-8 * words.size).owned_sums(words, labels[start:stop], k, n)
    return np.bincount(labels, minlength=k), ones >> fixed.SHARE_BITS


def _whole(number: float) -> Any:
    return int(number) if number.is_integer() else number
