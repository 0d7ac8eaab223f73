"""Past memory: rows in files, in pieces, and fits that go on after a kill."""

import os
import pickle
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from bitmix import BitMatrix, ClassicEM, TemplateMixture, TwoRoundEM
from bitmix.datasets import make_templates, sample_mixture
from bitmix.em import checkpoint as checkpoints
from bitmix.errors import FileFormatError, InputError
from bitmix.rows import bitfile


@pytest.fixture(autouse=True)
def keep_every_pass(monkeypatch):
    """Passes over a few thousand rows are too short to be kept otherwise."""
    monkeypatch.setattr(checkpoints, "_WORTH", 0)


def planted(m=3000, n=150, k=3, noise=0.1):
    truth = make_templates(k, n, separation=0.3, random_state=0)
    return sample_mixture(truth, [1 / k] * k, noise, m, random_state=1)[0]


ESTIMATORS = [
    TwoRoundEM(3, random_state=0),
    TwoRoundEM(3, rounds=5, n_init=2, random_state=1),
    ClassicEM(3, n_init=2, max_iter=6, random_state=0),
    TemplateMixture(3, random_state=0),
    TemplateMixture(3, round_one_rows=500, random_state=0),
    TemplateMixture(3, noise_model="cell", n_init=1, round_one_rows=500, random_state=2),
]


def same(a, b):
    """To the last bit."""
    return (
        a.means_.tobytes() == b.means_.tobytes()
        and a.weights_.tobytes() == b.weights_.tobytes()
        and np.array_equal(a.templates_, b.templates_)
        and np.array_equal(a.noise_, b.noise_)
        and [r.log_likelihood for r in a.history_] == [r.log_likelihood for r in b.history_]
    )


@pytest.fixture
def stored(tmp_path):
    X = planted()
    X.save(tmp_path / "x.bits")
    return X, BitMatrix.open(tmp_path / "x.bits")


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_a_fit_from_disk_has_the_same_bits(stored, model):
    X, on_disk = stored
    assert on_disk.file is not None
    assert X.file is None
    here, there = model.fit(X), pickle.loads(pickle.dumps(model)).fit(on_disk)
    assert same(here, there)
    assert np.array_equal(here.predict(X), there.predict(on_disk))


def test_rows_on_disk_behave_as_those_in_memory(stored):
    X, on_disk = stored
    assert on_disk == X
    assert on_disk.density == X.density
    assert on_disk[5:9] == X[5:9]
    assert on_disk[::-7] == X[::-7]
    assert on_disk[[4, 1, -1, 4]] == X[[4, 1, -1, 4]]
    assert np.array_equal(on_disk[17], X[17])
    mask = np.arange(len(X)) % 3 == 0
    assert on_disk[mask] == X[mask]
    again = pickle.loads(pickle.dumps(on_disk))
    assert again.file is not None
    assert again == X
    with pytest.raises(IndexError, match="3,000 rows"):
        on_disk[[3000]]
    with pytest.raises(IndexError, match="mask"):
        on_disk[mask[:-1]]


def test_names_of_columns_stay_with_the_bits(tmp_path):
    table = pd.DataFrame(planted(200, 5, 2).to_dense(), columns=list("vwxyz"))
    X = BitMatrix.from_dense(table)
    X[3:].save(tmp_path / "named.bits")
    named = BitMatrix.open(tmp_path / "named.bits")
    assert named.feature_names == tuple("vwxyz")
    model = TemplateMixture(2, random_state=0).fit(named)
    assert model.feature_names_in_.tolist() == list("vwxyz")
    assert len(model.predict(table)) == 200
    assert len(model.predict(BitMatrix(X.words, 5))) == 200  # bits without names are believed
    with pytest.raises(InputError, match="column 0 was 'v', now 'w'"):
        model.predict(BitMatrix.from_dense(table[list("wvxyz")]))
    with pytest.raises(InputError, match="expecting 5 features"):
        model.predict(BitMatrix.from_dense(table[list("vwxy")]))
    model.fit(BitMatrix(X.words, 5))
    assert not hasattr(model, "feature_names_in_")


def test_a_file_that_shrinks_in_mid_fit_is_an_error(tmp_path):
    planted(20_000, 640).save(tmp_path / "x.bits")
    X = BitMatrix.open(tmp_path / "x.bits")
    os.truncate(tmp_path / "x.bits", 400_000)
    with pytest.raises(FileFormatError, match=r"x\.bits was cut short while it was read"):
        TwoRoundEM(3, random_state=0).fit(X)
    with pytest.raises(FileFormatError, match="should be"):
        BitMatrix.open(tmp_path / "x.bits")


def test_a_file_that_vanishes_in_mid_fit_is_read_to_the_end(tmp_path):
    X = planted()
    X.save(tmp_path / "x.bits")
    on_disk = BitMatrix.open(tmp_path / "x.bits")
    os.unlink(tmp_path / "x.bits")  # the system keeps what is open
    assert same(TwoRoundEM(3, random_state=0).fit(on_disk), TwoRoundEM(3, random_state=0).fit(X))


def test_damage_of_a_large_file_is_found_where_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("bitmix.rows.bitfile._SMALL", 0)
    planted(500, 70).save(tmp_path / "x.bits")
    with (tmp_path / "x.bits").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    with pytest.raises(FileFormatError, match=r"bits are set past its last column \(69\)"):
        TwoRoundEM(3, n_seeds=9, random_state=0).fit(BitMatrix.open(tmp_path / "x.bits"))


@pytest.mark.parametrize("hurt", [
    lambda h: h.replace(b'["a", "b"]', b'["a", "a", "b"]'[:10].ljust(10)),
    lambda h: h.replace(b'["a", "b"]', b'["a", 123]'),
    lambda h: h.replace(b'"names"', b'"about"'),
])  # fmt: skip
def test_damaged_names_are_refused(tmp_path, hurt):
    X = BitMatrix.from_dense(pd.DataFrame({"a": [0, 1], "b": [1, 1]}))
    X.save(tmp_path / "x.bits")
    before = (tmp_path / "x.bits").read_bytes()
    assert hurt(before) != before
    (tmp_path / "x.bits").write_bytes(hurt(before))
    with pytest.raises(FileFormatError, match="damaged"):
        BitMatrix.open(tmp_path / "x.bits")


def pieces_of(X, rng):
    """All rows in pieces of any size and order."""
    cuts = np.sort(rng.choice(np.arange(1, len(X)), size=rng.integers(0, 8), replace=False))
    parts = [X[a:b] for a, b in zip([0, *cuts], [*cuts, len(X)], strict=True)]
    return [parts[i] for i in rng.permutation(len(parts))]


def shown(model, X, rounds, rng, seeds=None):
    for number in range(rounds):
        for piece in pieces_of(X, rng):
            model.partial_fit(piece, seeds=seeds if number == 0 else None)
            seeds = None
        model.finish_round()
    return model


@pytest.mark.parametrize("rounds", [2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_pieces_in_any_order_and_size_give_the_bits_of_a_fit(seed, rounds):
    X, rng = planted(noise=0.25), np.random.default_rng(seed)
    seeds = X[rng.choice(len(X), 40, replace=False)]
    whole = TwoRoundEM(3, rounds=rounds, random_state=seed).fit(X, seeds=seeds)
    assert len(whole.history_) == rounds
    by_pieces = shown(TwoRoundEM(3, random_state=seed), X, rounds, rng, seeds)
    assert same(whole, by_pieces)
    assert by_pieces.n_seeds_ == 40


@pytest.mark.parametrize("seed", range(3))
def test_classic_em_in_pieces(seed):
    X, rng = planted(), np.random.default_rng(seed)
    model = ClassicEM(3, max_iter=3, init=X[:3].to_dense(), random_state=0)
    whole = pickle.loads(pickle.dumps(model)).fit(X)
    assert same(whole, shown(model, X, whole.n_iter_, rng))


@pytest.mark.parametrize("noise_model", ["shared", "component", "feature", "cell"])
def test_template_mixture_in_pieces_is_its_step_on_all_rows(noise_model):
    """`fit` with a sample is: find the templates in the sample, one step on all rows."""
    X, rng = planted(), np.random.default_rng(0)
    model = TemplateMixture(3, noise_model=noise_model, n_init=1, random_state=0)
    model.fit(X[:800])
    ends = [shown(pickle.loads(pickle.dumps(model)), X, 1, rng) for _ in range(4)]
    assert all(same(ends[0], end) for end in ends[1:])
    assert len(ends[0].history_) == len(model.history_) + 1
    fresh = TemplateMixture(3, noise_model=noise_model, n_init=1, random_state=0)
    fresh.partial_fit(X[:800]).partial_fit(X[800:]).finish_round()
    assert same(fresh, ends[0])


def test_pieces_with_missing_cells_add_up():
    dense = planted().to_dense(np.float64)
    dense[np.random.default_rng(0).random(dense.shape) < 0.1] = np.nan
    dense[1000:2000] = np.nan_to_num(dense[1000:2000])  # a piece without any
    model = TemplateMixture(3, random_state=0).fit(dense[:1000])
    one, three = pickle.loads(pickle.dumps(model)), model
    one.partial_fit(dense).finish_round()
    for piece in (dense[1000:2000], dense[2000:], dense[:1000]):
        three.partial_fit(piece)
    assert same(one, three.finish_round())


def test_a_fitted_model_goes_on_with_new_pieces():
    X = planted()
    model = TwoRoundEM(3, random_state=0).fit(X)
    model.partial_fit(X[:1500]).partial_fit(X[1500:]).finish_round()
    assert np.array_equal(
        model.templates_, TwoRoundEM(3, rounds=3, random_state=0).fit(X).templates_
    )
    assert len(model.history_) == 3


def test_a_short_pass_is_not_worth_keeping(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_WORTH", 60)
    X, path = planted(), tmp_path / "c"
    model = TwoRoundEM(3, random_state=0).fit(X, checkpoint=path)
    assert path.stat().st_size < 2000
    assert same(model, TwoRoundEM(3, random_state=0).fit(X, checkpoint=path))


def test_until_a_round_is_finished_nothing_is_fitted():
    X = planted(400)
    model = TwoRoundEM(3, n_seeds=20, random_state=0).partial_fit(X)
    for _ in range(2):
        with pytest.raises(NotFittedError):
            model.predict(X)
        model.finish_round().partial_fit(X)
    assert len(model.predict(X)) == 400


def test_a_refused_piece_leaves_a_model_as_it_was():
    X = planted(400)
    model = TwoRoundEM(3, n_seeds=20, random_state=0).fit(X)
    with pytest.raises(InputError, match="columns"):
        model.partial_fit(np.zeros((4, 12)), seeds=np.zeros((3, 11)))
    assert len(model.predict(X)) == 400


def test_many_names_of_columns(tmp_path):
    names = [f"a rather long name of column number {i}" for i in range(1_700_000)]
    with bitfile.writing(tmp_path / "wide.bits", len(names), names) as writer:
        writer.append(np.zeros((1, -(-len(names) // 64)), dtype=np.uint64))
    assert BitMatrix.open(tmp_path / "wide.bits").feature_names == tuple(names)


def test_wrong_use_of_pieces():
    X = planted(400)
    model = TwoRoundEM(3, n_seeds=20, random_state=0)
    with pytest.raises(InputError, match="call partial_fit first"):
        model.finish_round()
    model.partial_fit(X[:200])
    with pytest.raises(ValueError, match="expecting 150 features"):
        model.partial_fit(np.zeros((2, 3)))
    with pytest.raises(InputError, match="first piece only"):
        model.partial_fit(X[200:], seeds=X[:20])
    with pytest.raises(InputError, match="call partial_fit first"):
        model.finish_round().finish_round()
    with pytest.raises(InputError, match="at least n_components"):
        TwoRoundEM(3).partial_fit(X, seeds=X[:2])
    with pytest.raises(InputError, match="seeds are for TwoRoundEM"):
        TemplateMixture(3).partial_fit(X, seeds=X[:3])


class Killed(BaseException):
    """Stands for a SIGKILL: nothing of ours catches it."""


def passes_until(monkeypatch, number):
    """Let so many passes be kept, then die."""
    keep, left = checkpoints.Checkpoint.keep, [number]

    def dying(self, key, value):
        if not left[0]:
            raise Killed
        left[0] -= 1
        keep(self, key, value)

    monkeypatch.setattr(checkpoints.Checkpoint, "keep", dying)
    return lambda: monkeypatch.setattr(checkpoints.Checkpoint, "keep", keep)


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_a_killed_fit_goes_on_with_the_same_bits(tmp_path, monkeypatch, model):
    X = planted()
    undisturbed = pickle.loads(pickle.dumps(model)).fit(X)
    path = tmp_path / "fit.checkpoint"
    for number in range(3):
        restore = passes_until(monkeypatch, 1)
        try:
            model.fit(X, checkpoint=path)
        except Killed:
            assert number < 2 or "500" not in str(model)
        restore()
    assert same(undisturbed, model.fit(X, checkpoint=path))


def test_what_a_checkpoint_has_is_not_summed_again(tmp_path, monkeypatch):
    X = planted()
    model = TwoRoundEM(3, rounds=4, random_state=0).fit(X, checkpoint=tmp_path / "c")
    monkeypatch.setattr(BitMatrix, "map_reduce", None)
    assert same(model, TwoRoundEM(3, rounds=4, random_state=0).fit(X, checkpoint=tmp_path / "c"))


def test_a_record_that_was_cut_short_is_dropped(tmp_path):
    X, path = planted(), tmp_path / "c"
    whole = TwoRoundEM(3, random_state=0).fit(X, checkpoint=path)
    size = path.stat().st_size
    for cut in random.Random(0).sample(range(size), 25):
        kept = path.read_bytes()
        os.truncate(path, cut)
        assert same(whole, TwoRoundEM(3, random_state=0).fit(X, checkpoint=path))
        assert path.read_bytes() == kept


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    X, path = planted(), tmp_path / "c"
    TwoRoundEM(3, random_state=0).fit(X, checkpoint=path)
    kept = path.read_bytes()
    other = X.to_dense()
    other[2999, 149] ^= 1
    for model, rows, text in [
        (TwoRoundEM(3, random_state=0), other, "its data was"),
        (TwoRoundEM(3, random_state=1), X, "its seed was 0, now 1"),
        (TwoRoundEM(4, random_state=0), X, "its n_components was '3', now '4'"),
        (ClassicEM(3, random_state=0), X, "its estimator was 'TwoRoundEM'"),
    ]:
        with pytest.raises(InputError, match=f"checkpoint of another fit: {text}"):
            model.fit(rows, checkpoint=path)
    with pytest.raises(InputError, match="its seeds was"):
        TwoRoundEM(3, random_state=0).fit(X, seeds=X[:9], checkpoint=path)
    assert path.read_bytes() == kept
    (tmp_path / "photo.png").write_bytes(b"\x89PNG and so on")
    with pytest.raises(FileFormatError, match="not a bitmix checkpoint"):
        TwoRoundEM(3, random_state=0).fit(X, checkpoint=tmp_path / "photo.png")
    assert (tmp_path / "photo.png").read_bytes() == b"\x89PNG and so on"
    with pytest.raises(FileExistsError, match="is no file"):
        TwoRoundEM(3, random_state=0).fit(X, checkpoint=tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        TwoRoundEM(3, random_state=0).fit(X, checkpoint=tmp_path / "no" / "c")


def test_a_fit_without_a_seed_goes_on_with_the_one_it_began_with(tmp_path):
    X = planted()
    first = TwoRoundEM(3).fit(X, checkpoint=tmp_path / "c")
    again = TwoRoundEM(3).fit(X, checkpoint=tmp_path / "c")
    assert again.seed_ == first.seed_
    assert same(first, again)


def test_two_fits_cannot_share_a_checkpoint(tmp_path):
    X = planted()
    with (
        checkpoints.Checkpoint(tmp_path / "c", {"seed": 0}),
        pytest.raises(InputError, match="in use by another fit"),
    ):
        TwoRoundEM(3, random_state=0).fit(X, checkpoint=tmp_path / "c")


def test_a_hostile_checkpoint_is_refused(tmp_path):
    X, path = planted(), tmp_path / "c"
    TwoRoundEM(3, random_state=0).fit(X, checkpoint=path)
    with path.open("rb") as file:
        file.seek(len(checkpoints.MAGIC))
        header_length = int.from_bytes(file.read(8), "little")
    start = path.read_bytes()[: len(checkpoints.MAGIC) + 40 + header_length]
    key = checkpoints._skeleton(path.read_bytes()[len(start) + 40 :])["key"]
    for value in (
        {"shape": [-1]}, {"shape": [1 << 60]}, {"kind": "system", "fields": []},
        {"kind": "Statistics", "fields": [None]}, {"whole": "none"}, {"shape": "ab"}, 7,
    ):  # fmt: skip
        skeleton = checkpoints.json.dumps({"key": key, "value": value}).encode()
        record = checkpoints._record(len(skeleton).to_bytes(8, "little") + skeleton + b"\0" * 64)
        path.write_bytes(start + record)
        with pytest.raises(FileFormatError, match="is damaged: remove it"):
            TwoRoundEM(3, random_state=0).fit(X, checkpoint=path)


KILLED = """
import sys, numpy as np
from bitmix import BitMatrix, TwoRoundEM
from bitmix.em import checkpoint
checkpoint._SECONDS = checkpoint._WORTH = 0
print("fitting", flush=True)
model = TwoRoundEM(3, rounds=12, n_init=4, random_state=0)
model.fit(BitMatrix.open(sys.argv[1]), checkpoint=sys.argv[2])
print(model.means_.tobytes().hex())
"""


def test_sigkill_at_any_moment_then_the_same_bits(tmp_path):
    X = planted(60_000, 256, noise=0.3)
    X.save(tmp_path / "x.bits")
    want = TwoRoundEM(3, rounds=12, n_init=4, random_state=0).fit(X).means_.tobytes().hex()
    rng, path, killed = random.Random(0), tmp_path / "c", 0
    command = [sys.executable, "-c", KILLED, str(tmp_path / "x.bits"), str(path)]
    for _ in range(6):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "fitting\n"
        time.sleep(rng.uniform(0.05, 0.5))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert killed >= 1
    assert done.split()[-1] == want
