"""Film the live view of a real run in a real JupyterLab, for the README.

    python -m tests.browser.film [FOLDER]

writes ``live-view.png`` and ``live-view.gif`` into a folder, ``docs`` by default. Needs Pillow.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from tests.browser.lab import View, execute, open_notebook, opened_page, started
from tests.browser.test_live_view import SETUP

TRAIN = """
%%tos_train --data train --epochs 3000 --batch-size 16 --sync-interval 10 --combiner downpour -o run
import keras
model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(10, "softmax")]
)
model.compile(keras.optimizers.SGD(0.02), "sparse_categorical_crossentropy", metrics=["accuracy"])
"""
FRAME, STILL = 400, 1800
"""Milliseconds that a picture is shown; one of them longer, to be looked at."""

WIDTH, COLORS = 720, 32


class Film:
    """Pictures of one part of a page.

    Parameters
    ----------
    page : Page
    part : Locator
    """

    def __init__(self, page: Any, part: Any) -> None:
        self._page = page
        self._part = part
        self.pictures: list[Image.Image] = []
        self._shown: list[int] = []

    def shot(self, milliseconds: int = FRAME) -> None:
        """Take a picture."""
        picture = Image.open(io.BytesIO(self._part.screenshot()))
        self.pictures.append(picture.convert("RGB"))
        self._shown.append(milliseconds)

    def shots(self, count: int) -> None:
        """Take some, a moment apart."""
        for _ in range(count):
            self._page.wait_for_timeout(FRAME)
            self.shot()

    def save(self, path: Path) -> None:
        """Write them as an animation that plays for ever."""
        height = max(picture.height for picture in self.pictures)
        frames = [self._frame(picture, height) for picture in self.pictures]
        first, rest = frames[0], frames[1:]
        first.save(path, save_all=True, append_images=rest, duration=self._shown, loop=0)

    def _frame(self, picture: Image.Image, height: int) -> Image.Image:
        whole = Image.new("RGB", (picture.width, height), "white")
        whole.paste(picture)
        small = whole.resize(
            (WIDTH, round(height * WIDTH / picture.width)), Image.Resampling.LANCZOS
        )
        return small.quantize(COLORS, dither=Image.Dither.NONE)


@contextmanager
def training() -> Iterator[tuple[Any, View]]:
    """A page with a run that has just begun."""
    with started() as (lab, browser), opened_page(browser, lab) as page:
        open_notebook(page, lab, "film", SETUP, TRAIN)
        execute(page, "application:toggle-left-area")
        execute(page, "notebook:run-all-cells")
        view = View(page)
        view.reaches(5)
        yield page, view


def main(folder: Path) -> None:
    """Steer a run as a person would, and film it."""
    with training() as (page, view):
        film = Film(page, view.root)
        film.shots(8)
        view.press("pause")
        view.becomes("paused")
        film.shot(STILL)
        view.press("unpause")
        view.becomes("running")
        film.shots(3)
        view.steer(combiner="dynsgd")
        view.says("in force")
        film.shot(STILL)
        page.keyboard.press("Escape")
        film.shots(8)
        film.pictures[-1].save(folder / "live-view.png", optimize=True)
        view.stop()
        view.becomes("stopped")
        film.shot(STILL)
        film.save(folder / "live-view.gif")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
