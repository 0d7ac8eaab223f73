"""
One certificate issued, one refused
===================================

A fit always returns templates. Are they the true ones, to the last bit? The probability that a
certificate is issued and a template is wrong is at most 5 %, whatever the true parameters are. This
example shows a certificate that is issued, and what to do when it is not.
"""

import matplotlib.pyplot as plt
import numpy as np

from bitmix import TemplateMixture
from bitmix.datasets import make_templates, sample_mixture
from bitmix.metrics import templates_recovered

# %%
# We sample 400 rows from three templates of 300 columns, any two of which differ in 120 bits or
# more, and flip a tenth of the bits.

truth = make_templates(3, 300, separation=0.4, random_state=1)
weights = [0.5, 0.3, 0.2]
X, _ = sample_mixture(truth, weights, noise=0.1, m=400, random_state=1)
model = TemplateMixture(3, random_state=0).fit(X)
print(model.certify(X))

# %%
# Now the templates are closer and the noise is higher. The fit looks as good as before, and it is
# even right, but only we know that because we made the data.

hard_truth = make_templates(3, 300, separation=0.3, random_state=1)
hard, _ = sample_mixture(hard_truth, weights, noise=0.15, m=400, random_state=1)
hard_model = TemplateMixture(3, random_state=0).fit(hard)
print("right:", templates_recovered(hard_model.templates_, hard_truth))
print(hard_model.certify(hard))

# %%
# The part that fails is the partition. Noise hardly ever moves two rows of one template farther
# apart than the dashed line. If rows of different groups are always farther apart than that, no
# true group was split. In the left figure there is a gap between the two histograms; in the right
# one they overlap.


def distances(X, labels):
    """Hamming distances of pairs of rows within groups, and between groups."""
    bits = X.to_dense().astype(int)
    distance = bits @ (1 - bits.T) + (1 - bits) @ bits.T
    pairs = np.triu_indices(len(bits), 1)
    same = labels[pairs[0]] == labels[pairs[1]]
    return distance[pairs][same], distance[pairs][~same]


figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
for ax, fit, rows in zip(axes, (model, hard_model), (X, hard), strict=True):
    certificate = fit.certify(rows)
    within, between = distances(rows, fit.predict(rows))
    ax.hist(within, bins=range(20, 190, 3), alpha=0.7, density=True, label="rows of the same group")
    ax.hist(
        between, bins=range(20, 190, 3), alpha=0.7, density=True, label="rows of different groups"
    )
    threshold = next(part.needs for part in certificate.parts if part.name == "partition")
    ax.axvline(threshold, color="black", ls="--", lw=1.2)
    ax.set(title="issued" if certificate.issued else "not issued", yticks=[])
    ax.set(xlabel="bits in which two rows differ")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)

# %%
# The certificate says what would help: less noise, or more columns of the same kind, over which the
# noise averages out. With three times as many columns there are also three times as many bits that
# can be wrong, so we take half as many rows again.

wide_truth = make_templates(3, 900, separation=0.3, random_state=1)
wide, _ = sample_mixture(wide_truth, weights, noise=0.15, m=600, random_state=1)
print(TemplateMixture(3, random_state=0).fit(wide).certify(wide))

# %%
# More rows alone do not help against overlap: among more pairs, the closest two are closer. If you
# cannot get more columns, use the model and its margins, but do not call its templates exact.
# ``bitmix plan`` computes how much data is needed before there are any. The proof is in
# :doc:`/certificates`.
