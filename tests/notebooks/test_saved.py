"""What a reader finds who opens the notebooks without a kernel."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PLACES = re.compile(r"/(?:home|root|tmp|Users|usr|opt|work|mnt|var)/|file:/")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> Any:
    return nbformat.read(request.param, as_version=4)


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in code(notebook) for output in cell.outputs]


def test_there_are_two() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["00_first_steps", "01_tensoronspark_mnist"]


def test_it_is_valid_and_names_no_kernel_of_one_machine(notebook: Any) -> None:
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"


def test_it_was_run_once_from_top_to_bottom_without_an_error(notebook: Any) -> None:
    counts = [cell.execution_count for cell in code(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    assert {out.output_type for out in outputs(notebook)} <= {
        "stream",
        "display_data",
        "execute_result",
    }


def test_its_outputs_name_no_place_on_one_machine_and_hold_no_noise(notebook: Any) -> None:
    saved = outputs(notebook)
    assert not PLACES.findall(json.dumps(saved))
    assert "stderr" not in {out.get("name") for out in saved}


def test_each_training_cell_shows_a_static_picture_of_its_run(notebook: Any) -> None:
    trained = [cell for cell in code(notebook) if cell.source.startswith("%%tos_train")]
    assert trained
    for cell in trained:
        pages = [
            out.data["text/html"] for out in cell.outputs if "text/html" in out.get("data", {})
        ]
        assert any("<svg" in page for page in pages)
        assert all(len(page) < 100_000 for page in pages)


def test_it_is_small_and_keeps_no_state_of_widgets(notebook: Any) -> None:
    assert "widgets" not in notebook.metadata
    # Without its state a widget cannot be shown, and hides the still picture.
    kinds = {kind for output in outputs(notebook) for kind in output.get("data", {})}
    assert "application/vnd.jupyter.widget-view+json" not in kinds
    assert len(nbformat.writes(notebook)) < 600_000


def test_cells_whose_output_varies_say_so(notebook: Any) -> None:
    for cell in code(notebook):
        if re.search(r"^%|\.figure\(\)|\.sample\(", cell.source, re.MULTILINE):
            assert "# NBVAL_IGNORE_OUTPUT" in cell.source


def test_the_program_of_2016_stands_as_it_stood() -> None:
    written = (FOLDER.parent / "tests/tensorspark/mission_program.py").read_text(encoding="utf-8")
    original = re.search(r"^x = tf\.placeholder.*?^sess\.run\(init\)$", written, re.M | re.S)
    assert original
    ast.parse(original[0])
    cells = code(nbformat.read(NOTEBOOKS[1], as_version=4))
    holding = [cell.source for cell in cells if original[0] in cell.source]
    assert [source.startswith("%%tos_train") for source in holding] == [True, False]
