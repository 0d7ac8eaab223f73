"""Sketches: the right strokes from images of every kind, and pictures back from bits."""

import os
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from bitmix import TwoRoundEM
from bitmix.datasets import sample_mixture, sketch_dogs
from bitmix.errors import ImageError, InputError
from bitmix.features import Alphabet, GaborSketch, load_image_folder
from bitmix.features.alphabet import PATTERNS
from bitmix.features.images import read_grey
from bitmix.metrics import conditional_entropy, conditional_purity, templates_recovered

BESIDE = Path(__file__).parents[2] / "shared" / "data" / "six_class_15"
SIX = Path(os.environ.get("BITMIX_SIX_CLASSES", BESIDE))


# --- the alphabet ---------------------------------------------------------------------------


def test_the_alphabet_has_its_18_patterns():
    length = [np.hypot(x1 - x0, y1 - y0) for x0, y0, x1, y1 in PATTERNS]
    assert len(set(PATTERNS)) == 18
    assert sum(np.isclose(length, np.sqrt(2))) == 2  # diagonals
    assert sum(np.isclose(length, np.sqrt(1.25))) == 8  # corner to far side
    assert sum(np.isclose(length, np.sqrt(0.5))) == 4  # neighbouring mid-points
    assert sum(np.isclose(length, 1)) == 2 + 2  # opposite mid-points, and the two sides
    assert Alphabet().n_features == 1458


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_encode_and_decode_are_inverse(rows, columns, seed):
    alphabet = Alphabet(rows, columns)
    bits = (np.random.default_rng(seed).random(alphabet.n_features) < 0.1).astype(np.uint8)
    strokes = alphabet.decode(bits)
    assert len(strokes) == bits.sum()
    np.testing.assert_array_equal(alphabet.encode(strokes), bits)
    backwards = [(x1, y1, x0, y0) for x0, y0, x1, y1 in strokes]
    np.testing.assert_array_equal(alphabet.encode(backwards), bits)


def test_runs_are_cut_into_patterns():
    alphabet = Alphabet()
    assert alphabet.encode([(0, 0, 5, 0)]).sum() == 5
    assert alphabet.encode([(2, 7, 2, 3)]).sum() == 4
    assert alphabet.encode([(0, 0, 3, 3)]).sum() == 3
    assert alphabet.encode([(0, 0.5, 4, 0.5)]).sum() == 4


@pytest.mark.parametrize(
    "stroke", [(0, 9, 1, 9), (9, 0, 9, 1), (0, 0, 0.25, 1), (-1, 0, 0, 0), (0, 0, 0, 0)]
)
def test_strokes_outside_the_alphabet_are_named(stroke):
    with pytest.raises(InputError, match="no pattern of a 9×9 grid"):
        Alphabet().encode([stroke])


def test_strokes_are_drawn_where_they_are():
    image = Alphabet(2, 2).draw(Alphabet(2, 2).encode([(0, 0, 2, 0), (1, 1, 2, 2)]), resolution=4)
    assert image.shape == (9, 9)
    assert image[0].all()
    assert image[[4, 5, 6, 7, 8], [4, 5, 6, 7, 8]].all()
    assert image.sum() == 9 + 5


def test_dogs_differ_in_29_bits_and_are_found():
    dogs = sketch_dogs()
    assert dogs.shape == (2, 1458)
    assert (dogs[0] != dogs[1]).sum() == 29
    X, _ = sample_mixture(dogs, [0.6, 0.4], 0.1, 500, 0)
    model = TwoRoundEM(2, n_init=5, rounds=10, random_state=0).fit(X)
    assert templates_recovered(model.templates_, dogs)


# --- Gabor sketches -------------------------------------------------------------------------


def bar(angle: float, size: int = 120) -> np.ndarray:
    """A dark bar through the middle at this angle (radians, y downwards)."""
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    away = -x * np.sin(angle) + y * np.cos(angle)
    return 1 - np.exp(-((away / 2) ** 2))


@pytest.mark.parametrize("n_orientations", [8, 16])
@pytest.mark.parametrize("detector", ["contour", "threshold"])
def test_a_bar_is_seen_at_its_orientation(n_orientations, detector):
    sketch = GaborSketch(n_orientations=n_orientations, detector=detector, density=0.004).fit()
    for o in range(n_orientations):
        bits = sketch.transform([bar(np.pi * o / n_orientations)]).to_dense()[0]
        counts = bits.reshape(-1, n_orientations).sum(axis=0)
        assert counts[o] == counts.max()
        across = (o + n_orientations // 2) % n_orientations
        assert counts[across] < counts[o] / 4


def test_bars_are_drawn_at_their_place():
    sketch = GaborSketch(detector="threshold", density=0.01).fit()
    bits = sketch.transform([bar(0.0)]).to_dense()[0]
    segments = sketch.geometry_.segments(bits)
    assert len(segments) == bits.sum()
    flat = segments[np.isclose(segments[:, 1], segments[:, 3])]
    assert len(flat) > 10
    assert np.abs(flat[:, 1] - 60).max() <= 6  # at the middle row
    names = sketch.get_feature_names_out()
    assert len(names) == bits.size
    assert names[16 * 20 + 16 * 2 + 3] == "r1c2o3"


@pytest.mark.parametrize(("cell", "shape"), [(5, (24, 24)), (6, (20, 20)), (7, (17, 17))])
def test_cells_of_the_paper(cell, shape):
    sketch = GaborSketch(cell_size=cell, n_orientations=8).fit()
    assert (sketch.geometry_.rows, sketch.geometry_.columns) == shape
    assert sketch.transform([bar(0.3)]).shape == (1, shape[0] * shape[1] * 8)


def test_thresholds():
    image = bar(0.4)
    absolute = GaborSketch(detector="threshold", normalize=None, threshold=0.05).fit()
    faint = absolute.transform([image, 0.3 * image]).to_dense().sum(axis=1)
    assert faint[0] > faint[1]
    relative = (
        GaborSketch(detector="threshold", threshold=2.0).fit().transform([image, 0.3 * image])
    )
    np.testing.assert_array_equal(relative[0], relative[1])
    share = GaborSketch(detector="threshold", density=0.1).fit().transform([image])
    assert share.density == pytest.approx(0.1, abs=0.001)
    assert GaborSketch().fit().transform([np.full((50, 50), 0.5)]).density < 0.01  # nothing there


def test_drawing_undoes_the_neighbours():
    geometry = GaborSketch().fit().geometry_
    one = np.zeros((20, 20, 16), dtype=bool)
    one[7, 8, 0] = True
    from bitmix.features.gabor import dilated

    spread = dilated(one)
    assert spread.sum() == 27
    np.testing.assert_array_equal(geometry.intensities(spread).reshape(one.shape) > 0, one)


def test_transformer_manners(tmp_path):
    images = [bar(angle) for angle in (0.0, 0.1, 1.5, 1.6, 0.05, 1.55, 0.02, 1.52)]
    sketch = GaborSketch(cell_size=7, n_jobs=2)
    assert clone(sketch).get_params() == sketch.get_params()
    one = GaborSketch(n_jobs=1).fit().transform(images)
    assert one == GaborSketch(n_jobs=3).fit_transform(images)
    assert one == GaborSketch().fit().transform(np.array(images))
    for i, image in enumerate(images):
        Image.fromarray((255 * image).astype(np.uint8)).save(tmp_path / f"{i}.png")
    few = GaborSketch(density=0.003).fit()  # a bar has few strokes, the rest would be rounding
    files = few.transform([tmp_path / f"{i}.png" for i in range(8)])
    assert files == few.transform(tmp_path)
    assert (files.to_dense() != few.transform(images).to_dense()).mean() < 0.02  # 8-bit grey
    labels = (
        make_pipeline(GaborSketch(), TwoRoundEM(2, n_seeds=4, random_state=0))
        .fit(images)
        .predict(images)
    )
    assert conditional_purity([0, 0, 1, 1, 0, 1, 0, 1], labels) == 1


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"shape": 5}, "shape must be"),
        ({"shape": (4, 4)}, "must hold a cell of 6 pixels"),
        ({"cell_size": 0}, "cell_size"),
        ({"n_orientations": 1}, "n_orientations"),
        ({"detector": "magic"}, "detector"),
        ({"threshold": -1}, "threshold"),
        ({"density": 1.5}, "density"),
        ({"normalize": 0}, "normalize"),
        ({"wavelength": 1}, "wavelength"),
        ({"on_error": "ignore"}, "on_error"),
    ],
)
def test_bad_parameters_are_named(params, words):
    with pytest.raises(InputError, match=words):
        GaborSketch(**params).fit()


# --- reading images -------------------------------------------------------------------------


def ramp(mode: str) -> Image.Image:
    """Dark left, light right."""
    grey = np.tile(np.linspace(0, 255, 40).astype(np.uint8), (30, 1))
    return Image.fromarray(grey).convert(mode)


@pytest.mark.parametrize("mode", ["L", "RGB", "P", "CMYK", "1"])
def test_modes_are_read_alike(tmp_path, mode):
    path = tmp_path / ("x.tif" if mode == "CMYK" else "x.png")
    ramp(mode).save(path)
    grey = read_grey(path, (30, 40))
    assert grey.dtype == np.float32
    assert grey[:, 0].max() < 0.1
    assert grey[:, -1].min() > 0.9


def test_16_bit_keeps_its_range(tmp_path):
    deep = np.tile(np.linspace(0, 65535, 40).astype(np.uint16), (30, 1))
    Image.fromarray(deep).save(tmp_path / "x.png")
    np.testing.assert_allclose(read_grey(tmp_path / "x.png", (30, 40)), deep / 65535, atol=0.01)


def test_alpha_is_laid_on_white(tmp_path):
    image = Image.new("RGBA", (20, 20), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 10, 20))
    image.save(tmp_path / "x.png")
    grey = read_grey(tmp_path / "x.png", (20, 20))
    assert grey[:, :8].max() < 0.1
    assert grey[:, 12:].min() > 0.9
    palette = image.convert("P")
    palette.info["transparency"] = palette.getpixel((15, 5))
    palette.save(tmp_path / "p.png", transparency=palette.getpixel((15, 5)))
    assert read_grey(tmp_path / "p.png", (20, 20))[:, 12:].min() > 0.9


def test_exif_orientation_is_obeyed(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned a quarter
    ramp("L").save(tmp_path / "x.jpg", exif=exif)
    grey = read_grey(tmp_path / "x.jpg", (40, 30))
    assert grey[0].max() < 0.15
    assert grey[-1].min() > 0.85


@pytest.mark.parametrize("kind", ["grey", "colour", "alpha", "deep"])
def test_an_array_is_read_as_the_same_image_in_a_file(tmp_path, kind):
    rng = np.random.default_rng(0)
    array = {
        "grey": rng.integers(60, size=(30, 40), dtype=np.uint8),
        "colour": rng.integers(60, size=(30, 40, 3), dtype=np.uint8),
        "alpha": rng.integers(256, size=(30, 40, 4), dtype=np.uint8),
        "deep": rng.integers(15_000, size=(30, 40), dtype=np.uint16),
    }[kind]
    Image.fromarray(array).save(tmp_path / "x.png")
    np.testing.assert_allclose(
        read_grey(array, (60, 80)), read_grey(tmp_path / "x.png", (60, 80)), atol=1e-3
    )


def test_arrays_of_every_kind():
    grey = np.tile(np.linspace(0, 1, 40), (30, 1))
    expected = read_grey(grey, (30, 40))
    np.testing.assert_allclose(expected, grey, atol=1e-6)
    for array in ((255 * grey).astype(np.uint8), np.stack([grey] * 3, axis=2), 1000 * grey):
        np.testing.assert_allclose(read_grey(array, (30, 40)), expected, atol=0.01)
    for wrong in (np.zeros(5), np.zeros((3, 3, 7)), np.array([["a"]]), np.full((5, 5), np.nan)):
        with pytest.raises(ImageError):
            read_grey(wrong, (5, 5))


def png_header(width: int, height: int) -> bytes:
    """The beginning of a PNG that claims this size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    size = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b"\0" * 100))


@pytest.fixture
def folder(tmp_path):
    """Two classes of bars, and what should not be read beside them."""
    for name, angle in (("flat", 0.0), ("steep", 1.5)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for i in range(6):
            bits = (255 * bar(angle + 0.02 * i)).astype(np.uint8)
            Image.fromarray(bits).save(tmp_path / "images" / name / f"{i}.png")
    (tmp_path / "images" / "notes.txt").write_text("beside the classes")
    (tmp_path / "images" / "flat" / ".hidden").write_text("not an image")
    return tmp_path / "images"


def test_folders(folder, tmp_path):
    images = load_image_folder(folder)
    assert len(images) == 12
    assert images.labels == ("flat",) * 6 + ("steep",) * 6
    assert images[0].name == "0.png"
    assert load_image_folder(folder / "flat").labels is None
    (tmp_path / "empty").mkdir()
    with pytest.raises(ImageError, match="empty holds no images"):
        load_image_folder(tmp_path / "empty")
    with pytest.raises(ImageError, match="must be a folder"):
        load_image_folder(folder / "notes.txt")


BROKEN = {
    "text.png": (b"this is no image", "text.png is not an image"),
    "cut.png": (None, "cut.png is not an image or is damaged"),
    "bomb.png": (png_header(30_000, 30_000), "bomb.png has more than 100,000,000 pixels"),
    "huge.png": (png_header(10_000, 10_001), "huge.png has 10,000×10,001 pixels"),
    "tiny.png": (None, "tiny.png has 3×3 pixels, at least 6 each way"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_images_are_named_or_skipped(folder, name):
    content, words = BROKEN[name]
    if name == "cut.png":
        content = (folder / "flat" / "0.png").read_bytes()
        content = content[: len(content) // 2]
    if name == "tiny.png":
        Image.new("L", (3, 3)).save(folder / "flat" / name)
    else:
        (folder / "flat" / name).write_bytes(content)
    with pytest.raises(ImageError, match=words):
        GaborSketch().fit().transform(folder)
    sketch = GaborSketch(on_error="skip").fit()
    assert len(sketch.transform(folder)) == 12
    assert len(sketch.kept_) == 12
    ((number, reason),) = sketch.skipped_
    assert load_image_folder(folder)[number].name == name
    assert name in reason


def test_sketching_leaves_the_callers_warnings_alone(folder):
    before = list(warnings.filters)
    GaborSketch(n_jobs=8).fit().transform([*load_image_folder(folder)] * 8)
    assert list(warnings.filters) == before


def test_rows_of_another_length_are_named():
    for geometry in (Alphabet(), GaborSketch().fit().geometry_):
        for draw in (geometry.segments, geometry.intensities):
            with pytest.raises(InputError, match=f"must have {geometry.n_features} bits, got 10"):
                draw(np.zeros(10))
    with pytest.raises(InputError, match="four finite numbers"):
        Alphabet().encode([(0, 0, float("nan"), 1)])


def test_nothing_readable_is_an_error(tmp_path):
    (tmp_path / "a.png").write_text("no")
    with pytest.raises(ImageError, match="none of 1 images"):
        GaborSketch(on_error="skip").fit().transform(tmp_path)
    for nothing in ([], 5, None):
        with pytest.raises(InputError, match="folder, files or image arrays"):
            GaborSketch().fit().transform(nothing)
    with pytest.raises(InputError, match="list of one"):
        GaborSketch().fit().transform(bar(0.0))
    with pytest.raises(ImageError, match="there is no image"):
        GaborSketch().fit().transform(["absent.png"])


# --- real images ----------------------------------------------------------------------------

VEHICLES, ANIMALS = ("motorcycle", "bicycle", "car"), ("cat", "wolf", "deer")
# least purity and largest entropy after two and ten rounds, means over seeds
FLOORS = {
    VEHICLES: ((0.97, 0.03), (0.97, 0.03)),
    ANIMALS: ((0.80, 0.39), (0.83, 0.34)),
    VEHICLES + ANIMALS: ((0.87, 0.28), (0.88, 0.26)),
}


@pytest.mark.skipif(not SIX.exists(), reason="the images are not beside the project")
@pytest.mark.filterwarnings("ignore::bitmix.errors.BitmixWarning")
@pytest.mark.parametrize(
    ("classes", "rounds", "seeds"),
    [(VEHICLES, 2, 20)]
    + [
        pytest.param(classes, rounds, 100, marks=pytest.mark.weekly)
        for classes in FLOORS
        for rounds in (2, 10)
    ],
    ids=str,
)
def test_real_images(classes, rounds, seeds):
    folder = load_image_folder(SIX)
    chosen = [i for i, label in enumerate(folder.labels) if label in classes]
    truth = [folder.labels[i] for i in chosen]
    X = GaborSketch().fit().transform([folder[i] for i in chosen])
    scores = []
    for seed in range(seeds):
        labels = TwoRoundEM(len(classes), rounds=rounds, random_state=seed).fit(X).predict(X)
        scores.append((conditional_purity(truth, labels), conditional_entropy(truth, labels)))
    purity, entropy = np.mean(scores, axis=0)
    least, most = FLOORS[classes][rounds == 10]
    assert purity >= least
    assert entropy <= most


# --- pictures -------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_pictures_are_made(folder, tmp_path, ending):
    from bitmix.plots import plot_template, save_sheet, save_sketches, saved_figure

    images = load_image_folder(folder)
    sketch = GaborSketch().fit()
    X = sketch.transform(images)
    save_sketches(str(tmp_path / f"a{ending}"), images, X, sketch.geometry_)
    means = np.array([X[:6].to_dense().mean(axis=0), X[6:].to_dense().mean(axis=0)])
    save_sheet(
        tmp_path / f"b{ending}", images, [0] * 6 + [1] * 6, means, sketch.geometry_, images.labels
    )
    with saved_figure(tmp_path / f"c{ending}", (3, 3)) as figure:
        ax = plot_template(figure.subplots(), sketch_dogs()[0], Alphabet())
        assert len(ax.collections[0].get_segments()) == sketch_dogs()[0].sum()
    for name in "abc":
        data = (tmp_path / f"{name}{ending}").read_bytes()
        assert data.startswith(b"\x89PNG" if ending == ".png" else b"<?xml")
        assert len(data) > 3000
    assert os.listdir(tmp_path).count("images") == 1
