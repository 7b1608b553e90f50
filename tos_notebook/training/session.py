"""`TrainingSession`: a Spark context, a program and a server for its workers."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from ..blocks.source import DataSource
from ..cluster.backend import spark_context
from ..cluster.calls import announced
from ..cluster.environment import why_deployed
from ..cluster.executors import contact_host, contact_port, encrypts_loopback, last_port
from ..cluster.files import temporary_directory
from ..cluster.given import given_spark
from ..cluster.jobs import spare_jobs, spoken
from ..cluster.opening import open_published
from ..cluster.reach import listening_host
from ..combiners import as_combiner
from ..common.interrupts import refuse_more
from ..coordination.server import RunServer
from ..coordination.settings import Settings
from ..data.chosen import chosen, like
from ..errors import CaptureError, InvalidTransition, SessionClosed, TosError
from ..program.capture import capture
from ..program.export.base import Program
from ..telemetry.bus import Sink
from ..transport.auth import new_secret
from .checkpoint.writer import CheckpointWriter
from .deployed.launch import deploy
from .deployed.request import Request, options_for_task, packed_model
from .factory import RunFactory, asking, runs
from .launching import (
    captured,
    first_request,
    probe,
    refuse_if_active,
    refuse_without_checkpoints,
    refuse_without_state,
    require_directory,
    resumed_request,
    saved_often,
    weighted,
)
from .lifecycle import Lifecycle
from .observers.build import Observers
from .observers.interval import IntervalChooser
from .observers.same_model import SameModel, trains
from .options import (
    OPTIONS,
    CallOptions,
    CheckedOptions,
    ObserverOptions,
    RunOptions,
    SessionOptions,
    documents,
    for_one_run,
    names_as_typed,
    offers,
    options_of,
    other_names,
    pick,
    subset,
    takes,
)
from .options.arguments import SessionArguments, StartArguments
from .options.elsewhere import of_session, of_start
from .parts import Resumed
from .run import Run
from .run_request import RunRequest
from .shown import wait_or_stop, with_line
from .unbuilt import build, is_unbuilt

_OWN = options_of(SessionOptions)

_WAITING = {
    **OPTIONS,
    **{n: each.optional for n, each in _OWN.items()},
    "wait": replace(OPTIONS["wait"], default=True),
}
"""What `TrainingSession.run` takes."""


@documents([*_OWN.values(), *other_names(_OWN.values())])
class TrainingSession:
    """Trains one program on one Spark context, run after run.

    A context manager; closing it stops an active run, keeps the weights, and leaves nothing
    behind but what `checkpoint_dir` holds.

    Parameters
    ----------
    spark : SparkSession or SparkContext
        As `tos_notebook.connect` returns it.
    program : Program or keras.Model
        As `tos_notebook.capture` returns it, or the model. The first run makes the weights of a
        model that has none, by the shapes of its data.
    server_host : str, optional
        The address of this process that executors can reach: behind address translation the
        outer one. By default the setting ``spark.tos.server.host``, else Spark's own choice for
        the driver, ``spark.driver.host``. Unless it is a loopback address, workers and server
        speak TLS 1.3 only; also there if the setting ``spark.tos.server.tls`` is true.
    server_port : int, optional
        0 for any free port; by default the setting ``spark.tos.server.port``, else 0.
    checkpoint_dir : str, optional
        A Hadoop URI, or a path on Spark's default file system, as for ``spark.read``: for
        programs, initial parameters and checkpoints. By default a temporary directory of the
        driver, which lasts as long as this process.

    Raises
    ------
    ConfigError
        A setting is out of range.
    CombinerError, CodecError
        An unknown combiner or codec.
    CaptureError
        The program cannot be captured.
    TransportError
        The server's port cannot be bound.
    WorkerEnvironment
        Executors lack a package. With a local master it ends the run instead.
    ClusterUnreachable
        Executors cannot reach this process.
    """

    @names_as_typed
    @takes(SessionArguments, of_session)
    def __init__(self, given: SessionArguments) -> None:
        self._asked = pick(SessionOptions, vars(given))
        self._options = self._asked.checked()
        self._unbuilt: Any = given.program if is_unbuilt(given.program) else None
        self._base = None if self._unbuilt is not None else capture(given.program)
        known = None if self._base is None else captured(self._base, self._options)
        sc = spark_context(given_spark(given.spark))
        self._ask = asking(sc)
        self._host = given.server_host or contact_host(sc)
        port = contact_port(sc) if given.server_port is None else given.server_port
        look = probe(sc, self._host, port)
        self._directory = given.checkpoint_dir
        self._sc = sc
        self._run: Run | None = None
        self._closed = False
        # Whether the session is over when its run is.
        self._only = False
        self._lock = threading.Lock()
        atexit.register(self.close)
        self._known: RunFactory | None = None
        self._server: RunServer | None = None
        self._deployed = why_deployed(sc, (self._host, port))
        if self._deployed:
            return
        storage = open_published(sc, given.checkpoint_dir or temporary_directory(sc))
        self._files = storage.uri
        secret = new_secret()
        listening, last = listening_host(self._host), last_port(sc, port)
        self._server = RunServer(secret, listening, port, encrypts_loopback(sc), last)
        self._made = partial(
            RunFactory,
            sc,
            storage=storage,
            server=self._server,
            host=self._host,
            secret=secret,
            options=self._options,
            ask=self._ask,
            look=look,
        )
        self._known = None if known is None else self._made(known)

    @property
    def combiner(self) -> Any:
        """The rule of the next run, or None; may be set to whatever the constructor takes."""
        return self._options.combiner

    @combiner.setter
    def combiner(self, value: Any) -> None:
        asked = replace(self._asked, combiner=as_combiner(value))
        self._options = asked.checked()
        self._asked = asked

    @property
    def _factory(self) -> RunFactory:
        if self._known is None:
            raise CaptureError(
                f"Model {self._unbuilt.name!r} has no weights yet. The first run makes them by its "
                "data. To have them before, give it a keras.Input, or call it once on a batch."
            )
        return self._known

    @property
    def program(self) -> Program:
        """What is trained.

        Raises
        ------
        CaptureError
            The model has no weights before its first run.
        """
        return self._base if self._deployed and self._base is not None else self._factory.program

    def _build(self, data: Any) -> None:
        """Make the model's weights, and capture it, if that is still to be done."""
        if self._base is None:
            look = partial(build, self._unbuilt, self._sc, data)
            self._ask("the first rows of the data", look)
            self._base = capture(self._unbuilt)
        if self._known is None and not self._deployed:
            self._known = self._made(captured(self._base, self._options))

    def _factory_for(self, options: CheckedOptions, call: CallOptions) -> RunFactory:
        """Return what makes the next run, by options that may be for that one only."""
        found = replace(self._factory, options=options)
        assert self._base is not None
        if options.strategy != self._options.strategy or call.class_weight is not None:
            program = weighted(self._base, call.class_weight)
            found = replace(found, program=captured(program, options))
        if call.checkpoint_dir is not None:
            found = replace(found, storage=open_published(self._sc, call.checkpoint_dir))
        return found

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def address(self) -> str:
        """Where executors reach the parameter server, as host:port; nothing if a task has it."""
        if self._server is None:
            return ""
        return f"{self._host}:{self._server.address.port}"

    @names_as_typed
    @takes(StartArguments, of_start, unset=_OWN)
    def start(self, given: StartArguments) -> Run:
        """Begin to train and return at once, unless `wait` is true.

        An option of the session that is given here counts for this run. Another strategy comes with
        its own combiner, sync mode and sync interval, unless you also give these.

        In a plain Python script, Ctrl-C cancels all of Spark's jobs by PySpark's handler. The first
        start on the main thread puts Python's own back: Ctrl-C ends a wait, and no run.

        Parameters
        ----------
        data : RDD of tuple, tuple of ndarray, columns of a DataFrame, TFRecord files, or callable
            Records (feature, label), or longer ones for several inputs. Or one array for each feed,
            or what `tos_notebook.columns` or `tos_notebook.tfrecords` returns. Or a function of
            `tos_notebook.data.described.DatasetContext` that returns a `tf.data.Dataset` of
            records. Or a `tf.data.Dataset`, a DataFrame of Spark or pandas, lists, or a dataset of
            Hugging Face.
        epochs : int
            Passes over the data.

        Raises
        ------
        ConfigError, CombinerError, CodecError, DataError, ShapeMismatch, UnsupportedProgram
            Settings, data or program do not fit; nothing was started.
        CheckpointError
            The directory cannot be written to, or the combiner's state cannot be saved.
        WaitTimeout
            Spark does not answer, or other runs hold all slots and the data have to be looked at
            first. Nothing was started; see docs/troubleshooting/errors.md.
        InvalidTransition
            Another run is active.
        SessionClosed
            The session was closed.
        """
        call = pick(CallOptions, vars(given)).checked()
        options = saved_often(pick(RunOptions, vars(given)), call.checkpoint_dir).checked()
        beside = pick(ObserverOptions, vars(given)).checked(options.validation_split)
        rows = like(beside.validation_data, call.features, call.label)
        sinks = with_line(tuple(beside.sinks), call.verbose)
        beside = replace(beside, validation_data=rows, sinks=sinks)
        session = for_one_run(self._asked, subset(SessionOptions, vars(given)))
        data = partial(chosen, given.data, call.features, call.label)
        with self._ask.patiently() if call.wait else nullcontext():
            if self._deployed:
                run = self._deploy(data, vars(given), sinks)
            else:
                run = self._start(data, session, options, beside, call)
        return wait_or_stop(run) if call.wait else run

    def _deploy(
        self, choose: Callable[[], Any], given: Mapping[str, Any], sinks: Sequence[Sink]
    ) -> Run:
        """Begin to train, with the server in a Spark task; all that is given is in range."""
        options = options_for_task(given)
        with self._lock, spoken():
            self._refuse_another()
            data = choose()
            self._build(data)
            assert self._base is not None
            asked = vars(self._asked) | {"checkpoint_dir": self._directory}
            request = Request(packed_model(self._base), given["data"], asked, options)
            self._run = deploy(self._sc, self._base, request, sinks, self._deployed, self._on_end)
            return self._run

    def _refuse_another(self) -> None:
        if self._closed:
            raise SessionClosed("This session was closed; create another TrainingSession.")
        if self._run is not None:
            refuse_if_active(self._run)

    def _start(
        self,
        choose: Callable[[], Any],
        session: CheckedOptions,
        options: RunOptions,
        observer_options: ObserverOptions,
        call: CallOptions,
    ) -> Run:
        """Begin to train; all that is given is in range."""
        own = session.strategy.settings(session.combiner, session.codec)
        if options.every is not None:
            require_directory(call.checkpoint_dir or self._directory, options)
            own.require_saveable()
        else:
            refuse_without_checkpoints(options)
        files = call.checkpoint_dir or self._files
        with self._lock, spoken(), announced(f"Spark, the data, or the files in {files}"):
            self._refuse_another()
            data = choose()
            self._build(data)
            factory = self._factory_for(session, call)
            refuse_without_state(factory.program, session)
            request, observers = first_request(factory, own, data, options, observer_options)
            if session.chooses_interval:
                observers = replace(observers, makers=(*observers.makers, IntervalChooser))
            if others := [run for run in runs() if run.active and trains(run, factory.program)]:
                same = partial(SameModel, others=others)
                observers = replace(observers, makers=(*observers.makers, same))
            return self._launch(factory, request, observers)

    def _resume(
        self,
        source: DataSource,
        settings: Settings,
        resumed: Resumed,
        checkpointer: CheckpointWriter,
        observers: Observers,
        change: Callable[[Lifecycle], object],
    ) -> Run:
        """Continue a run, as the only one of this session; see `tos_notebook.resume`."""
        self._only = True
        factory = self._factory
        request = resumed_request(factory, source, settings, resumed, checkpointer, observers)
        if self._options.chooses_interval:
            observers = replace(observers, makers=(*observers.makers, IntervalChooser))
        with self._lock, announced(f"Spark, or the files in {factory.storage.uri}"):
            return self._launch(factory, request, observers, change)

    @offers([each for each in _WAITING.values() if each.name != "epochs"], aliases=True)
    def run(self, data: Any, epochs: int = 1, **options: Any) -> Run:
        """Train and wait for the end; an interrupt stops the run and keeps the weights.

        Parameters and errors are those of `start` and `Run.wait`.
        """
        return TrainingSession.start(self, data, epochs, **{"wait": True, **options})

    def _launch(
        self,
        factory: RunFactory,
        request: RunRequest,
        observers: Observers,
        first: Callable[[Lifecycle], object] = lambda run: None,
    ) -> Run:
        refuse_more()
        spare_jobs()
        self._run = run = factory.make(request, self._on_end)
        run.lifecycle.begin(run, observers.makers, partial(first, run.lifecycle))
        return run

    def _on_end(self) -> None:
        if self._only:
            self._closed = True
            atexit.unregister(self.close)
            self._close_server()

    def _close_server(self) -> None:
        if self._server is not None:
            self._server.close()

    def close(self) -> None:
        """Stop an active run, keep the weights, close the server; idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        atexit.unregister(self.close)
        try:
            if self._run is not None and self._run.active:
                self._stop(self._run)
        finally:
            self._close_server()

    @staticmethod
    def _stop(run: Run) -> None:
        try:
            run.stop()
        except InvalidTransition:
            run.wait(timeout=CLOSE_TIMEOUT)
        except TosError:
            if run.active:
                raise

    def __enter__(self) -> TrainingSession:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = f"serving at {self.address}" if self._server else "its server is in a Spark task"
        state = "closed" if self._closed else state
        rule = self._options.strategy if self.combiner is None else self.combiner
        what = self._unbuilt if self._base is None else self.program
        return f"<TrainingSession {state}: {what!r}, {rule!r}>"


CLOSE_TIMEOUT = 30.0
"""Seconds that `close` waits for a run that is ending by itself."""


def train_once(
    spark: Any, program: Any, settings: Mapping[str, Any], data: Any, options: Mapping[str, Any]
) -> Run:
    """Start a run in a session of its own, which is closed when the run has ended.

    Parameters
    ----------
    spark, program
        See `TrainingSession`.
    settings : mapping of str
        Further parameters of `TrainingSession`.
    data : object
        See `TrainingSession.start`, which says what is raised, too.
    options : mapping of str
        Further parameters of `TrainingSession.start`.
    """
    session = TrainingSession(spark, program, **settings)
    session._only = True
    try:
        return session.start(data, **options)
    except BaseException:
        session.close()
        raise
