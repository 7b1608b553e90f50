"""Texts of others, as people read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from ipykernel.compiler import XCachingCompiler
from IPython.core.compilerop import CachingCompiler
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from tos_notebook.readable import amount, sentence, with_cells

CODE = "def train():\n    1 / 0\n"


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    yield InteractiveShell.instance(config=config)
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("compiler", [CachingCompiler, XCachingCompiler])
def test_frames_of_a_cell_have_the_name_that_the_shell_or_kernel_shows(
    shell: InteractiveShell, compiler: Callable[[], CachingCompiler]
) -> None:
    shell.compile = compiler()
    file = shell.compile.cache(CODE, 13)
    text = f'ZeroDivisionError: in user code:\n  File "{file}", line 2, in train\n    1 / 0\n'
    other = '  File "/home/me/layers.py", line 7, in call'
    assert with_cells(text + other) == (
        "ZeroDivisionError: in user code:\n  Cell In[13], line 2, in train\n    1 / 0\n" + other
    )


def test_without_a_shell_frames_stay_as_they_are() -> None:
    frame = '  File "<ipython-input-13-2cb3ecc61c4e>", line 2, in train'
    assert with_cells(frame) == frame


@pytest.mark.parametrize(
    "text",
    [
        "From /job:worker/replica:0/task:131979338:\nloss : Tensor had NaN values",
        "=====================\nloss : Tensor had NaN values",
        "Graph execution error:\n\nFrom /job:ps/replica:0/task:0: loss : Tensor had NaN values",
        "Additional GRPC error information from remote target x:\nloss : Tensor had NaN values",
    ],
)
def test_the_reason_is_found_below_what_tensorflow_says_of_its_place(text: str) -> None:
    assert sentence(text) == "loss : Tensor had NaN values"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999.4, "999 B"),
        (999.9, "1 kB"),
        (999_999, "1 MB"),
        (1234, "1.23 kB"),
    ],
)
def test_an_amount_has_the_unit_that_its_digits_need(count: float, text: str) -> None:
    assert amount(count) == text
