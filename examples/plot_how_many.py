"""
How many templates?
===================

No method can read the number of groups off the data without saying what a group is. Here are two
answers of :func:`bitmix.select_components`, on rows whose number of templates is known.
"""

import matplotlib.pyplot as plt
import numpy as np

from bitmix import select_components
from bitmix.datasets import make_templates, sample_mixture

# %%
# Six templates of 300 bits, 300 rows, a tenth of the bits flipped. The lightest template has two
# rows of a hundred.

truth = make_templates(6, 300, separation=0.2, random_state=0)
weights = [0.34, 0.25, 0.18, 0.13, 0.08, 0.02]
X, labels = sample_mixture(truth, weights, noise=0.1, m=300, random_state=0)
print("rows of each template:", np.bincount(labels))

found = select_components(X, range(1, 10), random_state=0)
print("templates found:", found.n_components)

# %%
# The default criterion, ``"mdl"``, is the number of nats it takes to write the rows down: templates
# first, then the rows given the templates. A template bit has two values and costs one bit at most.
# BIC counts it as a real number, at ½·ln *m*: four times as dear here, so that light templates do
# not pay. Both are in one table; the curves show how much each *k* costs beyond the best.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
k = [candidate.n_components for candidate in found.candidates]
for ax, name in zip(axes, ("mdl", "bic"), strict=True):
    cost = np.array([getattr(candidate, name) for candidate in found.candidates])
    cost /= 2 if name == "bic" else 1  # BIC counts twice the nats
    best = int(cost.argmin())
    ax.semilogy(k, cost - cost.min() + 10, "o-")
    ax.plot(k[best], 10, "o", ms=14, mfc="none", mec="C1", mew=2)
    ax.set(xlabel="templates k", title=f"{name} says {k[best]}", xticks=k)
axes[0].set_ylabel("nats above the best, plus 10")

# %%
# ``"stability"`` asks another question: do the same groups come back when two halves of the rows
# are fitted apart? It takes the largest *k* for which they do.

halves = select_components(X, range(2, 8), criterion="stability", random_state=0)
figure, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
halves.plot(ax)

# %%
# And where there is nothing to find? Fair coins have no groups. One template is the right answer.

coins = np.random.default_rng(0).integers(0, 2, (300, 300))
tossed = select_components(coins, range(1, 6), random_state=0)
print("templates in coin tosses:", tossed.n_components)

# %%
# On real data *k* is often a matter of how fine you want to look, and ``"mdl"`` goes on finding
# groups as long as they pay. Look at the curve and not only at its minimum: see
# :doc:`/choosing`.
