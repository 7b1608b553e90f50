"""How a run was run, as names and texts."""

from __future__ import annotations

from ..readable import amount, counted
from ..steering.links import LinkRate, LinkRates
from ..steering.sync import interval_text
from ..training.results.report import OWN_RATE, OWN_STEP
from .axes import clock
from .marks import in_force, in_plain
from .news import CommandEntry, Costs, Links, News, State
from .numbers import percent, words
from .picture_workers import is_stale


def facts_of(news: News) -> list[tuple[str, str]]:
    """Return what is known of a run, by name; what is empty is left out."""
    run, totals = news.state["run"], news.state["totals"]
    samples = totals["samples"]
    each = f", {amount(totals['bytes'] / samples)} per sample" if samples else ""
    whole = 2 * run["model_bytes"] * totals["milestones"]
    if whole > 1.05 * totals["bytes"] > 0:
        each += f", {whole / totals['bytes']:.1f} times less than as they are"
    rate, stale = run["learning_rate"], is_stale(run)
    interval = run["sync_interval"]
    # A strategy that draws samples has no interval, and makes the step itself.
    own = OWN_STEP if interval is None else OWN_RATE
    validated = ", ".join(f"{name} {words(v)}" for name, v in totals["validation"].items())
    facts = [
        (run["state"].capitalize(), run["reason"]),
        ("Pending", "; ".join(run["pending"])),
        ("Lost", " ".join(run["lost"])),
        ("Validation", validated),
        ("Training loss", words(totals["loss"])),
        ("Samples", f"{samples:,}, {words(totals['samples_per_second'])} per second"),
        ("Milestones", f"{totals['milestones']:,}"),
        ("Mean staleness", stale and f"{words(totals['staleness_mean'])} versions"),
        ("Exchanged", amount(totals["bytes"]) + each),
        *_costs(totals["costs"]),
        ("Links", _links(totals["links"])),
        ("Strategy", run["strategy"]),
        ("Combiner", run["combiner"]),
        ("Sync mode", stale and run["sync"]),
        ("Codec", run["codec"]),
        ("Exchange every", interval and _every(interval, run["batch_size"])),
        ("Learning rate", _rate(run["own_rate"], own) if rate is None else words(rate)),
        ("Steered", "; ".join(steered(news.state))),
        ("Chaos on purpose", "; ".join(run["chaos_log"])),
        ("Partitions", str(run["partitions"])),
        ("Program", run["program"]),
        ("Master", run["master"]),
        ("Id", run["id"]),
    ]
    return [(name, text) for name, text in facts if text]


def _every(interval: int, batch_size: int) -> str:
    return interval_text(interval, f"{counted(interval, 'batch', 'batches')} of {batch_size}")


def _rate(value: float | None, whose: str) -> str:
    return whose if value is None else f"{words(value)} ({whose})"


def _costs(found: Costs | None) -> list[tuple[str, str]]:
    """Return what steps of all workers together cost of late, and who is the slowest."""
    if found is None:
        return []
    parts = percent(found["compute"]), percent(found["exchange"]), percent(found["wait"])
    rates = amount(found["sent"] or 0), amount(found["received"] or 0)
    told = [
        ("Workers' time", "compute {}, reduce {}, wait {}".format(*parts)),
        ("Each worker", "sends {}/s, receives {}/s".format(*rates)),
    ]
    if slowest := found["slowest"]:
        who = f"executor {slowest['executor']}, partition {slowest['partition']}"
        waits = percent(slowest["waiting"]), percent(slowest["others"])
        told.append(("Slowest worker", "{}: waits {}, the others {}".format(who, *waits)))
    return told


def _links(found: Links | None) -> str:
    if found is None:
        return ""
    rates = (LinkRate(source, target, rate or 0.0) for source, target, rate in found["rates"])
    return str(LinkRates(tuple(rates), found["more"]))


def steered(state: State) -> list[str]:
    """Return what was changed while the run trained: settings alone name the last ones."""
    return [f"{_told(entry)} at {clock(round(entry['time']))}" for entry in in_force(state)]


def _told(entry: CommandEntry) -> str:
    return f"{entry['command']} {in_plain(entry['detail'])}".strip()
