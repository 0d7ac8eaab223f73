"""Groups of groups as a frozen value: which components are merged, and at what loss."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError
from bitmix.support import checks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tree:
    """A binary tree over k components, made by merging.

    Nodes 0 … k-1 are the components; merge t joins two nodes into node k + t. The last is the root.
    """

    merges: Ints
    """The two nodes that each merge joins, shape (k-1, 2)."""
    losses: Floats
    """The log-likelihood that each merge loses, in nats per row, if both parts become one component
    with a probability of its own in each column."""
    weights: Floats
    """The weights of the components."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Tree":
        """The tree with these `arrays`; values read from a file are checked."""
        merges, losses = arrays["tree_merges"], arrays["tree_losses"]
        weights = arrays["tree_weights"]
        k = len(weights)
        kinds = "".join(each.dtype.kind for each in (merges, losses, weights))
        if kinds != "iff" or (k - 1, 2) != merges.shape:
            raise InputError(f"a tree of {k} components has {k - 1} merges, got {merges.shape}")
        if losses.shape != (k - 1,) or not np.all(np.isfinite(losses)):
            raise InputError("a tree must have a finite loss for each merge")
        checks.weights(weights, k, least=0)
        made_before = merges < k + np.arange(k - 1)[:, None]
        if not np.array_equal(np.sort(merges, axis=None), np.arange(2 * k - 2)):
            raise InputError("a tree must merge each node once")
        if not np.all(made_before):
            raise InputError("a tree must merge nodes that were made before")
        return cls(merges, losses, weights)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The values that a file has to hold."""
        names = ("merges", "losses", "weights")
        return {f"tree_{name}": getattr(self, name) for name in names}

    def renumbered(self, order: Any) -> "Tree":
        """The tree of the same components in this order."""
        k, number = self.n_components, np.arange(2 * self.n_components - 1)
        number[np.asarray(order)] = np.arange(k)
        return Tree(number[self.merges], self.losses, self.weights[order])

    @property
    def n_components(self) -> int:
        return len(self.weights)

    @cached_property
    def heights(self) -> Floats:
        """The loss of each merge, or of a merge inside it if that lost more: (k-1,)."""
        k, heights = self.n_components, self.losses.tolist()
        for t, pair in enumerate(self.merges.tolist()):
            heights[t] = max(heights[t], *(heights[node - k] for node in pair if node >= k), 0.0)
        return np.array(heights)

    @cached_property
    def node_weights(self) -> Floats:
        """The weight of each node, shape (2k-1,)."""
        weights = self.weights.tolist()
        for i, j in self.merges.tolist():
            weights.append(weights[i] + weights[j])
        return np.array(weights)

    def cut(self, k: int | None = None, *, threshold: float | None = None) -> Ints:
        """The group of each component, 0, 1, …, heaviest group first.

        Parameters
        ----------
        k : int, optional
            The number of groups: the k-1 merges that lose most are undone.
        threshold : float, optional
            Merges that lose more than this, in nats per row, are undone.

        Examples
        --------
        >>> import numpy as np
        >>> from bitmix.models.tree import Tree
        >>> tree = Tree(np.array([[0, 2], [1, 3]]), np.array([0.1, 2.0]), np.array([0.4, 0.3, 0.3]))
        >>> tree.cut(2), tree.cut(threshold=0.05)
        (array([0, 1, 0]), array([0, 1, 2]))
        """
        nodes = self.groups(k, threshold=threshold)
        labels = np.empty(self.n_components, dtype=np.int64)
        for group, node in enumerate(nodes.tolist()):
            labels[self.members(node)] = group
        return labels

    def groups(self, k: int | None = None, *, threshold: float | None = None) -> Ints:
        """The nodes that are the groups of a cut, heaviest first."""
        if (k is None) == (threshold is None):
            raise InputError("a cut takes k or a threshold, and not both")
        n = self.n_components
        if k is None:
            least = checks.not_negative(threshold, "threshold")
            k = 1 + int((self.heights > least).sum())
        elif checks.whole(k, "k", least=1) > n:
            raise InputError(f"k must be at most {n}, the number of components, got {k}")
        order = np.lexsort((np.arange(n - 1), self.heights))  # a merge comes after those inside it
        undone = order[n - k :]
        parts = {2 * n - 2, *self.merges[undone].ravel().tolist()} - set((n + undone).tolist())
        nodes = np.array(sorted(parts), dtype=np.int64)
        return nodes[np.argsort(-self.node_weights[nodes], kind="stable")]

    def members(self, node: int) -> Ints:
        """The components below a node, in rising order."""
        below, components = [node], []
        while below:
            each = below.pop()
            if each < self.n_components:
                components.append(each)
            else:
                below += self.merges[each - self.n_components].tolist()
        return np.sort(np.array(components, dtype=np.int64))

    def linkage(self) -> Floats:
        """The tree as `scipy.cluster.hierarchy` has it: two nodes, height and number of components
        per merge, in the order of the heights.
        """
        k = self.n_components
        order = np.lexsort((np.arange(k - 1), self.heights))
        number = np.arange(2 * k - 1)
        number[k + order] = k + np.arange(k - 1)
        counts = np.ones(2 * k - 1)
        for t, (i, j) in enumerate(self.merges.tolist()):
            counts[k + t] = counts[i] + counts[j]
        pairs = np.sort(number[self.merges[order]], axis=1)
        return np.column_stack([pairs, self.heights[order], counts[k + order]])
