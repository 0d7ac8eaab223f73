"""
One certificate issued, one refused
===================================

A fit always returns templates. Are they the true ones, to the last bit? A certificate is issued
and wrong in at most one data set of twenty, whatever the truth. Here is one, and what to do where
there is none.
"""

import matplotlib.pyplot as plt
import numpy as np

from bitmix import TemplateMixture
from bitmix.datasets import make_templates, sample_mixture
from bitmix.metrics import templates_recovered

# %%
# Three templates of 300 columns, any two of them 120 bits apart, and 400 rows with a tenth of
# their bits flipped.

truth = make_templates(3, 300, separation=0.4, random_state=1)
weights = [0.5, 0.3, 0.2]
X, _ = sample_mixture(truth, weights, noise=0.1, m=400, random_state=1)
model = TemplateMixture(3, random_state=0).fit(X)
print(model.certify(X))

# %%
# Now closer together and noisier. The fit looks as good as before. It is even right, but only we
# know that, who made the data.

hard_truth = make_templates(3, 300, separation=0.3, random_state=1)
hard, _ = sample_mixture(hard_truth, weights, noise=0.15, m=400, random_state=1)
hard_model = TemplateMixture(3, random_state=0).fit(hard)
print("right:", templates_recovered(hard_model.templates_, hard_truth))
print(hard_model.certify(hard))

# %%
# The part that fails is the partition. Two rows of one template are hardly ever farther apart than
# the dashed line: that is how far noise carries them. If rows of different groups are always
# farther, no true group was split. On the left there is room between; on the right there is none.


def distances(X, labels):
    """Hamming distances of pairs of one group, and of pairs of two."""
    bits = X.to_dense().astype(int)
    far = bits @ (1 - bits.T) + (1 - bits) @ bits.T
    pairs = np.triu_indices(len(bits), 1)
    same = labels[pairs[0]] == labels[pairs[1]]
    return far[pairs][same], far[pairs][~same]


figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
for ax, fit, rows in zip(axes, (model, hard_model), (X, hard), strict=True):
    certificate = fit.certify(rows)
    within, between = distances(rows, fit.predict(rows))
    ax.hist(within, bins=range(20, 190, 3), alpha=0.7, density=True, label="rows of one group")
    ax.hist(between, bins=range(20, 190, 3), alpha=0.7, density=True, label="rows of two groups")
    needed = next(part.needs for part in certificate.parts if part.name == "partition")
    ax.axvline(needed, color="black", ls="--", lw=1.2)
    ax.set(title="issued" if certificate.issued else "not issued", yticks=[])
    ax.set(xlabel="bits in which two rows differ")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)

# %%
# What to do? The certificate says it: less noise, or more columns of the same kind, over which
# noise averages out. With three times as many columns there are also three times as many bits to
# get wrong, so half as many rows again.

wide_truth = make_templates(3, 900, separation=0.3, random_state=1)
wide, _ = sample_mixture(wide_truth, weights, noise=0.15, m=600, random_state=1)
print(TemplateMixture(3, random_state=0).fit(wide).certify(wide))

# %%
# More rows alone do not help against overlap: among more pairs the closest two are closer. If you
# cannot have more columns, use the model, look at its margins, and do not call its templates exact.
# ``bitmix plan`` says how much it takes before there are any data. :doc:`/certificates` has the
# proof.
