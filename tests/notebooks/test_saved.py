"""What a reader finds who opens the notebooks without a kernel."""

from __future__ import annotations

import ast
import importlib
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

import tos_workshop
from tests.notebooks.save_outputs import code_hash
from tos_workshop.exercise import EXERCISES

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PLACES = re.compile(r"/(?:home|root|tmp|Users|usr|opt|work|mnt|var)/|file:/")


IGNORED = "# NBVAL_IGNORE_OUTPUT"
CHECK = re.compile(r'tos_workshop\.check\(\s*"([^"]+)"')
SHOWS = re.compile(r"^%%tos_train|tos\.view\(\w+\)\.show\(\)", re.MULTILINE)


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> Any:
    return nbformat.read(request.param, as_version=4)


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in code(notebook) for output in cell.outputs]


def data(output: Any) -> dict[str, Any]:
    return dict(output.get("data", {}))


def kinds(notebook: Any) -> set[str]:
    return {kind for output in outputs(notebook) for kind in data(output)}


def test_each_has_a_number_of_its_own_and_begins_with_its_title(notebook: Any) -> None:
    numbers = [path.stem.partition("_")[0] for path in NOTEBOOKS]
    assert numbers[:2] == ["00", "01"]
    assert len(set(numbers)) == len(numbers)
    assert notebook.cells[0].source.startswith("# ")


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


def test_its_outputs_were_made_by_the_code_that_stands_above_them(notebook: Any) -> None:
    assert notebook.metadata.get("code_sha256") == code_hash(notebook), (
        "The code has changed since its outputs were saved. Run: "
        "python -m tests.notebooks.save_outputs NAME"
    )


def test_its_outputs_name_no_place_on_one_machine_and_hold_no_noise(notebook: Any) -> None:
    saved = outputs(notebook)
    assert not PLACES.findall(json.dumps(saved))
    assert "stderr" not in {out.get("name") for out in saved}


def test_each_training_cell_shows_a_static_picture_of_its_run(notebook: Any) -> None:
    showing = [cell for cell in code(notebook) if SHOWS.search(cell.source)]
    assert showing
    for cell in showing:
        pages = [out.data["text/html"] for out in cell.outputs if "text/html" in data(out)]
        assert any('<img src="data:image/svg+xml;base64,' in page for page in pages)
        assert all(len(page) < 100_000 for page in pages)


def test_it_is_small_and_keeps_no_state_of_widgets(notebook: Any) -> None:
    assert "widgets" not in notebook.metadata
    # Without its state a widget cannot be shown, and hides the still picture.
    assert "application/vnd.jupyter.widget-view+json" not in kinds(notebook)
    assert len(nbformat.writes(notebook).encode()) < 300_000


def test_its_outputs_need_no_trust(notebook: Any) -> None:
    assert "application/javascript" not in kinds(notebook)
    pages = [data(out)["text/html"] for out in outputs(notebook) if "text/html" in data(out)]
    # JupyterLab takes these out of a notebook that is not trusted, and leaves their text.
    assert not any(re.search(r"<script|<iframe|<svg|\son\w+=", page) for page in pages)


def test_its_links_lead_somewhere_and_its_pictures_have_a_text(notebook: Any) -> None:
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert not re.findall(r"!\[\s*\]\(", text)
    assert all(re.search(r'alt="[^"]', tag) for tag in re.findall(r"<img\b[^>]*>", text))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path = target.partition("#")[0]
        if path and not re.match(r"[a-z]+:", path):
            assert (FOLDER / path).exists(), f"{target} is not there"


def test_it_says_how_long_it_takes_and_gives_spark_back(notebook: Any) -> None:
    assert re.search(r"\d+ minutes", notebook.cells[0].source)
    assert "spark.stop()" in code(notebook)[-1].source


def test_it_asks_and_answers(notebook: Any) -> None:
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    answers = re.findall(r"<details>.*?</details>", text, re.DOTALL)
    assert answers
    assert len(answers) == text.count("<details") == text.count("</details")
    # Without the blank lines Markdown inside is not rendered.
    shape = re.compile(r"<details>\s*<summary>[^<]+</summary>\n\n.+\n\n</details>", re.DOTALL)
    assert all(shape.fullmatch(answer) for answer in answers)


def test_it_has_exercises_whose_attempts_are_unfinished(notebook: Any) -> None:
    exercises = [cell for cell in code(notebook) if CHECK.search(cell.source)]
    assert 2 <= len(exercises) <= 4
    for cell in exercises:
        [said] = cell.outputs
        assert said.text.splitlines()[-1].startswith("Not yet. ")
        # Such an attempt is told the same every time.
        assert IGNORED not in cell.source


def test_it_compares_several_of_its_outputs(notebook: Any) -> None:
    taught = [cell for cell in code(notebook) if not CHECK.search(cell.source)]
    assert sum(bool(cell.outputs) and IGNORED not in cell.source for cell in taught) >= 2


def test_every_exercise_is_in_one_notebook() -> None:
    sources = [cell.source for path in NOTEBOOKS for cell in code(nbformat.read(path, 4))]
    asked = [name for source in sources for name in CHECK.findall(source)]
    for chapter in tos_workshop.CHAPTERS:
        importlib.import_module(f"tos_workshop.{chapter}")
    assert sorted(asked) == sorted(EXERCISES)


def test_cells_whose_output_varies_say_so(notebook: Any) -> None:
    for cell in code(notebook):
        if re.search(r"^%|\.figure\(\)|\.sample\(", cell.source, re.MULTILINE):
            assert IGNORED in cell.source


def test_the_program_of_2016_stands_as_it_stood() -> None:
    written = (FOLDER.parent / "tests/unit/tensorspark/mission_program.py").read_text(
        encoding="utf-8"
    )
    original = re.search(r"^x = tf\.placeholder.*?^sess\.run\(init\)$", written, re.M | re.S)
    assert original
    ast.parse(original[0])
    cells = code(nbformat.read(NOTEBOOKS[1], as_version=4))
    holding = [cell.source for cell in cells if original[0] in cell.source]
    assert [source.startswith("%%tos_train") for source in holding] == [True, False]
