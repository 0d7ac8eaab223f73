"""
What photographs are made of
============================

scikit-learn comes with two photographs. We cut them into small patches and turn each patch into
bits that say where there is an edge and in which direction it runs. Which templates do the patches
have in common?
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from sklearn.datasets import load_sample_images

from bitmix import TemplateMixture
from bitmix.features import GaborSketch
from bitmix.plots import plot_template

SIDE = 16
photographs = [image.mean(axis=2) / 255 for image in load_sample_images().images]


def patches(image, step):
    """The patches with enough contrast, by the column and row of their upper left corner."""
    rows, columns = (range(0, size - SIDE + 1, step) for size in image.shape)
    cut = {(c, r): image[r : r + SIDE, c : c + SIDE] for r in rows for c in columns}
    return {at: patch for at, patch in cut.items() if patch.std() > 0.08}


# %%
# A Gabor sketch has one bit per cell of 4 × 4 pixels and per orientation. With eight orientations,
# a patch of 16 × 16 pixels has 128 bits. Neighbouring patches overlap by half.

sketch = GaborSketch(
    (SIDE, SIDE), cell_size=4, n_orientations=8, detector="threshold", normalize=None
).fit()
seen = [patch for image in photographs for patch in patches(image, SIDE // 2).values()]
X = sketch.transform(seen)
print(X)

# %%
# We fit 24 templates. Each bit is drawn as a stroke, darker if more patches of the group have it.

model = TemplateMixture(24, n_init=4, random_state=0).fit(X)
figure, axes = plt.subplots(3, 8, figsize=(8, 3.1), layout="constrained")
for ax, mean in zip(axes.flat, model.means_, strict=True):
    plot_template(ax, mean, sketch.geometry_)

# %%
# The templates are edges: horizontal, vertical and oblique ones and a few corners, each in several
# positions. Now we replace each patch by its template, so that only the number of the template
# remains of the pixels.

strokes = sketch.geometry_.segments(np.ones(sketch.geometry_.n_features)).reshape(-1, 2, 2)
figure, axes = plt.subplots(2, 2, figsize=(8, 5.5), layout="constrained")
for (left, right), image in zip(axes, photographs, strict=True):
    left.imshow(image, cmap="gray")
    parts = patches(image, SIDE)
    for at, label in zip(parts, model.predict(sketch.transform(list(parts.values()))), strict=True):
        shares = model.means_[label]
        ink = [(0, 0, 0, share) for share in shares[shares > 0.3]]
        right.add_collection(LineCollection(strokes[shares > 0.3] + at, colors=ink, lw=0.6))
    right.set(xlim=left.get_xlim(), ylim=left.get_ylim(), aspect="equal")
    left.axis("off")
    right.axis("off")

# %%
# Photographs are not noisy copies of 24 templates, and the fit shows it: its starts do not agree.
# Another seed gives other templates.

print(f"{model.n_agreeing_} of {model.n_starts_} finished starts agree, {model.noise_model_} noise")
