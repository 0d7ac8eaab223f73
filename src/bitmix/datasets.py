"""Simulated mixtures: templates with a given separation, and rows sampled from them."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.em.sampling import sample_mixture
from bitmix.errors import InputError
from bitmix.features.alphabet import Alphabet, Stroke
from bitmix.features.images import ImageFolder, load_image_folder
from bitmix.support import checks
from bitmix.support.randomness import seed_of, stream
from bitmix.theory.checks import largest_separation

__all__ = [
    "ImageFolder",
    "load_image_folder",
    "make_templates",
    "paper_pair",
    "sample_mixture",
    "sketch_dogs",
]


def paper_pair(n: int, separation: float) -> NDArray[np.uint8]:
    """The two templates of the paper's Section 5.1: all zeros, and ⌊c·n⌋ ones followed by zeros.

    Examples
    --------
    >>> paper_pair(6, 0.5)
    array([[0, 0, 0, 0, 0, 0],
           [1, 1, 1, 0, 0, 0]], dtype=uint8)
    """
    n = checks.whole(n, "n", least=1)
    templates = np.zeros((2, n), dtype=np.uint8)
    templates[1, : _differing(separation, n)] = 1
    return templates


def make_templates(
    n_components: int, n_features: int, *, separation: float = 0.3, random_state: Any = None
) -> NDArray[np.uint8]:
    """Random templates whose closest two differ in exactly ⌊separation·n_features⌋ columns.

    In each column in which templates differ, half of them have a 1, and the two templates that were
    closest so far differ; all templates agree in the other columns. So all distances are nearly
    equal.

    Parameters
    ----------
    n_components : int
        k in the paper.
    n_features : int
        n in the paper.
    separation : float
        c in the paper, in (0, 1]. No k templates can all differ in more than about k / (2(k-1)) of
        the columns. It is not used for a single template.
    random_state : int, RandomState, Generator or None

    Returns
    -------
    array of uint8, shape (n_components, n_features)
    """
    k = checks.whole(n_components, "n_components", least=1)
    n = checks.whole(n_features, "n_features", least=1)
    rng = stream(seed_of(random_state), "templates")
    common = rng.integers(2, size=n, dtype=np.uint8)
    if k == 1:
        return common[None]
    splits = _splits(k, _differing(separation, n), n, rng)
    templates = np.tile(common, (k, 1))
    templates[:, rng.permutation(n)[: len(splits)]] ^= splits.T
    return templates


def sketch_dogs() -> NDArray[np.uint8]:
    """Two dogs on a 9×9 grid of cells with the alphabet of 18 patterns, shape (2, 1458).

    One has its ears and tail up, the other has hanging ears and its tongue out; they differ in 29
    bits (c ≈ .02), as in the paper's Figure 5. `bitmix.features.Alphabet` draws them.

    Examples
    --------
    >>> dogs = sketch_dogs()
    >>> dogs.shape, int((dogs[0] != dogs[1]).sum())
    ((2, 1458), 29)
    >>> X, labels = sample_mixture(dogs, [0.6, 0.4], noise=0.1, m=200, random_state=0)
    """
    alphabet = Alphabet()
    return np.array([alphabet.encode(_DOG + _ALERT), alphabet.encode(_DOG + _GENTLE)])


def _differing(separation: float, n: int) -> int:
    """⌊c·n⌋, exact where floats are not: 0.29·100 = 28.999…"""
    c = checks.between(separation, "separation", 0, 1, closed=True)
    d = math.floor(round(c * n, 6))
    if d < 1:
        raise InputError(
            f"separation·n must be at least 1, got {c:g}·{n}: use more columns or a "
            "larger separation"
        )
    return d


def _splits(k: int, d: int, n: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Balanced splits of k templates, one per column, until the closest two differ in d columns."""
    distance = np.zeros((k, k), dtype=np.int64)
    np.fill_diagonal(distance, n + 1)
    splits: list[NDArray[np.uint8]] = []
    while distance.min() < d:
        if len(splits) == n:
            raise InputError(
                f"could not find {k} templates of {n} columns that all differ in {d}: no more than "
                f"{math.floor(n * largest_separation(k))} is possible; use a smaller separation "
                "or fewer templates"
            )
        side = _balanced_split(distance, rng)
        distance += side[:, None] != side[None, :]
        splits.append(side)
    return np.array(splits, dtype=np.uint8)


def _balanced_split(distance: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Split into halves: each template joins the half from which it is farther, if not full."""
    k = len(distance)
    side = np.full(k, 2, dtype=np.uint8)
    i, j = divmod(int(distance.argmin()), k)
    side[i], side[j] = rng.permutation(2)
    for t in rng.permutation(k):
        if side[t] != 2:
            continue
        room = [np.count_nonzero(side == s) < (k + 1) // 2 for s in (0, 1)]
        near = [int((distance.max() - distance[t, side == s]).sum()) for s in (0, 1)]
        side[t] = 0 if room[0] and (not room[1] or near[0] < near[1]) else 1
    return side


def _diamond(x: float, y: float) -> list[Stroke]:
    """The four strokes that join the midpoints of the sides of a cell."""
    return [
        (x + 0.5, y, x + 1, y + 0.5), (x + 1, y + 0.5, x + 0.5, y + 1),
        (x + 0.5, y + 1, x, y + 0.5), (x, y + 0.5, x + 0.5, y),
    ]  # fmt: skip


_DOG: list[Stroke] = [
    (0, 3, 0, 4), (0, 3, 1, 3), (0, 3.5, 0.5, 3),                    # snout and nose
    (1, 3, 2, 2), (2, 2, 4, 2), (2, 2.5, 2.5, 3),                    # brow, crown, eye
    (0, 4, 2, 4), (0.5, 4, 1, 3.5), (2, 4, 3, 5),                    # jaw, mouth, throat
    (4, 2, 4.5, 3), (4.5, 3, 5, 4), (5, 4, 8, 4),                    # nape and back
    (3, 5, 3, 8), (2, 8, 4, 8), (4, 8, 4, 6), (4, 6, 7, 6),          # fore leg, paw, belly
    (7, 6, 7, 8), (6, 8, 8, 8), (8, 8, 8, 4),                        # hind leg, paw, rump
]  # fmt: skip
_ALERT: list[Stroke] = [
    (2, 2, 2.5, 1), (2.5, 1, 3, 2), (3, 2, 3.5, 1), (3.5, 1, 4, 2),  # pricked ears
    (8, 4, 8.5, 3), (8.5, 3, 8.5, 2), (8.5, 2, 8, 1), (8, 1, 7.5, 0),  # tail up
    (5.5, 4, 5.5, 5), (6.5, 4, 6.5, 5), (7.5, 4, 7.5, 5),            # stripes
    (3, 5, 4, 4),                                                    # collar
]  # fmt: skip
_GENTLE: list[Stroke] = [
    (3, 2, 2.5, 3), (2.5, 3, 3, 4), (3, 4, 4, 3), (4, 3, 4, 2),      # hanging ear
    (8, 4, 8.5, 5), (8.5, 5, 8.5, 7),                                # tail down
    (0, 4, 0.5, 5), (0.5, 5, 1, 4),                                  # tongue
    *_diamond(5, 4), *_diamond(6, 4),                                # spots
]  # fmt: skip
