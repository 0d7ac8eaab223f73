"""Gabor sketches: which cells of an image have a stroke of which orientation (Sections 1 and 5)."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, ndimage
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bitmix.errors import ImageError, InputError
from bitmix.features.images import Grey, load_image_folder, read_grey, without_size_warnings
from bitmix.kernels.bits import Words, pack
from bitmix.kernels.threads import num_threads
from bitmix.rows.packed import BitMatrix
from bitmix.support import checks
from bitmix.support.pages import Documented
from bitmix.support.progress import progress

Detector = Literal["contour", "threshold"]

FLOOR = 0.15
"""Added to the local magnitude, in units of the image's largest, so that flat areas stay empty."""
_MARGIN = 12  # pixels reflected around the image, so that its border is not an edge


@dataclass(frozen=True)
class GaborGeometry:
    """Where each bit of a sketch is: rows of cells × columns of cells × orientations."""

    rows: int
    columns: int
    n_orientations: int
    cell_size: int
    shape: tuple[int, int]
    """Rows and columns of the image in pixels; pixels that fill no cell are not used."""
    tolerant: bool = False
    """Whether each stroke also sets its neighbours, as `detector="contour"` does."""

    @classmethod
    def from_dict(cls, values: Any) -> "GaborGeometry | None":
        """The geometry with these fields, as a file has them; None if they make no sense."""
        if not isinstance(values, dict) or values.keys() != {f.name for f in fields(cls)}:
            return None
        shape = values["shape"]
        sizes = [values[name] for name in ("rows", "columns", "n_orientations", "cell_size")]
        whole = isinstance(shape, list | tuple) and len(shape) == 2
        if not whole or not all(type(size) is int and size > 0 for size in (*sizes, *shape)):
            return None
        rows, columns, n_orientations, cell_size = sizes
        tolerant = values["tolerant"] is True
        return cls(rows, columns, n_orientations, cell_size, (shape[0], shape[1]), tolerant)

    @property
    def n_features(self) -> int:
        return self.rows * self.columns * self.n_orientations

    def segments(self, bits: ArrayLike) -> NDArray[np.float64]:
        """The strokes of the bits that are 1: (x0, y0, x1, y1) in pixels, y downwards."""
        where = np.flatnonzero(checks.row_of(bits, self.n_features))
        row, column, orientation = np.unravel_index(
            where, (self.rows, self.columns, self.n_orientations)
        )
        angle = np.pi * orientation / self.n_orientations
        reach = 0.5 * self.cell_size * np.stack([np.cos(angle), np.sin(angle)])
        centre = self.cell_size * (np.stack([column, row]) + 0.5)
        return np.concatenate([centre - reach, centre + reach]).T

    def intensities(self, values: ArrayLike) -> NDArray[np.float64]:
        """How dark to draw each stroke: the bits or means, without the neighbours that were set.

        Setting neighbours is a dilation; its opposite, an erosion, takes the least value among
        the neighbours. It leaves the strokes and what several of them filled in together.
        """
        grid = checks.row_of(values, self.n_features).reshape(
            self.rows, self.columns, self.n_orientations
        )
        if not self.tolerant:
            return grid.ravel()
        turned = np.minimum(grid, np.minimum(np.roll(grid, 1, axis=2), np.roll(grid, -1, axis=2)))
        least = ndimage.minimum_filter(turned, size=(3, 3, 1), mode="constant", cval=1.0)
        return np.asarray(least).ravel()

    def feature_names(self) -> NDArray[np.object_]:
        """``r3c5o2`` is row 3 and column 5 of the cells, orientation 2·180°/n."""
        cells = np.ndindex(self.rows, self.columns, self.n_orientations)
        return np.array([f"r{r}c{c}o{o}" for r, c, o in cells], dtype=object)


@dataclass(frozen=True, eq=False)
class GaborBank:
    """Filters of one wavelength at all orientations, as Fourier transforms for the padded image."""

    shape: tuple[int, int]
    filters: NDArray[np.float32]

    @classmethod
    def make(
        cls, shape: tuple[int, int], n_orientations: int, wavelength: float,
        width: float, elongation: float,
    ) -> "GaborBank":  # fmt: skip
        """`width` is the Gaussian's deviation across the stroke, `elongation` times that along it.

        A one-sided Gaussian in frequency gives the even and the odd filter in one complex response.
        """
        padded = [fft.next_fast_len(size + 2 * _MARGIN) for size in shape]
        fy, fx = np.fft.fftfreq(padded[0])[:, None], np.fft.fftfreq(padded[1])[None, :]
        angle = np.pi * np.arange(n_orientations)[:, None, None] / n_orientations
        along = fx * np.cos(angle) + fy * np.sin(angle)
        across = fy * np.cos(angle) - fx * np.sin(angle)

        def gauss(centre: float) -> NDArray[np.float64]:
            spread = (elongation * width * along) ** 2 + (width * (across - centre)) ** 2
            return np.asarray(np.exp(-2 * np.pi**2 * spread))

        constant = np.exp(-2 * np.pi**2 * (width / wavelength) ** 2)
        filters = gauss(1 / wavelength) - constant * gauss(0.0)  # 0 on a constant image
        return cls(shape, filters.astype(np.float32))

    def power(self, image: Grey) -> NDArray[np.float32]:
        """even² + odd² at every pixel, shape (orientations, rows, columns)."""
        rows, columns = self.shape
        height, width = self.filters.shape[1:]
        padding = ((_MARGIN, height - rows - _MARGIN), (_MARGIN, width - columns - _MARGIN))
        spectrum = fft.fft2(np.pad(image, padding, mode="symmetric"))
        response = fft.ifft2(spectrum * self.filters, overwrite_x=True)
        inner = response[:, _MARGIN : _MARGIN + rows, _MARGIN : _MARGIN + columns]
        return np.asarray(inner.real**2 + inner.imag**2)


def normalised(power: NDArray[np.float32], window: int) -> NDArray[np.float32]:
    """Power over its mean over all orientations in a window around the pixel."""
    local = np.sqrt(ndimage.uniform_filter(power.mean(axis=0), window, mode="reflect").clip(min=0))
    floor = FLOOR * local.max() + 1e-9
    return np.asarray(power / (local + floor) ** 2)


def pooled(power: NDArray[np.float32], cell: int) -> NDArray[np.float32]:
    """The largest magnitude in each cell, shape (rows of cells, columns of cells, orientations)."""
    o, rows, columns = power.shape
    cells = power[:, : rows // cell * cell, : columns // cell * cell]
    cells = cells.reshape(o, rows // cell, cell, columns // cell, cell)
    return np.sqrt(cells.max(axis=2).max(axis=3).transpose(1, 2, 0))


def peaks(responses: NDArray[np.float32], reach: int) -> NDArray[np.float32]:
    """The responses that no orientation up to `reach` steps away exceeds; 0 elsewhere."""
    best = responses
    for step in range(1, reach + 1):
        best = np.maximum(best, np.roll(responses, step, axis=2))
        best = np.maximum(best, np.roll(responses, -step, axis=2))
    return np.where(responses >= best, responses, np.float32(0))


def strongest(responses: NDArray[np.float32], density: float) -> NDArray[np.bool_]:
    """Which responses are among the strongest `density` of all, and positive."""
    count = max(1, round(density * responses.size))
    least = np.partition(responses.ravel(), -count)[-count]
    return np.asarray((responses >= least) & (responses > 0))


def dilated(bits: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Each bit also sets its two neighbouring orientations and its eight neighbouring cells."""
    turned = bits | np.roll(bits, 1, axis=2) | np.roll(bits, -1, axis=2)
    return np.asarray(ndimage.binary_dilation(turned, structure=np.ones((3, 3, 1))))


class GaborSketch(Documented, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn images into rows of packed bits: one bit per cell and orientation.

    Parameters
    ----------
    shape : (int, int), default=(120, 120)
        Rows and columns of pixels that every image is scaled to.
    cell_size : int, default=6
        Side of a cell in pixels; the paper has 5 to 7.
    n_orientations : int, default=16
        Orientations over 180°; the paper has 8 and 16.
    detector : {"contour", "threshold"}, default="contour"
        "threshold" is the paper's: a bit is 1 if the largest response in the cell is above the
        threshold. "contour" first drops responses that are no peaks over neighbouring
        orientations, and lets each bit also set its neighbours in orientation and position, so
        that strokes which differ a little still agree.
    threshold : float, optional
        Least response. By default None: the strongest `density` of an image's responses.
    density : float, optional
        Fraction of the responses to take if there is no threshold: by default .025 for "contour"
        (before neighbours are set), .15 for "threshold".
    normalize : int or None, default=41
        Side in pixels of the window whose mean energy responses are divided by; None for absolute
        responses.
    wavelength : float, default=7.5
        Wavelength of the filters in pixels.
    n_jobs : int, optional
        Number of images to work on at a time. None and -1 mean one per core.
    on_error : {"raise", "skip"}, default="raise"
        What to do with a file that cannot be read. `kept_` lists the images that were used.

    Attributes
    ----------
    geometry_ : GaborGeometry
        Where each bit is, so that it can be drawn.
    kept_, skipped_ : lists
        After `transform`: the numbers of the images used, and (number, reason) of those skipped.

    Examples
    --------
    >>> import numpy as np
    >>> from bitmix.features import GaborSketch
    >>> stripes = np.tile(np.repeat([0.0, 1.0], 6), (60, 5))
    >>> sketch = GaborSketch(shape=(60, 60), n_orientations=8, detector="threshold", density=0.1)
    >>> sketch.fit_transform([stripes]).shape
    (1, 800)
    """

    _public_module = "bitmix.features"

    def __init__(
        self,
        shape: tuple[int, int] = (120, 120),
        *,
        cell_size: int = 6,
        n_orientations: int = 16,
        detector: Detector = "contour",
        threshold: float | None = None,
        density: float | None = None,
        normalize: int | None = 41,
        wavelength: float = 7.5,
        n_jobs: int | None = None,
        on_error: Literal["raise", "skip"] = "raise",
    ) -> None:
        self.shape = shape
        self.cell_size = cell_size
        self.n_orientations = n_orientations
        self.detector = detector
        self.threshold = threshold
        self.density = density
        self.normalize = normalize
        self.wavelength = wavelength
        self.n_jobs = n_jobs
        self.on_error = on_error

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Compute the filters. Nothing is learned from the images."""
        rows, columns = _checked_shape(self.shape)
        cell = checks.whole(self.cell_size, "cell_size", least=1)
        n_orientations = checks.whole(self.n_orientations, "n_orientations", least=2)
        if min(rows, columns) < cell:
            raise InputError(f"shape must hold a cell of {cell} pixels, got {self.shape!r}")
        if self.detector not in ("contour", "threshold"):
            raise InputError(f"detector must be 'contour' or 'threshold', got {self.detector!r}")
        if self.on_error not in ("raise", "skip"):
            raise InputError(f"on_error must be 'raise' or 'skip', got {self.on_error!r}")
        checks.optional(checks.between, self.threshold, "threshold", 0, np.inf)
        checks.optional(checks.between, self.density, "density", 0, 1)
        checks.optional(checks.whole, self.normalize, "normalize", least=1)
        wavelength = checks.between(self.wavelength, "wavelength", 2, np.inf)
        self.geometry_ = GaborGeometry(
            rows // cell,
            columns // cell,
            n_orientations,
            cell,
            (rows, columns),
            tolerant=self.detector == "contour",
        )
        self.bank_ = GaborBank.make(
            (rows, columns), n_orientations, wavelength, width=0.32 * wavelength, elongation=1.6
        )
        return self

    def transform(self, X: Any) -> BitMatrix:
        """Sketch a folder of images, files or arrays; one packed row per image."""
        check_is_fitted(self)
        images = _images(X)
        jobs = (
            num_threads()
            if self.n_jobs in (None, -1)
            else checks.whole(self.n_jobs, "n_jobs", least=1)
        )
        self.kept_, self.skipped_, rows = [], [], []
        with without_size_warnings(), ThreadPoolExecutor(jobs) as pool:
            results = pool.map(partial(_attempt, self._packed), images)
            for i, result in enumerate(progress(results, "sketching", total=len(images))):
                if isinstance(result, ImageError):
                    if self.on_error == "raise":
                        pool.shutdown(cancel_futures=True)
                        raise result
                    self.skipped_.append((i, str(result)))
                else:
                    self.kept_.append(i)
                    rows.append(result)
        if not rows:
            raise ImageError(f"none of {len(images)} images could be read: {self.skipped_[0][1]}")
        return BitMatrix(np.concatenate(rows), self.geometry_.n_features)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """``r3c5o2`` is row 3 and column 5 of the cells, orientation 2."""
        check_is_fitted(self)
        return self.geometry_.feature_names()

    def _packed(self, source: Any) -> Words:
        """The sketch of one image as a packed row."""
        image = read_grey(source, self.bank_.shape, least=self.geometry_.cell_size)
        power = self.bank_.power(image)
        if self.normalize is not None:
            power = normalised(power, self.normalize)
        responses = pooled(power, self.geometry_.cell_size)
        if self.detector == "contour":
            responses = peaks(responses, reach=max(1, self.n_orientations // 8))
        if self.threshold is None:
            default = 0.025 if self.detector == "contour" else 0.15
            bits = strongest(responses, default if self.density is None else self.density)
        else:
            bits = responses > self.threshold
        return pack((dilated(bits) if self.detector == "contour" else bits).reshape(1, -1))


def _attempt(function: Any, source: Any) -> Any:
    """The result, or the error as a value: the caller decides whether it stops the others."""
    try:
        return function(source)
    except ImageError as error:
        return error


def _images(X: Any) -> Sequence[Any]:
    """A folder, files or arrays as a sequence of images."""
    if isinstance(X, str | os.PathLike):
        return load_image_folder(X) if Path(X).is_dir() else [X]
    if isinstance(X, np.ndarray) and X.ndim == 2:
        raise InputError("give one image as a list of one: transform([image])")
    images = X if isinstance(X, Sequence) else list(X) if isinstance(X, Iterable) else []
    if not images:
        raise InputError(f"X must be a folder, files or image arrays, got {X!r}")
    return images


def _checked_shape(shape: Any) -> tuple[int, int]:
    try:
        rows, columns = shape
    except (TypeError, ValueError):
        raise InputError(f"shape must be (rows, columns), got {shape!r}") from None
    return checks.whole(rows, "shape[0]", least=1), checks.whole(columns, "shape[1]", least=1)
