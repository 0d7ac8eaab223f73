"""
How many templates?
===================

The number of groups in a table depends on what counts as a group. This example shows two criteria
of :func:`bitmix.select_components` on rows whose number of templates is known.
"""

import matplotlib.pyplot as plt
import numpy as np

from bitmix import select_components
from bitmix.datasets import make_templates, sample_mixture

# %%
# We sample 300 rows from six templates of 300 bits and flip a tenth of the bits. The lightest
# template has a weight of 2 %.

truth = make_templates(6, 300, separation=0.2, random_state=0)
weights = [0.34, 0.25, 0.18, 0.13, 0.08, 0.02]
X, labels = sample_mixture(truth, weights, noise=0.1, m=300, random_state=0)
print("rows per template:", np.bincount(labels))

selection = select_components(X, range(1, 10), random_state=0)
print("chosen number of templates:", selection.n_components)

# %%
# The default criterion, ``"mdl"``, is the number of nats needed to write down the templates, and
# then the rows given the templates. A template bit has two values and costs at most one bit. BIC
# counts it as a real number at a cost of ½·ln *m*, which is four times as much here, so light
# templates are not worth their cost. The curves show how much each *k* costs more than the best
# one.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
k = [candidate.n_components for candidate in selection.candidates]
for ax, name in zip(axes, ("mdl", "bic"), strict=True):
    cost = np.array([getattr(candidate, name) for candidate in selection.candidates])
    cost /= 2 if name == "bic" else 1  # BIC counts twice the nats
    best = int(cost.argmin())
    ax.semilogy(k, cost - cost.min() + 10, "o-")
    ax.plot(k[best], 10, "o", ms=14, mfc="none", mec="C1", mew=2)
    ax.set(xlabel="templates k", title=f"{name} chooses {k[best]}", xticks=k)
axes[0].set_ylabel("nats above the best, plus 10")

# %%
# ``"stability"`` asks a different question: are the same groups found if two halves of the rows are
# fitted separately? It chooses the largest *k* for which they are.

halves = select_components(X, range(2, 8), criterion="stability", random_state=0)
figure, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
halves.plot(ax)

# %%
# What if there are no groups at all? For fair coin tosses, one template is the right answer.

coins = np.random.default_rng(0).integers(0, 2, (300, 300))
selection = select_components(coins, range(1, 6), random_state=0)
print("chosen number of templates for coin tosses:", selection.n_components)

# %%
# In real data, *k* often depends on the level of detail you want, and ``"mdl"`` adds groups as long
# as they shorten the description. Look at the whole curve, not only at its minimum (see
# :doc:`/choosing`).
