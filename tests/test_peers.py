"""The benchmark beside other packages measures what it says, at sizes that take no time."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("benchmarks.peers", reason="a source package does not hold it")

from benchmarks.peers import __main__ as command
from benchmarks.peers import comparison, machine
from benchmarks.peers.comparison import Measurement, Result, Size
from benchmarks.peers.measure import measure
from benchmarks.peers.methods import METHODS
from bitmix.kernels import reference

SMALL = Size(1200, 100, 3)
METHOD = {method.name: method for method in METHODS}


@pytest.mark.parametrize("name", ["TemplateMixture", "TwoRoundEM", "KMeans(n_init=1)"])
def test_a_measurement_has_times_memory_and_templates(tmp_path, name):
    """Templates 40 of 100 bits apart, noise .1 and 400 rows each: every method recovers all."""
    comparison.sample(SMALL, tmp_path)
    measured = measure(METHOD[name], tmp_path, SMALL.k, 2)
    assert len(measured["seconds"]) == 2
    assert all(0 < seconds < 60 for seconds in measured["seconds"])
    assert measured["recovered"] == 3
    if Path("/proc/self/status").exists():
        assert measured["peak"] >= 0


@pytest.mark.system
def test_all_measurements_reach_the_table_and_the_file():
    result = comparison.measure_all([SMALL], only=["TemplateMixture", "KMeans(n_init=1)"])
    assert [each.method for each in result.measurements] == ["TemplateMixture", "KMeans(n_init=1)"]
    assert {each.size for each in result.measurements} == {SMALL}
    lines = list(comparison.table(result))
    assert any(line.startswith("1,200 × 100, k = 3") for line in lines)
    assert any("TemplateMixture" in line and "3/3" in line for line in lines)
    written = json.loads(result.to_json())
    assert written["measurements"][0]["size"] == {"m": 1200, "n": 100, "k": 3}
    assert written["rates"].keys() == {"popcount", "distances", "read"}


def test_the_bare_loop_counts_every_bit():
    rng = np.random.default_rng(0)
    rows, seeds = (rng.integers(1 << 62, size=(m, 5)).astype(np.uint64) for m in (9, 4))
    assert machine.bare_loop()(rows, seeds) == reference.hamming(rows, seeds).sum()


def test_exponents_are_slopes_with_all_else_equal():
    def took(m, n, k):
        return Measurement("TwoRoundEM", Size(m, n, k), 1e-9 * m * n**0.5 * k**2, 0, None)

    measured = (took(100, 64, 2), took(1000, 64, 2), took(10_000, 64, 2), took(100, 640, 2),
                took(100, 64, 20))  # fmt: skip
    exponents = Result("", {}, measured).exponents("TwoRoundEM")
    assert exponents == {"m": pytest.approx(1), "n": pytest.approx(0.5), "k": pytest.approx(2)}


def test_the_time_of_a_peer_is_extrapolated():
    peer = METHOD["KMeans(n_init=1)"]
    measured = [Measurement(peer.name, Size(1000, 64, 2), 5.0, 0, None)]
    large = Size(100_000, 64, 2)
    assert comparison.expected_seconds(peer, large, measured) == pytest.approx(500)
    assert comparison.expected_seconds(peer, large, []) == 0
    assert comparison.expected_seconds(METHOD["TemplateMixture"], large, measured) == 0


def test_the_grid_stays_below_the_rows_asked_for():
    assert max(size.m for size in comparison.grid(rows=100_000)) == 100_000
    assert {size.k for size in comparison.grid()} == {2, 10, 100}
    assert max(size.n for size in comparison.grid()) == 65_536


def test_the_plot_shows_the_measurements_that_differ_in_rows_only():
    from matplotlib.figure import Figure

    sizes = [Size(100, 2048, 10), Size(10, 2048, 10), Size(100, 128, 10), Size(100, 2048, 2)]
    measured = [
        Measurement(name, size, size.m / divisor, 0, 10)
        for name, divisor in (("TemplateMixture", 1e6), ("MiniBatchKMeans", 1e3))
        for size in sizes
    ]
    figure = Figure()
    comparison.draw(Result("", {}, tuple(measured)), figure)
    lines = {line.get_label(): line.get_xydata().tolist() for line in figure.axes[0].lines}
    assert lines == {
        "TemplateMixture": [[10, 1e-5], [100, 1e-4]],
        "MiniBatchKMeans": [[10, 0.01], [100, 0.1]],
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "vibes"], "invalid choice: 'vibes'"),
        (["--json", "nowhere/x.json"], "no folder"),
        (["--plot", "x.gif"], "must end in .png"),
        (["--rows", "5"], "at least 10,000"),
    ],
)
def test_wrong_use_is_named(arguments, words, capsys):
    with pytest.raises(SystemExit) as end:
        command.run(arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err
