"""A solution to each exercise, as code that takes the place of the attempt in the notebook."""

from __future__ import annotations

SOLUTIONS: dict[str, str] = {
    "first_steps.milestones": """\
# A worker has 719 images at most: 90 batches of 8, which are 18 groups of 5. There are two workers.
milestones = 2 * 18""",
    "first_steps.interval": """\
# 90 batches in 10 groups.
interval = 90 // 10""",
    "first_steps.computing": """\
def computing(history):
    times = history.groupby("partition")[["compute", "wait", "exchange"]].sum()
    return times["compute"] / times.sum(axis=1)""",
    "original.traffic": """\
# W has 784 x 10 values and b has 10, of 4 bytes each. They go up and come back.
nbytes = 2 * 4 * (784 * 10 + 10)""",
    "original.steps": """\
mine = {"a": 3, "b": 5, "c": 1, "d": 7, "e": 4}""",
    "one_gradient.busiest": """\
def busiest(workers, nbytes):
    # In and out. A server has all workers on its link. A worker in the ring sends 2(n - 1) parts.
    return 2 * workers * nbytes, 2 * 2 * (workers - 1) * nbytes / workers""",
    "one_gradient.feedback": """\
def compress(change, kept, count):
    total = change + kept
    sent = np.zeros_like(total)
    largest = np.argsort(np.abs(total))[-count:]
    sent[largest] = total[largest]
    return sent, total - sent""",
    "one_gradient.pays": """\
def seconds(workers, compute, nbytes, bandwidth, latency):
    rounds = 2 * (workers - 1)
    return compute / workers + rounds * (nbytes / workers / bandwidth + latency)""",
    "server.stale": """\
# B, C and B pushed after A pulled.
staleness = 3""",
    "server.recount": """\
def recount(history):
    # A worker's last push gave it the version that it trains from. Its new push makes one itself.
    return history.groupby("partition")["version"].diff() - 1""",
    "server.traffic": """\
# 90 batches of a worker make 5 milestones, the last one with 10 batches. Parameters go both ways.
nbytes = 2 * 5 * 2 * 650 * 4""",
    "staleness.dynsgd": """\
def merge(center, update, push):
    return center + update / (push.staleness + 1)""",
    "staleness.round": """\
def one_round(n):
    # n pushes: downpour adds each in full, dynsgd one n-th of each.
    return n, n * (1 / n)""",
    "staleness.rate": """\
rate = 0.8 * tos.theory.stability_bound(8 - 1) / tos.theory.stability_bound(0)""",
    "stragglers.rate": """\
# asp: seven at full speed, one at a fifth. bsp: all at the pace of the slow one.
asp, bsp = (7 + 1 / 5) / 8, 1 / 5""",
    "stragglers.resume": """\
# Seven milestones of 5 batches are committed: batches 0 to 34.
batch = 7 * 5""",
    "stragglers.once": """\
class Server:
    def __init__(self):
        self.total = 0
        self.seen = set()

    def push(self, epoch, partition, sequence, change):
        name = epoch, partition, sequence
        if name not in self.seen:
            self.seen.add(name)
            self.total += change""",
    "stragglers.survive": """\
# Each rule kills each of two workers once: four attempts are lost.
mine = count_all(tos.chaos.Kill(any=2, at=3), tos.chaos.Kill(any=2, at=20))""",
    "modes.waits": """\
def waits(clocks, slack):
    if slack is None:
        return []
    return [worker for worker, clock in enumerate(clocks) if clock - min(clocks) > slack]""",
    "modes.seconds": """\
import numpy as np


def seconds(compute):
    # bsp: the slowest of each milestone, added up. asp: each worker by itself, the slowest of them.
    return compute.max(axis=0).sum(), compute.sum(axis=1).max()""",
    "modes.stalest": """\
def stalest(workers, slack):
    # Each other worker comes from slack milestones behind to slack + 1 ahead.
    return (workers - 1) * (2 * slack + 1)""",
    "images.parameters": """\
def parameters(size, channels, filters):
    return (size * size * channels + 1) * filters""",
    "images.stopping": """\
def early_stopping(losses, patience):
    best = 0
    for epoch, loss in enumerate(losses):
        if loss < losses[best]:
            best = epoch
        if epoch - best >= patience:
            return epoch, best
    return len(losses) - 1, best""",
    "images.confusion": """\
def confusion(right, read):
    table = np.zeros((10, 10), int)
    np.add.at(table, (right, read), 1)
    return table""",
    "layouts.shards": """\
# Each of three shards may hold the end of one digit and the beginning of the next.
most = 3 * 2""",
    "layouts.skew": """\
def skew(table):
    table = np.asarray(table)
    shares = table / table.sum(axis=1, keepdims=True)
    common = table.sum(axis=0) / table.sum()
    return np.abs(shares - common).sum(axis=1).mean() / 2""",
    "layouts.cards": """\
class Cards:
    def __init__(self, num_partitions):
        self.num_partitions = num_partitions

    def assign(self, rows, epoch, partition):
        return (np.arange(rows) + epoch) % self.num_partitions""",
    "layouts.by_label": """\
class ByLabel:
    def __init__(self, num_partitions):
        self.num_partitions = num_partitions

    def deal(self, counts):
        return np.cumsum(counts), np.arange(len(counts)) % self.num_partitions""",
    "own_combiner.damped": """\
def damped(center, update, push):
    return center + update / np.sqrt(push.staleness + 1)""",
    "own_combiner.capped": """\
def capped(center, update, push):
    return center + np.clip(update, -0.1, 0.1)""",
    "own_combiner.momentum": """\
class Momentum(tos.combiners.StatefulCombiner):
    def reset(self, like):
        self.velocity = np.zeros_like(like)

    def merge(self, center, update, push):
        self.velocity *= 0.5
        self.velocity += update
        center += self.velocity
        update[...] = center""",
    "clusters.memory": """\
def overhead(data_gb, executors):
    return 1 + 2 * data_gb / executors""",
    "clusters.settings": """\
settings = {
    "spark.cores.max": "6",
    "spark.executor.cores": "2",
    "spark.tos.server.host": "gateway.example.org",
    "spark.tos.server.port": "7080",
}""",
    "clusters.resume": """\
# It begins at the checkpoint. The history shows each row once in each epoch.
trained, shown = 5 * 1437 - 2000, 5 * 1437""",
    "clusters.remedy": """\
mine = {"a": 4, "b": 2, "c": 1, "d": 3}""",
    "closing.quiz": """\
answers = {1: "c", 2: "b", 3: "a", 4: "b", 5: "d"}""",
    "closing.choice": """\
rows = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}""",
    "tensorflow_cluster.places": """\
jobs = {"variables": "ps", "gradients": "worker", "step": "ps"}""",
    "tensorflow_cluster.replication": """\
kinds = {"a": "in-graph", "b": "between-graph", "c": "between-graph", "d": "in-graph"}""",
}
"""By the exercise's name, in the order of the course."""
