"""Every error has advice, every message an error, and what the page quotes is what is raised."""

from __future__ import annotations

import re

import pytest

from docs._ext.generated import error_messages
from docs._ext.messages import GAP, USAGE, Message, error_classes, messages, raised
from tests.docs.pages import DOCS, sections

SECTIONS = sections(DOCS / "troubleshooting" / "errors.md")
CLASSES = [*error_classes(), USAGE]

OTHERS = {
    ("__init__", "AttributeError()"): "what Python expects of a module's __getattr__",
    ("common.interrupts", "KeyboardInterrupt"): "what Ctrl-C raises",
    ("common.lazy", "AttributeError()"): "the same",
    ("tensorspark.mnist", "AttributeError()"): "the same",
    ("combiners.base", "AttributeError()"): "what Python expects of __getattr__",
    (
        "training.checkpoint.contents",
        "TypeError()",
    ): "caught there: a checkpoint that is no checkpoint",
    ("strategies.ps.strategy", "ValueError()"): "the same",
    ("strategies.allreduce.lockstep", "ValueError()"): "the same",
    ("runtime.updater", "ValueError()"): "the trainer turns it into a CheckpointError",
    ("strategies.treeaggregate.descent", "ValueError()"): "the same",
    ("strategies.allreduce.outer", "ValueError()"): "the same",
    ("program.export.cut", "ValueError()"): "as Keras raises it, where no gradient is there",
    ("persist.sealed", "ValueError()"): "the same",
    ("training.checkpoint.event_log", "TypeError()"): "the same",
    ("persist.values", "TypeError()"): "the same",
    ("strategies.tensorflow.exchange", "ValueError()"): "caught there: servers' addresses",
    ("strategies.ps.shards.parcel", "ValueError()"): "caught there: other bytes",
    ("strategies.ps.served.saved", "ValueError()"): "the same",
    ("common.served", "ValueError()"): "caught by who reads a program, or a checkpoint",
    ("strategies.ps.rules", "ValueError()"): "caught there: a checkpoint of other parameters",
    ("wire.bodies", "TypeError()"): "caught there: a field of a message",
    ("data.images", "_BadImageError()"): "caught there: a bad row",
    ("common.arrays", "TypeError()"): "callers say where the value is",
    ("worker.loading", "ValueError()"): "caught there: a column of rows",
    ("transport.sockets", "TimeoutError"): "what a socket raises",
    ("lab.targets", "ValueError()"): "to JupyterLab's page, which nobody types",
    ("magics.cell", "_without_frames()"): "the cell's own error: what is no Python",
    ("magics", "TraitError()"): "what a trait raises; %tos_config makes a ConfigError of it",
    ("magics.options", "argparse.ArgumentError()"): "caught there, becomes a UsageError",
    ("magics.options", "argparse.ArgumentTypeError()"): "the same",
    (
        "runtime.import_guard",
        "ImportError()",
    ): "what an import raises; the caller tries another way",
    ("program.export.base", "NotImplementedError"): "of an abstract method",
    ("tensorspark.partitioner", "NotImplementedError()"): "of an abstract method, as the original",
    ("training.run", "AttributeError()"): "what Python expects of __getattr__",
    ("training.run", "NotImplementedError"): "of which IPython takes: show it as all else",
    ("telemetry.compare", "NotImplementedError"): "the same",
    ("cluster.arrow_storage", "FileExistsError()"): "caught there, and told as a CheckpointError",
    ("cluster.arrow_storage", "FileNotFoundError()"): "the same",
    (
        "strategies.ps.shards.copies",
        "ValueError()",
    ): "caught in `contents`: of a damaged checkpoint",
    ("strategies.ps.shards.writing", "_Refused()"): "caught there: a CheckpointError by its reason",
    ("testing.strategies", "AssertionError()"): "caught there: a law that is broken",
    ("testing.bench", "AssertionError()"): "the same",
    ("testing.programs", "NotImplementedError"): "of an abstract method",
    ("testing.combiners", "Skipped()"): "caught there: a check that does not apply",
    ("nodes.blocks", "RowsMissing()"): "caught in `tasks`: what makes rows has failed",
    ("nodes.feeding", "Over"): "caught there: the node wants no more rows",
    (
        "cluster.remote.context",
        "Cancelled()",
    ): "what stands for Spark's own error, which `cancellation` reads",
    ("nodes.hub", "queue.Empty"): "caught in `tasks`: no rows came for so long",
    ("nodes.ports", "OSError()"): "caught there: the next port is tried",
    ("tensorflowonspark.params", "TypeError()"): "what Spark ML expects of a converter",
    ("worker.task", "RuntimeError()"): "of a task outside of Spark, which only a test can make",
}
"""What is raised that is none of the package's errors, and why users do not meet it."""

AGAIN = re.compile(
    r"error|found|error\.with_traceback\(\)|.*\.error|self\._unprepared|patience\.hopeless"
    r"|.*roster\.stream_error|self\._error|error if isinstance\(error, TosError\).*"
)
"""What was made elsewhere, and is raised here."""


@pytest.mark.parametrize("name", CLASSES)
def test_every_error_has_advice_and_its_own_messages(name: str) -> None:
    text = SECTIONS[name]
    means, _, rest = text.partition("**What it means.**")[2].partition("**What to do.**")
    assert len(means.split()) >= 15
    assert len(rest.partition("<!--")[0].split()) >= 15
    assert re.findall(r"^<!-- generated error-messages (\w+) -->$", text, re.MULTILINE) == [name]


def test_no_advice_is_for_an_error_that_there_is_not() -> None:
    headings = {heading for heading, level in SECTIONS.levels.items() if level == 2}
    assert headings == set(CLASSES)


def test_the_overview_leads_to_every_error_that_people_meet() -> None:
    overview = SECTIONS["Errors"]
    linked = set(re.findall(r"\(#(\w+)\)", overview))
    named = {word.lower() for word in re.findall(r"`(\w+)`", overview)}
    rest = {"toserror", "localprotocolerror", "remoteprotocolerror", "versionmismatch"}
    assert {name.lower() for name in CLASSES} - linked - named == rest - linked - named


def test_whatever_is_raised_is_one_of_the_errors_or_has_a_reason() -> None:
    found = {(module, what) for module, _, what in raised() if what not in CLASSES}
    strangers = {pair for pair in found if not AGAIN.fullmatch(pair[1])}
    assert strangers == set(OTHERS), "Raise one of tos_notebook/errors.py, or say why not."


def test_only_what_passes_others_words_on_has_none_of_its_own() -> None:
    silent = {(message.module, message.error) for message in messages() if not message.is_known}
    assert silent == {
        ("coordination.requests", "WorkerError"),
        ("cluster.jobs", "DataError"),
        ("cluster.jobs", "WorkerError"),
        ("codecs.powersgd", "CodecError"),
        ("data.lists", "DataError"),
        ("data.lists", "ShapeMismatch"),
        ("ml.columns", "DataError"),
        ("ml.columns", "ShapeMismatch"),
        ("nodes.feeding", "ConfigError"),
        ("nodes.feeding", "WaitTimeout"),
        ("nodes.keeper", "ClusterUnreachable"),
        ("program.export.symbolic", "UnsupportedProgram"),
        ("program.keras.class_weights", "CaptureError"),
        ("training.deployed.letters", "TosError"),
        ("testing.combiners", "CombinerCheckFailed"),
        ("testing.strategies", "StrategyCheckFailed"),
        ("widgets.control", "TosError"),
        ("wire.refusals", "RemoteProtocolError"),
    }


def found(error: str, module: str) -> list[str]:
    return [m.text for m in messages() if (m.error, m.module) == (error, module)]


def test_messages_are_read_however_they_are_put_together() -> None:
    number = "⟨name⟩: expected ⟨expected⟩, got ⟨value⟩."
    assert number in found("ConfigError", "common.checks")
    [lost] = [text for text in found("JavaMissing", "cluster.jvm") if text.startswith("No Java")]
    assert "no java is on the PATH (⟨path⟩). Install Java 17 or later" in lost
    for error in ("ConnectError", "ClusterUnreachable"):
        assert f"Spark does not start on ⟨master⟩: {GAP}" in found(error, "cluster.connect")
    hosts = found("WorkerEnvironment", "cluster.environment")
    assert any(text.startswith(f"Host ⟨host⟩: {GAP}. Install the driver's") for text in hosts)
    refused = f"Cannot ⟨command⟩ while the run is ⟨state⟩: {GAP}"
    assert refused in found("InvalidTransition", "steering.machine")


@pytest.mark.parametrize(
    ("text", "known"), [("⟨error⟩", False), ("⟨name⟩: ⟨error⟩", False), ("⟨name⟩ is gone.", True)]
)
def test_a_message_of_gaps_alone_is_not_quoted(text: str, known: bool) -> None:
    assert Message("TosError", text, "training.run", 1).is_known is known


def test_the_page_quotes_each_message_of_its_class() -> None:
    for name in CLASSES:
        page = error_messages(name)
        own = [m for m in messages() if m.error == name and m.is_known]
        assert page.count("\n  - ") == len(own)
