"""The magics, ``%load_ext tos_notebook``; they read cells and call sessions, and train nothing."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent, fill
from typing import Any, TypeVar

from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class
from traitlets import Enum, TraitError, Unicode, validate

from ..common.checks import did_you_mean
from ..common.console import is_noninteractive
from ..errors import ConfigError, TosError
from ..nodes.runs import ClusterRun
from ..readable import ipython_shell
from ..steering.actions import ACTIONS, Action
from ..steering.machine import Command
from ..training.options import OPTIONS, by_own_name
from . import arguments, board, steer
from .cell import keep_empty
from .cluster import ClusterLauncher
from .completion import matcher
from .connect import Connection
from .find import named
from .parsers import CONFIGURABLE, IF_RUNNING, ON_INTERRUPT, PARSERS
from .text import combiners, say
from .train import RunLauncher
from .traits import read, trait

Method = TypeVar("Method", bound=Callable[..., Any])


def documented(method: Method) -> Method:
    """Put usage and options, from the parser, behind a magic's docstring and its examples."""
    summary, _, rest = (method.__doc__ or "").partition("\n")
    more = combiners() if method.__name__ == "tos_combiner" else ""
    parts = [summary, dedent(rest).strip(), more, PARSERS[method.__name__].help()]
    method.__doc__ = "\n\n".join(part for part in parts if part)
    return method


def command(action: Action) -> Callable[..., None]:
    """Return the magic of a command of `tos_notebook.steering.actions`."""

    def method(self: TosMagics, line: str) -> None:
        self._command(action, line)

    examples = [f"    %{action.magic} {example}".rstrip() for example in action.examples]
    more = [fill(action.more, 98), ""] if action.more else []
    text = [action.help, "", *more, "Examples", "--------", "::", "", *examples]
    method.__name__, method.__doc__ = action.magic, "\n".join(text)
    made: Callable[..., None] = line_magic(documented(method))
    return made


@magics_class
class TosMagics(Magics):
    """Training on Spark from a cell. The traits are the defaults of ``%%tos_train``."""

    data = Unicode("", help="variable of the training data").tag(config=True)
    validation_data = Unicode("", help="variable of the validation data").tag(config=True)
    locals().update({name: trait(each) for name, each in CONFIGURABLE.items()})
    checkpoint_dir = Unicode("", help="where runs are saved while they train").tag(config=True)
    checkpoint_every = Unicode("30s", help=OPTIONS["checkpoint_every"].help).tag(config=True)
    on_interrupt = Enum(ON_INTERRUPT, "leave", help="what interrupting --wait does").tag(
        config=True
    )
    if_running = Enum(IF_RUNNING, "ask", help="what to do if the cell's run is active").tag(
        config=True
    )

    @validate(*CONFIGURABLE)
    def _known(self, proposal: Any) -> Any:
        # A configuration file is read before there are variables.
        if getattr(self, "shell", None) is not None:
            try:
                self._check(proposal.trait.name, proposal.value)
            except TosError as error:
                raise TraitError(str(error)) from None
        return proposal.value

    def __init__(self, shell: Any) -> None:
        from ..lab.targets import Targets

        super().__init__(shell)
        self.targets = Targets(shell)
        self._connection = Connection(self.shell)
        self._runs = RunLauncher(shell, self._connection)
        self._clusters = ClusterLauncher(shell, self._connection, self.targets.hub.watch_cluster)
        self.matcher = matcher(shell.user_ns, self.trait_names(config=True))

    @line_magic
    @documented
    def tos_connect(self, line: str) -> None:
        """Connect to Spark: adopt the notebook's or the running one, or start one.

        Puts `spark` and `sc` into the notebook and imports TensorFlow on the executors in the
        background.

        Examples
        --------
        ::

            %tos_connect
            %tos_connect local[2]
            %tos_connect spark://master:7077 --conf spark.executor.memory=4g spark.cores.max=8
        """
        self._connection.connect(self.shell.user_ns, PARSERS["tos_connect"].parse(line))

    @line_cell_magic
    @documented
    def tos_train(self, line: str, cell: str | None = None) -> None:
        """Train what the cell defines, or names, on Spark, and show it; returns at once.

        The cell is ordinary TensorFlow and makes a compiled Keras model, or a TF1-style graph
        with a session, a train operation and placeholders. A graph's cell runs in a graph of its
        own each time; in later cells, use `with sess.graph.as_default():` to add to it. As a
        line, %tos_train trains what earlier cells have made. The trained values are in the model
        or the session afterwards.

        Defaults are those of %tos_config. With TOS_NONINTERACTIVE=1 in the environment it waits
        for the end and writes plain lines.

        Examples
        --------
        ::

            %%tos_train --data train --epochs 10 --validation-data test -o run
            model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(10, "softmax")])
            model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])

            %tos_train --model model --data x,y --batch-size 32 --combiner easgd --wait
            %tos_train --fetch train_step --feeds x,y_ --loss cross_entropy --data rdd
            %tos_train --data x,y --epochs 10 --name "wide, Adam"
            %tos_train --data x,y --epochs 50 --checkpoint-dir hdfs:///runs --checkpoint-every 5min
            %tos_train --data rdd --epochs 5 --shuffle partitions
            %tos_train --data x,y --validation-data a,b --stop-when "val_accuracy > 0.98"
        """
        options = PARSERS["tos_train"].parse(line)
        arguments.complete(options, {n: getattr(self, n) for n in self.trait_names(config=True)})
        with arguments.as_written(line):
            self._runs.launch(options, line, cell)

    @line_cell_magic
    @documented
    def tos_cluster(self, line: str, cell: str | None = None) -> None:
        """Run the cell's main(args, ctx) in the nodes of a TensorFlow cluster on Spark.

        The cell runs in the notebook first, and defines main, which then runs in each node: the
        chief, workers, parameter servers and an evaluator. It knows its place by ctx.job_name,
        ctx.task_index and TF_CONFIG. The cluster ends when main has ended in the chief and all
        workers. The call returns at once; the view shows each node, its state and its last lines.

        The variable cluster is the cluster then: cluster.stop(), cluster.wait(), cluster.check(),
        cluster.nodes, cluster.spec and cluster.lines("worker", 0). %tos_view cluster shows
        another view of it, and %tos_status and %tos_stop also take it. With TOS_NONINTERACTIVE=1 in
        the environment the cell waits for the end and writes plain lines.

        Examples
        --------
        ::

            %%tos_cluster --workers 2 --ps 1
            def main(args, ctx):
                print(ctx.job_name, ctx.task_index, ctx.cluster_spec)

            %%tos_cluster --workers 2 --feed x,y --epochs 3 --tensorboard /tmp/logs
            def main(args, ctx):
                feed = ctx.get_data_feed()
                while not feed.should_stop():
                    batch = feed.next_batch(32)

            %tos_cluster --workers 3 --chief --evaluator --args settings --restarts 2 --wait
        """
        self._clusters.launch(PARSERS["tos_cluster"].parse(line), line, cell)

    @line_magic
    @documented
    def tos_status(self, line: str) -> None:
        """Say where a run stands, how fast it is, and by which settings it trains.

        Of a TensorFlow cluster it says where each node stands, with its last lines.

        Examples
        --------
        ::

            %tos_status
            %tos_status wide
            %tos_status 2
            %tos_status cluster
        """
        self._connection.raise_once()
        name = PARSERS["tos_status"].parse(line).run
        if cluster := self._cluster(name):
            steer.cluster_status(cluster)
        else:
            steer.status(steer.find_run(self.shell.user_ns, name))

    @line_magic
    @documented
    def tos_view(self, line: str) -> None:
        """Show the live view of a run or a cluster in this cell; after its end, its picture.

        A run or a cluster can have any number of views.

        Examples
        --------
        ::

            %tos_view
            %tos_view wide
            %tos_view cluster
        """
        from .. import widgets

        name = PARSERS["tos_view"].parse(line).run
        if cluster := self._cluster(name):
            widgets.cluster_view(cluster).show()
        else:
            widgets.view(steer.find_run(self.shell.user_ns, name)).show()

    locals().update({action.magic: command(action) for action in ACTIONS.values()})

    @line_magic
    @documented
    def tos_resume(self, line: str) -> None:
        """Continue a saved run from its last checkpoint, and show it.

        %tos_runs lists the saved runs of a directory. %tos_unpause ends a pause.

        Examples
        --------
        ::

            %tos_resume hdfs:///runs/run-20261122-010203-3f9a1c
            %tos_resume hdfs:///runs/run-20261122-010203-3f9a1c --data train --model model -o run
        """
        options = PARSERS["tos_resume"].parse(line)
        with arguments.as_written(line):
            self._runs.resume(options)

    @line_magic
    @documented
    def tos_runs(self, line: str) -> Any:
        """Return the runs of this notebook as a table, oldest first; or those saved in a directory.

        Examples
        --------
        ::

            %tos_runs
            table = %tos_runs
            %tos_runs hdfs:///runs
        """
        uri = PARSERS["tos_runs"].parse(line).uri
        if uri is None:
            return steer.runs_table()
        return steer.saved_runs(uri, self._connection.ensure(self.shell.user_ns))

    @line_magic
    @documented
    def tos_compare(self, line: str) -> Any:
        """Compare runs, as tos.compare does: a table and a figure.

        Examples
        --------
        ::

            %tos_compare first second
            %tos_compare 1 2 3
        """
        from ..telemetry.compare import compare

        names = PARSERS["tos_compare"].parse(line).runs
        return compare(*(steer.find_run(self.shell.user_ns, name) for name in names))

    @line_magic
    @documented
    def tos_tensorboard(self, line: str) -> None:
        """Open TensorBoard on a run's event files, also while it trains.

        It needs the package tensorboard, and a browser that reaches the kernel's machine. What is
        not on this machine is copied to it.

        Examples
        --------
        ::

            %tos_tensorboard
            %tos_tensorboard hdfs:///logs/run1
        """
        options, space = PARSERS["tos_tensorboard"].parse(line), self.shell.user_ns
        board.show(options, space, lambda: self._connection.ensure(space))

    @line_magic
    @documented
    def tos_config(self, line: str) -> None:
        """Show the defaults of %%tos_train, or set some.

        `%config TosMagics.epochs = 5` does the same.

        Examples
        --------
        ::

            %tos_config
            %tos_config epochs=5 combiner=easgd repartition_every=None
        """
        given = dict(PARSERS["tos_config"].parse(line).settings)
        settings = by_own_name(OPTIONS.values(), given, texts=True)
        self._configure(settings)
        names = settings or sorted(self.trait_names(config=True))
        for name in names:
            say(f"{name:<18}{getattr(self, name)!r:<12}{self.traits()[name].help}")

    def _configure(self, settings: dict[str, str]) -> None:
        """Set defaults, all or none of them."""
        known = self.traits(config=True)
        for name in settings:
            if name not in known:
                hint = did_you_mean(name, known) or f" It has {', '.join(sorted(known))}."
                raise ConfigError(f"%tos_config: unknown default {name!r}.{hint}")
        try:
            values = {name: read(known[name], text) for name, text in settings.items()}
            for name, value in values.items():
                self._check(name, value)
            with self.hold_trait_notifications():
                for name, value in values.items():
                    setattr(self, name, value)
        except (TraitError, TosError) as error:
            raise ConfigError(f"%tos_config: {error}") from None

    def _check(self, name: str, value: Any) -> None:
        """Refuse a default that no cell can train with; it may be a variable of the notebook."""
        if name in CONFIGURABLE:
            CONFIGURABLE[name].checked(named(self.shell.user_ns, name, value))

    def _command(self, action: Action, line: str) -> None:
        options = PARSERS[action.magic].parse(line)
        if action.command is Command.STOP and (cluster := self._cluster(options.run)):
            steer.stop_cluster(cluster)
        else:
            steer.act(action, self.shell.user_ns, options)

    def _cluster(self, name: str | None) -> ClusterRun | None:
        started = [watched.run for watched in self.targets.hub.clusters.values()]
        return steer.find_cluster(self.shell.user_ns, name, started)


def load_ipython_extension(ip: Any) -> None:
    """Register the magics and their completion; twice does no harm.

    Parameters
    ----------
    ip : InteractiveShell
    """
    unload_ipython_extension(ip)
    magics = TosMagics(ip)
    # Programs that execute notebooks would wonder aloud at a comm that they do not know.
    magics.targets.register(announce=not is_noninteractive())
    ip.register_magics(magics)
    ip.Completer.custom_matchers.append(magics.matcher)
    ip.input_transformers_cleanup.append(keep_empty)


def notebook_shell() -> Any:
    """Return the shell of the notebook whose kernel this process is; None in scripts."""
    shell = ipython_shell()
    return None if getattr(shell, "kernel", None) is None else shell


def load_once(ip: Any) -> None:
    """Load the extension, unless it is loaded.

    Parameters
    ----------
    ip : InteractiveShell
    """
    if TosMagics.__name__ not in ip.magics_manager.registry:
        ip.extension_manager.load_extension("tos_notebook")


def unload_ipython_extension(ip: Any) -> None:
    """Take the magics away again; runs continue, and further ones are not watched.

    Parameters
    ----------
    ip : InteractiveShell
    """
    registry = ip.magics_manager.registry
    magics = registry.pop(TosMagics.__name__, None)
    if magics is None:
        return
    magics.targets.unregister()
    ip.Completer.custom_matchers.remove(magics.matcher)
    ip.input_transformers_cleanup.remove(keep_empty)
    ip.configurables.remove(magics)
    for kind, names in TosMagics.magics.items():
        for name in names:
            ip.magics_manager.magics[kind].pop(name, None)
