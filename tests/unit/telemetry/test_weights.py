"""Heat maps of weights keep every value's share, whatever the bins."""

from __future__ import annotations

import base64
import struct
import zlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import plotly.io as pio
import pytest

from tos_notebook.common.histogram import Histogram
from tos_notebook.errors import ConfigError
from tos_notebook.events import WeightsMeasured
from tos_notebook.telemetry.heat import MISSING, VIRIDIS, heat_image
from tos_notebook.telemetry.weights import SHOWN, densities, weights_figure
from tos_notebook.training.observers.histograms import BINS, SAMPLE, histograms


def test_a_histogram_counts_every_finite_value_of_a_small_tensor() -> None:
    tensor = np.array([[1.0, 2.0], [np.nan, np.inf]], np.float32)
    found = histograms({"w": tensor, "steps": np.array(3), "bad": np.full(2, np.nan)})
    assert found["w"].counts.sum() == 2
    assert (found["w"].edges[0], found["w"].edges[-1]) == (1.0, 2.0)
    assert len(found["w"].counts) == BINS
    assert found["steps"].counts.sum() == 1
    assert found["bad"].counts.sum() == 0


def test_of_a_large_tensor_evenly_chosen_values_count() -> None:
    values = np.arange(3 * SAMPLE, dtype=np.float64)
    found = histograms({"w": values})["w"]
    assert SAMPLE <= found.counts.sum() <= 2 * SAMPLE
    assert found.counts / found.counts.sum() == pytest.approx(np.full(BINS, 1 / BINS), rel=0.01)


def test_values_are_spread_evenly_within_a_bin() -> None:
    histogram = Histogram(np.array([3.0, 1.0]), np.array([0.0, 1.0, 2.0]))
    found = densities(histogram, np.array([-1.0, 0.0, 0.5, 1.5, 2.0, 3.0]))
    assert found == pytest.approx([0, 0.375, 0.5, 0.125, 0])
    empty = Histogram(np.zeros(2), np.array([0.0, 0.5, 1.0]))
    assert densities(empty, np.array([0.0, 1.0])) == pytest.approx([0])


def measured(samples: int, scale: float) -> WeightsMeasured:
    tensors = {f"w{n}": np.linspace(-n * scale, n * scale, 50) for n in range(1, 9)}
    return WeightsMeasured(0.0, samples, histograms(tensors), {})


def pixels_of(uri: str) -> Any:
    image = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    width, height = struct.unpack(">II", image[16:24])
    start = image.index(b"IDAT") + 4
    rows = np.frombuffer(zlib.decompressobj().decompress(image[start:]), np.uint8)
    return rows.reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3)


def test_a_heat_map_without_scripts_has_its_columns_where_they_were_measured() -> None:
    """The samples are at uneven distances, and values grow upwards."""
    trace = SimpleNamespace(x=[0, 10, 100], y=[1.0, 2.0], z=[[1, 0, 0], [0, 0, 4]])
    pixels = pixels_of(heat_image(trace))
    height, width, _ = pixels.shape
    dark, bright = VIRIDIS[0].tolist(), VIRIDIS[-1].tolist()
    assert height == 2
    assert pixels[0, 0].tolist() == pixels[1, -1].tolist() == dark
    assert pixels[0, -1].tolist() == bright
    # The last column reaches half way to the one before.
    assert [pixels[0, width * part // 100].tolist() for part in (50, 60)] == [dark, bright]
    assert pixels[1, 0].tolist() not in (dark, bright)


@pytest.mark.filterwarnings("error")
def test_what_is_not_a_number_is_gray_and_leaves_the_rest_of_a_heat_map_as_it_is() -> None:
    trace = SimpleNamespace(x=[0, 10], y=[1.0, 2.0], z=[[np.nan, 0], [0, 4]])
    pixels = pixels_of(heat_image(trace))
    assert pixels[1, 0].tolist() == [MISSING] * 3
    assert pixels[0, 0].tolist() == pixels[1, -1].tolist() == VIRIDIS[0].tolist()
    assert pixels[0, -1].tolist() == VIRIDIS[-1].tolist()
    nothing = SimpleNamespace(x=[0, 10], y=[1.0], z=[[np.nan, np.nan]])
    assert np.unique(pixels_of(heat_image(nothing))).tolist() == [MISSING]


def test_the_still_picture_says_how_many_heat_maps_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[dict[str, str]] = []
    shell = SimpleNamespace(display_pub=SimpleNamespace(publish=shown.append))
    monkeypatch.setattr("tos_notebook.telemetry.pictured.ipython_shell", lambda: shell)
    monkeypatch.setattr(pio.renderers, "default", "plotly_mimetype")
    looks = [measured(0, 1.0), measured(100, 2.0)]
    weights_figure(looks, ["w1", "w2"]).show()
    weights_figure(looks, ["w1"]).show()
    several, one = shown
    assert several["text/plain"] == "w1; w2 over samples. Shown: 2 heat maps."
    assert f'alt="{several["text/plain"]}"' in several["text/html"]
    assert one["text/plain"] == "w1 over samples. Shown: 1 heat map."


def test_the_widest_parameters_are_shown_unless_some_are_named() -> None:
    looks = [measured(0, 1.0), measured(100, 2.0)]
    figure = weights_figure(looks)
    assert len(figure.data) == SHOWN
    assert [a.text for a in figure.layout.annotations] == [f"w{n}" for n in range(3, 9)]
    (named,) = weights_figure(looks, ["w1"]).data
    assert list(named.x) == [0, 100]
    assert (named.y.min(), named.y.max()) == pytest.approx((-2, 2), abs=0.1)
    assert named.z.sum(axis=0) == pytest.approx([1, 1])
    with pytest.raises(ConfigError, match="Unknown parameter 'w9'; there are w1, w2"):
        weights_figure(looks, ["w9"])
