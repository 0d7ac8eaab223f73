"""Image sets for the tables and sheets: the user's folder, or digits in its stead."""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bitmix.atomic import atomic_write
from bitmix.errors import ImageError
from bitmix.features.gabor import GaborGeometry, GaborSketch
from bitmix.features.images import SKIP_ADVICE, load_image_folder
from bitmix.rows.packed import BitMatrix

VEHICLES = ("motorcycle", "bicycle", "car")
ANIMALS = ("cat", "wolf", "deer")
_STAND_INS = {name: digit for digit, name in enumerate(VEHICLES + ANIMALS)}
_DIGITS_A_CLASS = 15


@dataclass(frozen=True)
class ImageSet:
    """Images with their classes and sketches; `digest` says which bits these are."""

    title: str
    classes: tuple[str, ...]
    labels: tuple[str, ...]
    images: Sequence[Any]
    names: tuple[str, ...]
    rows: BitMatrix
    geometry: GaborGeometry
    digest: str
    path: Path
    """Packed rows and labels, for the workers."""
    as_in_paper: bool
    """Whether these are the classes the paper used, so that its numbers may stand beside ours."""


def image_set(folder: Path | None, classes: Sequence[str], out: Path) -> ImageSet:
    """The classes asked for where the folder has all of them, otherwise all classes it has."""
    if folder is None:
        names, labels, images = _digits(tuple(classes))
        wanted, as_in_paper = sorted(set(labels)), False
        title = f"digits {', '.join(wanted)} (scikit-learn's, in place of the paper's images)"
    else:
        names, labels, images = _folder(folder)
        as_in_paper = set(classes) <= set(labels)
        wanted = list(classes) if as_in_paper else sorted(set(labels))
        chosen = [i for i, label in enumerate(labels) if label in wanted]
        names, labels = [names[i] for i in chosen], [labels[i] for i in chosen]
        images = [images[i] for i in chosen]
        title = ", ".join(wanted)
    sketch = GaborSketch().fit()
    try:
        rows = sketch.transform(images)
    except ImageError as error:
        raise ImageError(str(error).replace(SKIP_ADVICE, "")) from None
    digest, path = _kept(rows, labels, out)
    return ImageSet(
        title, tuple(wanted), tuple(labels), images, tuple(names), rows, sketch.geometry_, digest,
        path, as_in_paper,
    )  # fmt: skip


def _digits(classes: tuple[str, ...]) -> tuple[list[str], list[str], list[Any]]:
    """The first fifteen of each digit that stands in for a class."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    chosen = [
        int(i)
        for name in classes
        for i in np.flatnonzero(digits.target == _STAND_INS[name])[:_DIGITS_A_CLASS]
    ]
    images = [np.rint(digits.images[i] * (255 / 16)).astype(np.uint8) for i in chosen]
    return [f"digits[{i}]" for i in chosen], [str(digits.target[i]) for i in chosen], images


def check_folder(root: Path) -> None:
    """An error now rather than after an hour."""
    _folder(root)


def _folder(root: Path) -> tuple[list[str], list[str], list[Any]]:
    found = load_image_folder(root)
    if found.labels is None or len(set(found.labels)) < 2:
        classes = "no" if found.labels is None else "one"
        raise ImageError(
            f"{root} has {classes} class folder: clusters are compared with classes, so put the "
            "images into two or more sub-folders, one a class"
        )
    odd = next((name for name in found.labels if not name.isprintable()), None)
    if odd is not None:
        raise ImageError(
            f"the folder {odd!r} in {root} has a name that cannot be printed: rename it"
        )
    names = [str(path.relative_to(root)) for path in found.paths]
    return names, list(found.labels), list(found.paths)


def _kept(rows: BitMatrix, labels: Sequence[str], out: Path) -> tuple[str, Path]:
    """The digest of rows and labels, and the file that holds them."""
    content = b"".join([rows.words.tobytes(), *(f"\0{label}".encode() for label in labels)])
    digest = hashlib.sha256(content).hexdigest()[:16]
    path = out / f"sketches-{digest}.npz"
    if not path.is_file():
        arrays = io.BytesIO()
        np.savez(arrays, words=rows.words, n_columns=rows.shape[1], labels=np.array(labels))
        with atomic_write(path) as file:
            file.write(arrays.getvalue())
    return digest, path
