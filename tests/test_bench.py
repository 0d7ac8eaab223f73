"""The benchmark measures what it says, at sizes that take no time."""

import json
import math

import pytest
from typer.testing import CliRunner

from bitmix.bench import machine, run
from bitmix.bench.methods import METHODS
from bitmix.bench.run import Measurement, Result, Size
from bitmix.cli import app
from bitmix.errors import InputError

SMALL = Size(1200, 100, 3)


@pytest.fixture(scope="module")
def result():
    return run.run([SMALL], only=["TemplateMixture", "TwoRoundEM", "KMeans(n_init=1)"])


def test_every_measurement_is_there(result):
    """40 bits of 100 apart at a noise of .1 and 400 rows a template: ours find every bit."""
    assert [each.method for each in result.measurements] == [
        "TemplateMixture", "TwoRoundEM", "KMeans(n_init=1)",
    ]  # fmt: skip
    for each in result.measurements:
        assert each.size == SMALL
        assert 0 < each.seconds < 60
        assert each.peak >= 0
    assert result.of("TemplateMixture", SMALL).found == 3
    assert result.of("MiniBatchKMeans", SMALL) is None


def test_the_table_and_the_file_say_the_same(result):
    lines = list(run.table(result))
    assert any(line.startswith("1,200 × 100, k = 3") for line in lines)
    assert any("TemplateMixture" in line and "3/3" in line for line in lines)
    stored = json.loads(result.to_json())
    assert stored["measurements"][0]["size"] == {"m": 1200, "n": 100, "k": 3}
    assert stored["rates"].keys() == {"popcount", "distances", "read"}


def test_machine_rates_are_possible():
    """Between a slow and an impossible machine."""
    assert all(1e8 < rate < 1e13 for rate in machine.rates().values())


def test_growth_is_a_slope_with_all_else_equal():
    def took(m, n, k):
        return Measurement("TwoRoundEM", Size(m, n, k), 1e-9 * m * n**0.5 * k**2, 0, None)

    measured = (took(100, 64, 2), took(1000, 64, 2), took(10_000, 64, 2), took(100, 640, 2),
                took(100, 64, 20))  # fmt: skip
    grown = Result("", {}, measured).exponents("TwoRoundEM")
    assert grown == {"m": pytest.approx(1), "n": pytest.approx(0.5), "k": pytest.approx(2)}


def test_peers_too_slow_are_left_out():
    peer = next(method for method in METHODS if method.name == "KMeans(n_init=1)")
    known = [Measurement(peer.name, Size(1000, 64, 2), 5.0, 0, None)]
    assert run._expected(peer, Size(100_000, 64, 2), known) == pytest.approx(500)
    assert run._expected(peer, Size(100_000, 64, 2), []) == 0
    assert run._expected(METHODS[0], Size(100_000, 64, 2), known) == 0


def test_the_grid_stays_below_the_rows_asked_for():
    assert max(size.m for size in run.grid(rows=100_000)) == 100_000
    assert {size.k for size in run.grid()} == {2, 10, 100}
    assert max(size.n for size in run.grid()) == 65_536


def test_a_plot_can_be_drawn(result, tmp_path):
    from matplotlib.figure import Figure

    figure = Figure()
    large = [Measurement("TemplateMixture", Size(m, 2048, 10), m / 1e6, 0, 10) for m in (10, 100)]
    run.draw(Result("", result.rates, tuple(large)), figure)
    assert figure.axes[0].get_xscale() == "log"
    assert math.isclose(figure.axes[0].lines[0].get_ydata()[1], 1e-4)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--method", "vibes"], "method must be one of"),
        (["--json", "nowhere/x.json"], "no folder"),
        (["--plot", "x.gif"], "must end in .png"),
    ],
)
def test_wrong_use_is_named(args, says):
    result = CliRunner().invoke(app, ["bench", "--quick", *args])
    assert isinstance(result.exception, InputError)
    assert says in str(result.exception)
