"""
Latent classes, from a table to a paragraph
===========================================

Seven raters looked at the same 300 slides and said of each whether it shows a disease. They do not
always agree. How many kinds of slides are there, how do the raters judge each kind, and how sure is
that? The table is simulated with three kinds, in the likeness of a well-known study, so we know the
truth.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bitmix
from bitmix import TemplateMixture, select_components

yes = np.array(
    [  # A     B     C     D     E     F     G
        [0.98, 0.97, 0.85, 0.60, 0.98, 0.50, 0.98],  # all but D and F see a disease
        [0.05, 0.15, 0.02, 0.02, 0.06, 0.02, 0.02],  # no disease
        [0.50, 0.95, 0.03, 0.06, 0.75, 0.03, 0.60],  # the raters disagree
    ]
)
rng = np.random.default_rng(1)
kind = rng.choice(3, size=300, p=[0.45, 0.35, 0.2])
slides = pd.DataFrame((rng.random((300, 7)) < yes[kind]).astype(int), columns=list("ABCDEFG"))

# %%
# One table decides how many classes there are. With ``prior=0`` the likelihood is maximised, as
# other programs for latent classes do. The last column is the bootstrap test of *k* against *k* - 1
# classes; 99 replicates are usual.

estimator = TemplateMixture(noise_model="cell", prior=0)
selection = select_components(
    slides, range(1, 5), estimator, criterion="bic", blrt=19, random_state=0
)
columns = ["n_components", "n_parameters", "log_likelihood", "bic", "entropy_r2", "blrt"]
selection.table()[columns].round(3)

# %%
# How well does it fit? G² and χ² compare the counts of response patterns with those expected. The
# bivariate residuals look for pairs of raters who have more in common than the classes say.

model = selection.model
fit = bitmix.fit_statistics(model, slides)
print(f"G² {fit.g_squared:.1f}, χ² {fit.chi_squared:.1f}, df {fit.df}, ", end="")
print(f"entropy R² {fit.entropy_r2:.3f}")
print(fit.classification.round(3))
print(bitmix.bivariate_residuals(model, slides, n=19).largest(3).to_markdown())

# %%
# What the classes are: the probability of a yes in each, with 95 % intervals from the bootstrap.
# ``to_latex()`` and ``to_csv()`` write the same table.

errors = bitmix.bootstrap(model, slides, n=100)
print(bitmix.item_probabilities(model, slides, errors).to_markdown())

# %%
# The profile plot shows the same numbers; crosses are the truth.

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
p, ends = model.probabilities_, errors.intervals.probabilities
for i, share in enumerate(model.weights_):
    x = np.arange(7) + 0.08 * (i - 1)
    ax.errorbar(x, p[i], np.abs(ends[i].T - p[i]), marker="o", label=f"class {i}: {share:.0%}")
    truth = np.bincount(kind[model.predict(slides) == i]).argmax()
    ax.plot(x, yes[truth], "kx")
ax.set(xticks=range(7), xticklabels=slides.columns, ylim=(-0.02, 1.02), ylabel="P(yes)")
ax.set_xlabel("rater")
ax.legend(frameon=False)

# %%
# Does an outcome differ between the classes? Here it is the size of the lesion, which had no part
# in the fit. The BCH correction takes into account that some slides are put into the wrong class.

size = rng.normal(np.array([9.0, 3.0, 6.0])[kind])
relation = bitmix.relate(model, slides, size)
print(relation.table().to_markdown())
print(f"the same in all classes: p = {relation.overall()['p_value']:.2g}")

# %%
# A paragraph for the paper, with numbers that were never typed:

best, more = selection.candidates[2], selection.candidates[3]
low, high = errors.intervals.weights[0]
print(
    f"We fitted models with 1 to 4 latent classes by maximum likelihood to {len(slides)} slides. "
    f"BIC was lowest for {best.n_components} classes ({best.bic:.1f}; {more.bic:.1f} with one "
    "more), and the bootstrap likelihood-ratio test agreed "
    f"(p = {best.blrt:.2f} for {best.n_components}, {more.blrt:.2f} for {more.n_components}). "
    f"Entropy R² was {fit.entropy_r2:.2f}. The largest class has a share of "
    f"{model.weights_[0]:.2f} (95 % interval {low:.2f} to {high:.2f})."
)
