"""Hash 200 fits, to see whether a change of the code changed a bit of any result.

    python benchmarks/same_bits.py before.json     # with the code as it was
    python benchmarks/same_bits.py after.json      # with the code as it is
    python benchmarks/same_bits.py --compare before.json after.json

The fits go over estimators, noise models, back ends, containers of the same rows, weights and
missing cells. Containers and back ends must not matter, so the file names one hash per problem and
the script fails by itself where two containers or back ends disagree.
"""

import hashlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bitmix import BitMatrix, ClassicEM, TemplateMixture, TwoRoundEM
from bitmix.datasets import make_templates, sample_mixture

BACKENDS = ("reference", "compiled")
NOISE_MODELS = ("shared", "component", "feature", "cell")


def rows_of(seed: int, k: int, n: int, m: int, noise: float) -> np.ndarray:
    truth = make_templates(k, n, separation=0.25, random_state=seed)
    return sample_mixture(truth, np.full(k, 1 / k), noise, m, seed + 1)[0].to_dense()


def containers(X: np.ndarray, folder: Path) -> Iterator[tuple[str, Any]]:
    import dask.array as da

    yield "array", X
    yield "bool", X.astype(bool)
    yield "sparse", scipy.sparse.csr_matrix(X)
    yield "packed", BitMatrix.from_dense(X)
    path = folder / "rows.bits"
    BitMatrix.from_dense(X).save(path)
    yield "file", BitMatrix.open(path)
    yield "dask", da.from_array(X, chunks=(max(1, len(X) // 3), X.shape[1]))


def estimators(k: int, seed: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "two-round", lambda: TwoRoundEM(k, random_state=seed)
    yield "ten rounds", lambda: TwoRoundEM(k, rounds=10, n_seeds=6 * k, random_state=seed)
    yield "classic", lambda: ClassicEM(k, n_init=3, random_state=seed)
    for model in NOISE_MODELS:
        yield model, lambda model=model: TemplateMixture(k, noise_model=model, random_state=seed)


def hash_of(model: Any) -> str:
    digest = hashlib.sha256()
    for value in (model.templates_, model.means_, model.weights_, model.noise_):
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]


def problems() -> Iterator[tuple[str, np.ndarray, int, dict[str, Any]]]:
    """Name, rows, k and further arguments of `fit`, which only `TemplateMixture` takes."""
    yield "easy", rows_of(0, 3, 200, 400, 0.1), 3, {}
    yield "hard", rows_of(1, 4, 70, 300, 0.3), 4, {}
    yield "narrow", rows_of(2, 2, 13, 200, 0.2), 2, {}
    yield "many rows", rows_of(3, 5, 64, 9000, 0.2), 5, {}
    rng = np.random.default_rng(4)
    yield "sparse", (rng.random((300, 500)) < rng.random(500) ** 4).astype(np.uint8), 6, {}
    X = rows_of(5, 3, 90, 250, 0.2).astype(float)
    yield "weights", X, 3, {"sample_weight": rng.integers(0, 5, len(X))}
    X = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    yield "missing", X, 3, {}
    yield "both", X, 3, {"sample_weight": rng.random(len(X))}


def fits() -> Iterator[tuple[str, str, str]]:
    """Problem and estimator; container and back end; hash."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (problem, X, k, extra) in enumerate(problems()):
            plain = not extra and not np.isnan(X).any()
            for name, make in estimators(k, number):
                if not plain and name not in NOISE_MODELS:
                    continue
                cases = list(containers(X, Path(folder))) if plain else [("array", X)]
                for place, (container, rows) in enumerate(cases):
                    backends = BACKENDS if place == 0 else BACKENDS[place % 2 :][:1]
                    for backend in backends:
                        os.environ["BITMIX_KERNELS"] = backend
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            model = make().fit(rows, **extra)
                        yield f"{problem}, {name}", f"{container}, {backend}", hash_of(model)


def main() -> None:
    if sys.argv[1] == "--compare":
        before, after = (json.loads(Path(path).read_text()) for path in sys.argv[2:4])
        changed = [key for key in before | after if before.get(key) != after.get(key)]
        print(f"{len(before)} problems, {len(changed)} changed")
        print(*changed, sep="\n")
        sys.exit(bool(changed))
    hashes: dict[str, str] = {}
    count = 0
    for key, how, value in fits():
        count += 1
        if hashes.setdefault(key, value) != value:
            sys.exit(f"{key}: {how} gives other bits than the first")
    Path(sys.argv[1]).write_text(json.dumps(hashes, indent=1))
    print(f"{count} fits, {len(hashes)} problems, containers and back ends agree: {sys.argv[1]}")


if __name__ == "__main__":
    main()
