"""Purity and entropy of sketches of real images, and the speed of sketching. Prints tables."""

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy import ndimage

from bitmix import TwoRoundEM
from bitmix.errors import BitmixWarning
from bitmix.features import GaborSketch, gabor, load_image_folder
from bitmix.metrics import conditional_entropy, conditional_purity

VEHICLES, ANIMALS = ("motorcycle", "bicycle", "car"), ("cat", "wolf", "deer")
SETTINGS = {
    "defaults": {},
    "the paper's detector": {"detector": "threshold"},
    "  and no normalisation": {"detector": "threshold", "normalize": None},
    "cells of 5": {"cell_size": 5},
    "cells of 7": {"cell_size": 7},
    "8 orientations": {"n_orientations": 8},
    "no normalisation": {"normalize": None},
    "density .02": {"density": 0.02},
    "density .03": {"density": 0.03},
    "wavelength 9": {"wavelength": 9.0},
}


ABLATIONS = {
    "without peaks": {"peaks": lambda responses, reach: responses},
    "no neighbouring cells": {
        "dilated": lambda bits: bits | np.roll(bits, 1, axis=2) | np.roll(bits, -1, axis=2)
    },
    "no neighbouring angles": {
        "dilated": lambda bits: ndimage.binary_dilation(bits, structure=np.ones((3, 3, 1)))
    },
    "no neighbours at all": {"dilated": lambda bits: bits},
}


def quality(root: Path, runs: int) -> None:
    folder = load_image_folder(root)
    sets = {"vehicles": VEHICLES, "animals": ANIMALS, "all six": VEHICLES + ANIMALS}
    print(f"purity/entropy over seeds 0-{runs - 1}, two rounds and ten")
    print(f"{'':<24}" + "".join(f"{name:^30}" for name in sets))
    rows = {
        name: GaborSketch(**params).fit().transform(folder) for name, params in SETTINGS.items()
    }
    for name, changes in ABLATIONS.items():
        with patch.multiple(gabor, **changes):
            rows[name] = GaborSketch().fit().transform(folder)
    for name, X in rows.items():
        line = f"{name:<24}"
        for classes in sets.values():
            chosen = [i for i, label in enumerate(folder.labels or ()) if label in classes]
            truth = [folder.labels[i] for i in chosen]
            for rounds in (2, 10):
                scores = []
                for seed in range(runs):
                    model = TwoRoundEM(len(classes), rounds=rounds, random_state=seed)
                    labels = model.fit(X[chosen]).predict(X[chosen])
                    scores.append(
                        (conditional_purity(truth, labels), conditional_entropy(truth, labels))
                    )
                purity, entropy = np.mean(scores, axis=0)
                line += f"  {purity:.4f}/{entropy:.4f}"
        print(line, flush=True)


def speed() -> None:
    image = np.random.default_rng(0).random((120, 120))
    one = GaborSketch(n_jobs=1).fit()
    one.transform([image] * 5)
    start = time.perf_counter()
    one.transform([image] * 200)
    print(f"\n{(time.perf_counter() - start) / 200 * 1000:.2f} ms per 120×120 image on one core")
    from PIL import Image

    with tempfile.TemporaryDirectory() as name:
        for i in range(1000):
            grey = np.random.default_rng(i).integers(256, size=(120, 120), dtype=np.uint8)
            Image.fromarray(grey).save(Path(name) / f"{i}.png")
        start = time.perf_counter()
        GaborSketch().fit().transform(name)
        print(
            f"{time.perf_counter() - start:.2f} s for a folder of 1,000 on {os.cpu_count()} cores"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path, nargs="?", help="a folder of the six classes")
    parser.add_argument("--runs", type=int, default=100)
    args = parser.parse_args()
    warnings.simplefilter("ignore", BitmixWarning)
    if args.images:
        quality(args.images, args.runs)
    speed()


if __name__ == "__main__":
    main()
