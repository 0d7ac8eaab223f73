"""
A survey with missing answers
=============================

2,000 people answered twelve yes-or-no questions about how they travel, but not everyone answered
every question. Are there types of people, and how do they differ?

The survey is simulated, so we know the truth: there are three types, each with its own probability
of a yes to each question, and one answer in eight is missing. This is the latent class model.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bitmix import TemplateMixture, report, select_components
from bitmix.metrics import conditional_purity

yes = pd.DataFrame(
    {  #                     city   village  student
        "owns a car":         (0.25, 0.95, 0.10),
        "owns a bicycle":     (0.60, 0.55, 0.90),
        "has a train pass":   (0.80, 0.10, 0.85),
        "drives to work":     (0.10, 0.90, 0.05),
        "cycles in winter":   (0.25, 0.05, 0.60),
        "shares rides":       (0.20, 0.15, 0.55),
        "has a garage":       (0.15, 0.85, 0.05),
        "rents the home":     (0.75, 0.15, 0.95),
        "shops on foot":      (0.90, 0.15, 0.70),
        "flew last year":     (0.70, 0.40, 0.35),
        "works at home":      (0.45, 0.20, 0.15),
        "wants a bus stop":   (0.20, 0.65, 0.40),
    },
    index=["city", "village", "student"],
)  # fmt: skip

rng = np.random.default_rng(4)
kind = rng.choice(3, size=2000, p=[0.45, 0.35, 0.2])
answers = pd.DataFrame(rng.random((2000, 12)) < yes.to_numpy()[kind], columns=yes.columns)
answers = answers.astype(float).mask(rng.random(answers.shape) < 1 / 8)
answers.head(4)

# %%
# How many types are there? ``select_components`` compares how many nats it takes to write down the
# answers with one type, two types, and so on; ``chosen.model`` is the chosen fit. Missing answers
# (NaN) are left out of all sums: no row is dropped and nothing is imputed.

latent_classes = TemplateMixture(noise_model="cell", random_state=0)
chosen = select_components(answers, range(1, 7), latent_classes)
model = chosen.model
labels = model.predict(answers)
print(chosen.n_components, "types with weights", model.weights_.round(2))
print(f"{conditional_purity(kind, labels):.0%} of the people are in the group of their type")

# %%
# Each type is a row of probabilities. Dots are the estimates, rings the true values.

figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
for i, mean in enumerate(model.means_):
    truth = yes.iloc[np.bincount(kind[labels == i]).argmax()]
    ax.plot(mean, range(12), "o-", color=f"C{i}", lw=1, label=f"{model.weights_[i]:.0%}")
    ax.plot(truth, range(12), "o", ms=12, mfc="none", mec=f"C{i}", alpha=0.6)
ax.set(yticks=range(12), yticklabels=answers.columns, xlim=(0, 1), xlabel="share of yes")
ax.invert_yaxis()
ax.legend(title="share of people", loc="upper left", bbox_to_anchor=(1, 1), frameon=False)

# %%
# To which questions do most people of the two largest types give different answers? The model knows
# the names of the columns because it was fitted to a table.

print(", ".join(model.differing_features(0, 1)))

# %%
# The report shows all of this in one HTML file, which needs no network and no other file.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "survey.html")
    report.write(model, answers, path, selection=chosen, title="How people travel")
    print(f"a report of {path.stat().st_size // 1000} kB")
