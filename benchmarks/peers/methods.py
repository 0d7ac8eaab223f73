"""The methods that are compared: ours and the peers, each as a function of prepared rows.

A peer takes part where it is installed: ``pip install 'bitmix[peers]'``, and pomegranate by hand.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix import BitMatrix, TemplateMixture, TwoRoundEM

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Method:
    """One program: the module it needs, how its data are laid out, and how it is called."""

    name: str
    module: str
    prepare: Callable[[BitMatrix], Any]
    """From packed rows to the rows as the method needs them; this is not timed."""
    run: Callable[[Any, int, int], Any]
    """From prepared rows, k and a seed to a result; this is timed."""
    labels: Callable[[Any], Labels] | None
    """From the result to the cluster of each row; None if the method has no k clusters."""
    ours: bool = False

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None


def _packed(X: BitMatrix) -> BitMatrix:
    return X


def _float32(X: BitMatrix) -> NDArray[np.float32]:
    return X.to_dense(np.float32)


def _bytes(X: BitMatrix) -> NDArray[np.uint8]:
    return X.to_dense(np.uint8)


def _packed_bytes(X: BitMatrix) -> NDArray[np.uint8]:
    """Packed as by NumPy, highest bit first."""
    return np.packbits(X.to_dense(np.uint8), axis=1)


def _template_mixture(X: BitMatrix, k: int, seed: int) -> Any:
    return TemplateMixture(k, random_state=seed).fit(X)


def _two_round(X: BitMatrix, k: int, seed: int) -> Any:
    return TwoRoundEM(k, random_state=seed).fit(X)


def _k_means(X: Any, k: int, seed: int) -> Any:
    from sklearn.cluster import KMeans

    return KMeans(k, n_init=1, random_state=seed).fit(X)


def _mini_batch(X: Any, k: int, seed: int) -> Any:
    from sklearn.cluster import MiniBatchKMeans

    return MiniBatchKMeans(k, n_init=1, random_state=seed).fit(X)


def _step_mix(X: Any, k: int, seed: int) -> Any:
    from stepmix.stepmix import StepMix

    model = StepMix(
        k, measurement="binary", n_init=1, random_state=seed, verbose=0, progress_bar=0
    ).fit(X)
    return model.predict(X)


def _k_modes(X: Any, k: int, seed: int) -> Any:
    from kmodes.kmodes import KModes

    return KModes(k, n_init=1, random_state=seed).fit(X)


def _bblean(X: Any, k: int, seed: int) -> Any:
    from bblean import BitBirch

    return BitBirch().fit(X)


def _pomegranate(X: Any, k: int, seed: int) -> Any:
    import torch
    from pomegranate.distributions import Bernoulli
    from pomegranate.gmm import GeneralMixtureModel

    torch.manual_seed(seed)
    model = GeneralMixtureModel([Bernoulli() for _ in range(k)], max_iter=20)
    rows = torch.from_numpy(X)
    return model.fit(rows).predict(rows).numpy()


def _faiss(X: Any, k: int, seed: int) -> Any:
    """Not a fit: the cost of assigning every row to the nearest of k rows."""
    import faiss

    index = faiss.IndexBinaryFlat(8 * X.shape[1])
    index.add(X[:k])
    return index.search(X, 1)


def _labels(model: Any) -> Labels:
    return np.asarray(model.labels_, dtype=np.int64)


METHODS = (
    Method("TemplateMixture", "bitmix", _packed, _template_mixture, None, ours=True),
    Method("TwoRoundEM", "bitmix", _packed, _two_round, None, ours=True),
    Method("MiniBatchKMeans", "sklearn", _float32, _mini_batch, _labels),
    Method("KMeans(n_init=1)", "sklearn", _float32, _k_means, _labels),
    Method("StepMix(n_init=1)", "stepmix", _bytes, _step_mix, np.asarray),
    Method("KModes(n_init=1)", "kmodes", _bytes, _k_modes, _labels),
    Method("bblean", "bblean", _packed_bytes, _bblean, None),
    Method("pomegranate", "pomegranate", _float32, _pomegranate, np.asarray),
    Method("faiss, assignment", "faiss", _packed_bytes, _faiss, None),
)
