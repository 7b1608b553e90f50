"""What pages take from the code is what the code says."""

from __future__ import annotations

import json
import re

import pytest

import tos_notebook
from docs._ext import exchanges, generated, scaling
from docs._ext.layers import DIAGRAM, LAYER_NAMES, alternative, diagram, parts
from docs._ext.reference import reference
from tests.docs.pages import DOCS, ROOT
from tos_notebook.magics import TosMagics
from tos_notebook.magics.parsers import PARSERS
from tos_notebook.training.options import OPTIONS


def test_the_diagram_of_the_layers_is_that_of_the_sources() -> None:
    drawn = DIAGRAM.read_text(encoding="utf-8")
    assert drawn == diagram(), "Draw it anew: python -m docs._ext.layers"


def test_the_diagram_says_in_words_what_it_shows() -> None:
    words = alternative(parts())
    assert words in diagram()
    assert all(re.search(rf"[ ,]{re.escape(part.name)}[,.]", words) for part in parts())
    assert {part.layer for part in parts()} == set(LAYER_NAMES)


@pytest.mark.parametrize("picture", exchanges.PICTURES, ids=lambda picture: picture.name)
def test_the_pictures_of_exchanges_are_those_of_the_schedules(picture: exchanges.Picture) -> None:
    drawn = picture.path.read_text(encoding="utf-8")
    assert drawn == picture.svg(), "Draw it anew: python -m docs._ext.exchanges"
    pages = (page.read_text("utf-8") for page in (DOCS / "explanation").glob("strategy-*.md"))
    assert sum(f"](../{picture.path.name})" in page for page in pages) == 1


@pytest.mark.parametrize("picture", scaling.pictures(), ids=lambda picture: picture.name)
def test_the_pictures_of_scale_are_those_of_what_was_measured_and_simulated(
    picture: scaling.Picture,
) -> None:
    drawn = picture.path.read_text(encoding="utf-8")
    assert drawn == picture.svg(), "Draw it again: python -m docs._ext.scaling"
    page = (DOCS / "explanation" / "scale.md").read_text("utf-8")
    assert f"](../{picture.path.name})" in page


def test_what_was_simulated_is_what_the_theory_says_now() -> None:
    """Of few workers; it would take a minute for all."""
    size, nbytes, compute = scaling.SIZES[1]
    now = scaling.simulate([(size, nbytes, compute)], workers=(4, 256))
    kept = scaling.simulated()[size]
    assert now[size].keys() == kept.keys()
    for way, curve in now[size].items():
        for point in curve["points"]:
            same = next(each for each in kept[way]["points"] if each[0] == point[0])
            assert point == [same[0], pytest.approx(same[1], rel=0.01), same[2]]


def test_the_page_of_scale_says_where_each_way_is_saturated() -> None:
    head, _, *rows = generated.saturations().splitlines()
    assert head == "| Parameters | Driver | 2 shards | 4 shards | 16 shards | All-reduce |"
    assert [row.split(" | ")[0] for row in rows] == [f"| {size}" for size, *_ in scaling.SIZES]


def test_what_was_measured_is_read_with_what_was_simulated_beside_it() -> None:
    text = (
        "$ python -m benchmarks.scale.workers\n"
        "2 shards, 4 MB: 1024 workers                38.491 1/s      1 run\n"
        "    simulated / measured               39.4 1/s, 1.02\n"
        "2 shards, 4 MB: saturates at                153.3           1 run\n"
    )
    series = scaling.parse(text)["4 MB"]["2 shards"]
    assert (series.line, series.marks) == ([(1024, 39.4)], [(1024, 38.491)])


def test_figures_are_taken_from_the_output_of_the_programs_that_are_asked_for() -> None:
    text = (
        "$ python -m benchmarks.throughput.reduce\n"
        "mean of 4 MB: ours / bare ring      0.950 x       5 runs  (goal >= 0.9: met)\n"
        "    ours                  1,311 a second\n"
        "$ python -m benchmarks.latency.exchange --quick\n"
        "exchanges of 31 kB            19184.567 1/s       1 run\n"
    )
    assert generated.figures(text, ["reduce"]) == [("mean of 4 MB: ours / bare ring", "0.950 x")]
    assert generated.figures(text, ["exchange"]) == [("exchanges of 31 kB", "19184.567 1/s")]


def test_no_part_uses_a_higher_layer() -> None:
    layers = {part.name: part.layer for part in parts()}
    assert all(layers[use] <= part.layer for part in parts() for use in part.uses)


def unmarked(text: str) -> str:
    """Return Markdown without its marks, in one line."""
    text = re.sub(r"\[(`[^`]+`)\]\(#\w+\)", r"\1", text)
    return " ".join(re.sub(r"\\([^a-zA-Z0-9\s])|`|\|", r"\1", text).split())


@pytest.mark.parametrize("name", PARSERS)
def test_the_page_of_magics_says_what_their_help_says(name: str) -> None:
    page = generated.magics()
    begin = page.index(f"## `{PARSERS[name].name}`")
    own = unmarked(page[begin : page.find("\n## ", begin) % (len(page) + 1)])
    assert unmarked(f"{PARSERS[name].usage}") in own
    for spellings, meaning in PARSERS[name].explained:
        assert unmarked(", ".join(spellings)) in own
        assert unmarked(meaning) in own
    help_text = getattr(TosMagics, name).__doc__
    summary, _, rest = help_text.replace(PARSERS[name].help(), "").partition("\n")
    more, _, examples = rest.partition("Examples\n--------\n::\n")
    for text in (summary, more, *examples.partition("Combiners\n---")[0].split("\n\n")):
        assert unmarked(text) in own


def test_the_page_of_options_has_each_once_and_says_what_a_resumed_run_keeps() -> None:
    _, _, *rows = generated.options().splitlines()
    assert len(rows) == len(OPTIONS)
    for row, (name, each) in zip(rows, OPTIONS.items(), strict=True):
        assert row.startswith(f"| `{name}`")
        assert row.endswith("| kept |") == bool(each.kept)


def test_every_magic_is_on_the_page() -> None:
    found = re.findall(r"^## `%+(tos_\w+)`$", generated.magics(), re.MULTILINE)
    assert sorted(found) == sorted(PARSERS)


def test_every_public_name_is_in_the_reference() -> None:
    text = "".join(page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md"))
    text += (DOCS / "troubleshooting" / "errors.md").read_text("utf-8")
    # The module partitioners is documented where it lies.
    names = set(tos_notebook.__all__) - {"__version__", "partitioners"}
    missing = {n for n in names if not re.search(rf"(:: |\.|^ +){n}\b", text, re.MULTILINE)}
    assert not missing


def test_every_name_in_the_reference_has_a_description() -> None:
    heading = re.compile(r"^#{3,4} (`[^`]+`)\n\n(?=#|<!-- end)", re.MULTILINE)
    texts = [page.read_text("utf-8") for page in sorted((DOCS / "reference").glob("*.md"))]
    assert not [name for text in texts for name in heading.findall(text)]


def test_a_function_that_is_named_as_its_module_is_in_the_reference() -> None:
    assert "`batch_seconds`" in reference(".. autofunction:: tos_notebook.theory.scaling\n")


def test_parameters_that_share_a_row_show_each_default() -> None:
    text = reference(".. autoclass:: tos_notebook.combiners.FedAdam\n")
    assert "| `beta1`, `beta2` | float | `0.9`, `0.99` |" in text


def test_the_course_lists_every_notebook() -> None:
    page = generated.course()
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        title = json.loads(path.read_text("utf-8"))["cells"][0]["source"][0].strip("# \n")
        assert f"### {path.stem.partition('_')[0]} · {title}\n" in page
        assert f"](../../notebooks/{path.name})" in page


@pytest.mark.parametrize(
    ("text", "marked"),
    [("a", "`a`"), ("a`b", "``a`b``"), ("`a", "`` `a ``"), ("a|b", "`a|b`")],
)
def test_code_shows_as_it_is(text: str, marked: str) -> None:
    assert generated.code(text) == marked
