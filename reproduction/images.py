"""The images of the tables and of Figures 2, 7 and 8: a folder of the user's, or digits."""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bitmix.errors import ImageError
from bitmix.features.gabor import GaborGeometry, GaborSketch
from bitmix.features.images import SKIP_ADVICE, load_image_folder
from bitmix.rows.packed import BitMatrix
from bitmix.support.atomic import atomic_write

VEHICLES = ("motorcycle", "bicycle", "car")
ANIMALS = ("cat", "wolf", "deer")
_DIGIT_OF = {name: digit for digit, name in enumerate(VEHICLES + ANIMALS)}
_DIGITS_PER_CLASS = 15


@dataclass(frozen=True)
class ImageSet:
    """Images with their classes and sketches."""

    title: str
    classes: tuple[str, ...]
    labels: tuple[str, ...]
    images: Sequence[Any]
    names: tuple[str, ...]
    rows: BitMatrix
    geometry: GaborGeometry
    digest: str
    """Identifies the bits of the sketches and the labels."""
    path: Path
    """The file of packed rows and labels that the workers read."""
    as_in_paper: bool
    """Whether these are the classes of the paper, so that its numbers can be compared with ours."""


def image_set(folder: Path | None, classes: Sequence[str], out: Path) -> ImageSet:
    """The images of `classes` if the folder has all of them, otherwise all images it has."""
    if folder is None:
        names, labels, images = _digits(tuple(classes))
        used, as_in_paper = sorted(set(labels)), False
        title = f"digits {', '.join(used)} (scikit-learn's, in place of the paper's images)"
    else:
        names, labels, images = _folder(folder)
        as_in_paper = set(classes) <= set(labels)
        used = list(classes) if as_in_paper else sorted(set(labels))
        indices = [i for i, label in enumerate(labels) if label in used]
        names, labels = [names[i] for i in indices], [labels[i] for i in indices]
        images = [images[i] for i in indices]
        title = ", ".join(used)
    sketch = GaborSketch().fit()
    try:
        rows = sketch.transform(images)
    except ImageError as error:
        raise ImageError(str(error).replace(SKIP_ADVICE, "")) from None
    digest, path = _save_sketches(rows, labels, out)
    return ImageSet(
        title, tuple(used), tuple(labels), images, tuple(names), rows, sketch.geometry_, digest,
        path, as_in_paper,
    )  # fmt: skip


def _digits(classes: tuple[str, ...]) -> tuple[list[str], list[str], list[Any]]:
    """Names, labels and images: the first fifteen of the digit that replaces each class."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    indices = [
        int(i)
        for name in classes
        for i in np.flatnonzero(digits.target == _DIGIT_OF[name])[:_DIGITS_PER_CLASS]
    ]
    images = [np.rint(digits.images[i] * (255 / 16)).astype(np.uint8) for i in indices]
    return [f"digits[{i}]" for i in indices], [str(digits.target[i]) for i in indices], images


def check_folder(root: Path) -> None:
    """Raise an error if the folder cannot be used."""
    _folder(root)


def _folder(root: Path) -> tuple[list[str], list[str], list[Any]]:
    """Names, labels and paths of the images in a folder of class folders."""
    folder = load_image_folder(root)
    if folder.labels is None or len(set(folder.labels)) < 2:
        number = "no" if folder.labels is None else "only one"
        raise ImageError(
            f"{root} has {number} class folder: clusters are compared with classes, so put the "
            "images into two or more sub-folders, one per class"
        )
    unprintable = next((name for name in folder.labels if not name.isprintable()), None)
    if unprintable is not None:
        raise ImageError(
            f"the folder {unprintable!r} in {root} has a name that cannot be printed: rename it"
        )
    names = [str(path.relative_to(root)) for path in folder.paths]
    return names, list(folder.labels), list(folder.paths)


def _save_sketches(rows: BitMatrix, labels: Sequence[str], out: Path) -> tuple[str, Path]:
    """Write rows and labels to a file, unless it exists; their digest and the path."""
    content = b"".join([rows.words.tobytes(), *(f"\0{label}".encode() for label in labels)])
    digest = hashlib.sha256(content).hexdigest()[:16]
    path = out / f"sketches-{digest}.npz"
    if not path.is_file():
        arrays = io.BytesIO()
        np.savez(arrays, words=rows.words, n_columns=rows.shape[1], labels=np.array(labels))
        with atomic_write(path) as file:
            file.write(arrays.getvalue())
    return digest, path
