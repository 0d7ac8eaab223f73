"""
Handwritten digits
==================

scikit-learn comes with 1,797 handwritten digits of 8 × 8 pixels. Each pixel becomes one bit, ink or
no ink, so a digit is a row of 64 columns. Which prototypes does bitmix find without knowing which
digit is which?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from bitmix import TemplateMixture
from bitmix.metrics import conditional_entropy, conditional_purity

digits = load_digits()
X = digits.data > 8  # the pixels run from 0 to 16

# %%
# Not every pixel flips with the same probability: the middle of a 1 is nearly always black, but its
# foot differs from writer to writer. The noise model ``"cell"`` gives each template and pixel its
# own probability. By default the noise model is chosen by the likelihood of held-out digits.

model = TemplateMixture(10, random_state=0).fit(X)
labels = model.predict(X)
for name, score in model.noise_model_scores_.items():
    print(f"{name:10} {score['log_likelihood']:7.2f} nats per held-out digit")
print("chosen:", model.noise_model_)

# %%
# These are the ten groups. The titles use the true digits, which the fit did not see.

figure, axes = plt.subplots(2, 5, figsize=(8, 3.9), layout="constrained")
for i, ax in enumerate(axes.flat):
    members = digits.target[labels == i]
    most = np.bincount(members).argmax()
    ax.imshow(model.means_[i].reshape(8, 8), cmap="bone_r", vmin=0, vmax=1)
    ax.set_title(f"{np.mean(members == most):.0%} are {most}s", fontsize=10)
    ax.axis("off")
figure.suptitle("Share of ink per pixel, heaviest group first")

# %%
# Several groups consist of one digit almost without exception. The largest group is mixed, and 1s
# are spread over several groups because people write them in several ways.
#
# For which digits is the model least certain? ``margins`` is the log of the odds of the best group
# against the second best.

margin = model.margins(X)
print(f"{np.mean(margin > 3):.0%} of the digits have odds of 20 to 1 or better")

figure, axes = plt.subplots(2, 10, figsize=(8, 2), layout="constrained")
for row, order in zip(axes, (np.argsort(-margin), np.argsort(margin)), strict=True):
    for ax, j in zip(row, order[:10], strict=True):
        ax.imshow(X[j].reshape(8, 8), cmap="bone_r")
        ax.axis("off")
axes[0, 0].set_title("most certain", loc="left", fontsize=9)
axes[1, 0].set_title("least certain", loc="left", fontsize=9)

# %%
# Compare the groups with those of k-means for three seeds. Purity is the share of rows whose digit
# is the most frequent one of their group (higher is better); entropy is the uncertainty about the
# digit that remains within a group (lower is better). In the second figure, pixels of exactly 8
# also count as ink.

estimators = {
    "TemplateMixture": lambda seed: TemplateMixture(10, random_state=seed),
    "KMeans": lambda seed: KMeans(10, n_init=10, random_state=seed),
}
figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", sharex=True, sharey=True)
for ax, ink in zip(axes, ("> 8", "≥ 8"), strict=True):
    bits = digits.data > 8 if ink == "> 8" else digits.data >= 8
    for name, make in estimators.items():
        found = [make(seed).fit_predict(bits) for seed in range(3)]
        purity = [conditional_purity(digits.target, each) for each in found]
        entropy = [conditional_entropy(digits.target, each) for each in found]
        print(f"ink {ink}: {name:16} purity {np.mean(purity):.3f} entropy {np.mean(entropy):.3f}")
        ax.plot(purity, entropy, "o", ms=9, alpha=0.6, label=name)
    ax.set(xlabel="purity", title=f"ink is {ink}")
axes[0].set_ylabel("entropy")
axes[0].legend(frameon=False)

# %%
# One grey level decides which method has the higher purity, so purity is not a reason to choose one
# of them. k-means is faster on such a small table. It has no margins, no missing cells, and no
# likelihood to compare models with.
