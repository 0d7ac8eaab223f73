"""
What photographs are made of
============================

Two photographs come with scikit-learn. Cut them into small patches, and turn each patch into bits
that say where there is an edge and which way it runs. Do a few templates return everywhere?

(Faces would be the classic example. Collections of faces have to be downloaded, and these pages use
only what an installation brings.)
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
    """The patches that have some contrast, by the column and row they begin at."""
    rows, columns = (range(0, size - SIDE + 1, step) for size in image.shape)
    cut = {(c, r): image[r : r + SIDE, c : c + SIDE] for r in rows for c in columns}
    return {at: patch for at, patch in cut.items() if patch.std() > 0.08}


# %%
# A Gabor sketch has one bit for each cell of 4 × 4 pixels and each of eight orientations: 128 bits
# for 16 × 16 pixels. The patches overlap by half.

sketch = GaborSketch(
    (SIDE, SIDE), cell_size=4, n_orientations=8, detector="threshold", normalize=None
).fit()
seen = [patch for image in photographs for patch in patches(image, SIDE // 2).values()]
X = sketch.transform(seen)
print(X)

# %%
# Twenty-four templates. They are drawn with a stroke for each bit, darker where more of the group
# have it.

model = TemplateMixture(24, n_init=4, random_state=0).fit(X)
figure, axes = plt.subplots(3, 8, figsize=(8, 3.1), layout="constrained")
for ax, mean in zip(axes.flat, model.means_, strict=True):
    plot_template(ax, mean, sketch.geometry_)

# %%
# Nobody told it about edges between two sides, but that is what it found: level ones, upright ones,
# a few slants and corners, each in several places. Now forget the pixels, keep only the number of
# the template of each patch, and draw that template in its place.

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
# A word of caution. Photographs are not noisy copies of 24 things, and the fit says so: its starts
# do not agree on where to end. Another seed finds another vocabulary that is about as good.

print(f"{model.n_agreeing_} of {model.n_starts_} starts ended here, noise {model.noise_:.2f}")
