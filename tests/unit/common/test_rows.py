from __future__ import annotations

from typing import Any

import pytest
from IPython.lib.pretty import pretty

import tos_notebook as tos
from tos_notebook.common.rows import WIDTH, Rows

ROWS = Rows(
    [
        {"name": "one", "what": "<b>" + "word " * 40, "defaults": {"k": 3, "by": "n"}},
        {"name": "two", "what": "", "defaults": {}},
    ]
)


def test_a_terminal_shows_a_table_whose_lines_fit() -> None:
    lines = pretty(ROWS).splitlines()
    assert repr(ROWS).splitlines() == lines
    assert lines[0].split() == ["name", "what", "defaults"]
    assert set(lines[1]) == {"-", " "}
    assert lines[2].startswith("one   <b>word")
    assert lines[2].endswith("k=3, by='n'")
    assert lines[-1] == "two"
    assert max(map(len, lines)) <= WIDTH


def test_a_notebook_shows_a_table_with_heads_and_no_markup_of_its_own() -> None:
    html = ROWS._repr_html_()
    assert html is not None
    assert html.count("<tr>") == 3
    assert html.count('scope="row"') == 2
    assert "&lt;b&gt;word" in html
    assert "k=3, by=&#x27;n&#x27;" in html


def test_numbers_show_six_digits_and_are_kept_with_all() -> None:
    rows = Rows([{"rate": 0.01 * 0.9, "of": {"beta": 0.1 + 0.2}, "seconds": 2.75, "n": 1234567}])
    assert repr(rows).splitlines()[-1].split() == ["0.009", "beta=0.3", "2.75", "1234567"]
    html = rows._repr_html_()
    assert html is not None
    assert ">0.009<" in html
    assert rows[0]["rate"] == 0.01 * 0.9


def test_nothing_shows_as_an_empty_list() -> None:
    assert (repr(Rows()), Rows()._repr_html_()) == ("[]", None)


def test_its_first_rows_are_a_table_again() -> None:
    rows = Rows({"name": str(number)} for number in range(7))
    assert type(rows.head()) is Rows
    assert [row["name"] for row in rows.head()] == ["0", "1", "2", "3", "4"]
    assert repr(rows.head(2)).splitlines() == ["name", "----", "0", "1"]
    assert (len(rows.head(99)), len(rows.head(-3)), rows.head(0)) == (7, 4, [])


@pytest.mark.parametrize("described", [tos.combiners.describe, tos.codecs.describe])
def test_combiners_and_codecs_are_tables_and_still_lists_of_dicts(described: Any) -> None:
    rows = described()
    assert isinstance(rows, list)
    assert rows[0]["name"]
    assert [len(row) for row in rows] == [7] * len(rows)
    lines = repr(rows).splitlines()
    assert lines[0].split() == [*rows[0]]
    assert max(map(len, lines)) <= WIDTH
    assert f'<th scope="row" style="text-align: left; vertical-align: top">{rows[0]["name"]}' in (
        rows._repr_html_()
    )


def test_strategies_are_a_table_and_still_a_list_of_dicts() -> None:
    rows = tos.strategies.describe()
    assert isinstance(rows, list)
    assert [row["name"] for row in rows] == ["ps", "allreduce", "treeaggregate", "tensorflow"]
    assert rows[1]["defaults"]["algorithm"] == "auto"
    lines = repr(rows).splitlines()
    assert lines[0].split() == ["name", "summary", "when", "example", "defaults"]
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize(
    "what",
    [tos.strategies, tos.combiners, tos.codecs, tos.partitioners, tos.chaos, tos.conditions],
)
def test_the_tables_of_what_there_is_have_one_order_of_columns(what: Any) -> None:
    keys = [*what.describe()[0]]
    order = ("name", "summary", "when", "example")
    first = [key for key in order if key in keys]
    assert keys[: len(first)] == first
