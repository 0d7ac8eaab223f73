"""Reading images of any format, and folders of them, as grey values from 0 to 1."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import ImageError
from bitmix.support.extras import need

Grey = NDArray[np.float32]
"""Grey values from 0 (black) to 1 (white), shape (rows, columns)."""

SKIP_ADVICE = ', or skip such files (on_error="skip", --skip-errors)'

MAX_PIXELS = 100_000_000
"""Larger images are refused before they are decoded."""


@dataclass(frozen=True)
class ImageFolder(Sequence[Path]):
    """Image files and their classes; a file is read when it is used."""

    paths: tuple[Path, ...]
    labels: tuple[str, ...] | None
    """The sub-folder of each file; None if the folder has no sub-folders."""

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Any:
        return self.paths[index]


def load_image_folder(path: str | os.PathLike[str]) -> ImageFolder:
    """The images of a folder. Sub-folders are classes; files beside them are ignored.

    Examples
    --------
    >>> folder = load_image_folder("images")  # doctest: +SKIP
    >>> len(folder), set(folder.labels)  # doctest: +SKIP
    (45, {'bicycle', 'car', 'motorcycle'})
    """
    root = Path(path)
    if not root.is_dir():
        raise ImageError(f"{root} must be a folder of images, or of folders of images")
    classes = sorted(entry for entry in root.iterdir() if entry.is_dir() and _visible(entry))
    if not classes:
        return ImageFolder(_files(root), None)
    labelled = [(file, folder.name) for folder in classes for file in _files(folder)]
    return ImageFolder(tuple(file for file, _ in labelled), tuple(name for _, name in labelled))


def _files(folder: Path) -> tuple[Path, ...]:
    files = tuple(sorted(file for file in folder.iterdir() if file.is_file() and _visible(file)))
    if not files:
        raise ImageError(f"{folder} holds no images: put some in, or remove the folder")
    return files


def _visible(entry: Path) -> bool:
    return not entry.name.startswith(".")


@contextmanager
def without_size_warnings() -> Iterator[None]:
    """Silence Pillow's warning of large images, as `MAX_PIXELS` is the limit.

    Warning filters are global, so this is entered before threads start.
    """
    need("PIL")
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        yield


def read_grey(source: Any, shape: tuple[int, int], *, least: int = 1) -> Grey:
    """An image file or array as grey values of the given shape (rows, columns).

    Neither side of the image may have fewer than `least` pixels.
    """
    if isinstance(source, str | os.PathLike):
        return _read_file(Path(source), shape, least)
    return _from_array(np.asarray(source), shape, least)


def _read_file(path: Path, shape: tuple[int, int], least: int) -> Grey:
    need("PIL")
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise ImageError(
                    f"{path} has {width:,}×{height:,} pixels, at most {MAX_PIXELS:,} are read: "
                    "scale it down first"
                )
            _check_size(str(path), width, height, least)
            return _grey(ImageOps.exif_transpose(image), shape)
    except Image.DecompressionBombError:
        raise ImageError(
            f"{path} has more than {MAX_PIXELS:,} pixels: scale it down first"
        ) from None
    except FileNotFoundError:
        raise ImageError(f"there is no image {path}") from None
    except ImageError:
        raise
    except Exception as error:  # a damaged image can fail in any way its format allows
        raise ImageError(
            f"{path} is not an image or is damaged ({error}): remove it{SKIP_ADVICE}"
        ) from None


def _grey(image: Any, shape: tuple[int, int]) -> Grey:
    """Alpha is put on white, 16-bit and float images keep their depth, colours become grey."""
    from PIL import Image

    if image.mode.startswith("I"):
        image, top = image.convert("F"), 65535.0 if image.mode != "I" else 0.0
    elif image.mode == "F":
        top = 0.0
    else:
        if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
            image = image.convert("RGBA")
            white = Image.new("RGBA", image.size, "white")
            image = Image.alpha_composite(white, image)
        image, top = image.convert("L").convert("F"), 255.0
    rows, columns = shape
    values = np.asarray(image.resize((columns, rows), Image.Resampling.LANCZOS), dtype=np.float32)
    return _scaled(values, top)


def _check_size(name: str, width: int, height: int, least: int) -> None:
    if min(width, height) < least:
        raise ImageError(
            f"{name} has {width}×{height} pixels, at least {least} each way are needed for one cell"
        )


def _from_array(array: NDArray[Any], shape: tuple[int, int], least: int) -> Grey:
    """8-bit arrays are read as the same image in a file, others by their range."""
    need("PIL")
    from PIL import Image

    colours = array.ndim == 3 and array.shape[2] in (3, 4)
    if not (array.ndim == 2 or colours) or array.dtype.kind not in "biuf" or not array.size:
        raise ImageError(
            f"an image array must be (rows, columns) or (rows, columns, 3 or 4) of numbers, "
            f"got shape {array.shape} of {array.dtype}"
        )
    _check_size("an image array", array.shape[1], array.shape[0], least)
    if array.dtype == np.uint8:
        return _grey(Image.fromarray(np.ascontiguousarray(array)), shape)
    values = array.astype(np.float32)
    if not np.isfinite(values).all():
        raise ImageError("an image array must hold finite numbers, got NaN or infinity")
    values = _scaled(values, 65535.0 if array.dtype == np.uint16 else 0.0)
    if colours:
        alpha = values[..., 3:] if values.shape[2] == 4 else np.float32(1)
        on_white = values[..., :3] * alpha + (1 - alpha)
        values = on_white @ np.array([0.299, 0.587, 0.114], dtype=np.float32)  # Pillow's grey
    if values.shape != shape:
        picture = Image.fromarray(values)
        values = np.asarray(picture.resize(shape[::-1], Image.Resampling.LANCZOS))
    return _scaled(values, 1.0)


def _scaled(values: Grey, top: float) -> Grey:
    """Values from 0 … top to 0 … 1; top = 0 stands for the largest value, but at least 1."""
    top = top or max(1.0, float(values.max()))
    return np.clip(values / np.float32(top), 0, 1)
