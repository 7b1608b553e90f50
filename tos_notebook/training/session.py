"""`TrainingSession`: a Spark context, a program and a server for its workers."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..blocks.partitioners import AnyPartitioner
from ..blocks.source import DataSource
from ..cluster.calls import announced
from ..cluster.connect import connect
from ..cluster.executors import contact_host, contact_port, encrypts_loopback
from ..cluster.files import temporary_directory
from ..cluster.jobs import spare_jobs, spoken
from ..cluster.reach import listening_host
from ..cluster.storage import Storage
from ..codecs import Codec
from ..codecs.pair import CodecPair
from ..combiners import as_combiner
from ..coordination.server import RunServer
from ..coordination.settings import Settings
from ..errors import InvalidTransition, SessionClosed, TosError
from ..steering.sync import SyncMode
from ..steering.trigger import Trigger
from ..strategies.base import Strategy
from ..telemetry.bus import Sink
from ..telemetry.mlflow import MLflow
from ..transport.auth import new_secret
from .checkpoint.writer import CheckpointWriter
from .factory import RunFactory, RunRequest, asking
from .launching import (
    captured,
    first_request,
    probe,
    refuse_if_active,
    refuse_without_state,
    require_directory,
    resumed_request,
)
from .observers.build import Observers
from .options import ObserverOptions, RunOptions, SessionOptions, pick
from .parts import Resumed
from .run import Run


class TrainingSession:
    """Trains one program on one Spark context, run after run.

    A context manager; closing it stops an active run, keeps the weights, and leaves nothing
    behind but what `directory` holds.

    Parameters
    ----------
    spark : SparkSession or SparkContext
        As `tos_notebook.connect` returns it.
    program : Program or keras.Model
        As `tos_notebook.capture` returns it.
    strategy : str or Strategy
        What workers exchange, and with whom: ``"ps"``, or one of `tos_notebook.strategies`.
    combiner : str, Combiner, class or function, optional
        The rule by which the server merges a push; ``"dynsgd"`` by default, with
        ``sync="bsp"`` ``"fedavg"``.
    sync_interval : int, optional
        Batches between two exchanges; by default the strategy's, 10 with ``"ps"``.
    sync : str or SyncMode, optional
        How far a worker may be ahead of the slowest active one: ``"asp"`` for any distance,
        ``"ssp:3"`` for 3 milestones, ``"bsp"`` for none. A worker that has not started, has
        finished or has died makes no other wait.
    codec : str, Codec or CodecPair
        How updates and replies travel, such as ``"int8"``; ``"topk:0.01+ef/int8"`` for updates
        and for replies. As they are by default.
    batch_size : int
        Rows of one batch of each worker. `keras.fit` makes as many steps in an epoch where its
        batch size is this one times the number of workers.
    server_host : str, optional
        The address of this process that executors can reach: behind address translation the
        outer one. By default the setting ``spark.tos.server.host``, else Spark's own choice for
        the driver, ``spark.driver.host``. Unless it is a loopback address, workers and server
        speak TLS 1.3 only; there, too, if the setting ``spark.tos.server.tls`` is true.
    server_port : int, optional
        0 for any free port; by default the setting ``spark.tos.server.port``, else 0.
    directory : str, optional
        A Hadoop URI, or a path on Spark's default file system, as for ``spark.read``: for
        programs, initial parameters and checkpoints. By default a temporary directory of the
        driver, which lasts as long as this process.
    non_finite : {"raise", "skip"}
        What an update with NaN or infinity does: end the run, or be left out.
    optimizer_state : {"keep", "reset"}
        What becomes of a worker's optimizer state (momentum, Adam's m and v), which belongs to the
        parameters that it has trained, when it adopts the server's.

        ``"keep"``: it stays as it is, and costs nothing. It holds means over many steps, and soon
        gradients of the new parameters, too: in `benchmarks/accuracy/optimizer_state.py` this is
        0.3 to 0.6 points more accurate than to reset it. It belongs to the Python process: with
        more partitions than Spark runs tasks at once, a process continues with that of the last
        partition that it trained.

        ``"reset"``: it goes back to the values that it was captured with, and with it the count of
        steps by which Adam corrects for state that begins at 0; a schedule of the learning rate
        continues. Some 50 us for each tensor. For parameters that have little to do with those that
        the worker left, such as after long sync intervals, and to let a worker recover whose state
        has become NaN (`non_finite`). With short intervals momentum never builds up.

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
        Executors lack a package.
    ClusterUnreachable
        Executors cannot reach this process.
    """

    def __init__(
        self,
        spark: Any,
        program: Any,
        *,
        strategy: str | Strategy = SessionOptions.strategy,
        combiner: Any = SessionOptions.combiner,
        sync_interval: int | None = SessionOptions.sync_interval,
        sync: str | SyncMode | None = SessionOptions.sync,
        codec: str | Codec | CodecPair = SessionOptions.codec,
        batch_size: int = SessionOptions.batch_size,
        server_host: str | None = None,
        server_port: int | None = None,
        directory: str | None = None,
        non_finite: str = SessionOptions.non_finite,
        optimizer_state: str = SessionOptions.optimizer_state,
    ) -> None:
        # By name: a test compares the parameters with the fields.
        self._options = pick(SessionOptions, locals()).checked()
        self.program = captured(program, self._options)
        sc = connect(spark, warm_up=False).sparkContext
        self._ask = asking(sc)
        self._host = server_host or contact_host(sc)
        port = contact_port(sc) if server_port is None else server_port
        probe(sc, self._host, port)
        self._directory = directory
        storage = Storage(sc, directory or temporary_directory(sc))
        secret = new_secret()
        self._server = RunServer(secret, listening_host(self._host), port, encrypts_loopback(sc))
        self._factory = RunFactory(
            sc, self.program, storage, self._server, self._host, secret, self._options, self._ask
        )
        self._run: Run | None = None
        self._closed = False
        # Whether the session is over when its run is.
        self._only = False
        self._lock = threading.Lock()
        atexit.register(self.close)

    @property
    def combiner(self) -> Any:
        """The rule of the next run, or None; may be set to whatever the constructor takes."""
        return self._options.combiner

    @combiner.setter
    def combiner(self, value: Any) -> None:
        self._options = replace(self._options, combiner=as_combiner(value)).checked()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def address(self) -> str:
        """Where executors reach the parameter server, as host:port."""
        return f"{self._host}:{self._server.address.port}"

    def start(
        self,
        data: Any,
        epochs: int = RunOptions.epochs,
        *,
        shuffle: bool | str = RunOptions.shuffle,
        repartition_every: int | None = RunOptions.repartition_every,
        partitions: int | None = RunOptions.partitions,
        partitioner: AnyPartitioner | None = RunOptions.partitioner,
        seed: int = RunOptions.seed,
        validation: Any = ObserverOptions.validation,
        validation_every: str | int | Trigger | None = ObserverOptions.validation_every,
        validation_on: str = ObserverOptions.validation_on,
        callbacks: Any = ObserverOptions.callbacks,
        on_callback_error: str = ObserverOptions.on_callback_error,
        learning_rate: float | Callable[[int], Any] | None = ObserverOptions.learning_rate,
        stop_when: Any = ObserverOptions.stop_when,
        tensorboard: str | None = ObserverOptions.tensorboard,
        histograms: bool | None = ObserverOptions.histograms,
        mlflow: bool | str | MLflow | None = ObserverOptions.mlflow,
        sinks: Sequence[Sink] = ObserverOptions.sinks,
        patience: float = RunOptions.patience,
        stall_timeout: float | None = RunOptions.stall_timeout,
        checkpoint_every: str | int | Trigger | None = RunOptions.checkpoint_every,
        keep: int = RunOptions.keep,
    ) -> Run:
        """Begin to train and return at once.

        In a plain Python script, Ctrl-C cancels all of Spark's jobs by PySpark's handler. The first
        start on the main thread puts Python's own back: Ctrl-C ends a wait, and no run.

        Parameters
        ----------
        data : RDD of tuple, tuple of ndarray, columns of a DataFrame, TFRecord files, or callable
            Records (feature, label), or longer for several inputs; or one array for each feed; or
            what `tos_notebook.columns` or `tos_notebook.tfrecords` returns; or a function of
            `tos_notebook.data.described.DatasetContext` that returns a `tf.data.Dataset` of
            records.
        epochs : int
            Passes over the data.
        shuffle : bool or "partitions"
            True deals the rows to the partitions at random before the first epoch, and each epoch
            takes a partition's rows in a new random order. ``"partitions"`` does the latter only:
            each partition keeps the rows that it comes with. False keeps their order, too. See
            docs/data.md.
        repartition_every : int, optional
            Epochs between two random repartitions of all rows; never by default.
        partitions : int, optional
            Number of partitions. By default the partitioner's own; else those of the RDD or
            DataFrame; for arrays and functions as many as Spark runs tasks at once. An RDD or
            a DataFrame that is not dealt keeps its own number: another one is an error.
        partitioner : Partitioner or LabelPartitioner, optional
            Lays the rows out before the first epoch, such as one of `tos_notebook.partitioners`,
            instead of dealing them.
        seed : int
            Order and repartitioning are pure functions of it.
        validation : as data, but no callable, optional
            Evaluated when an epoch is done, while training continues.
        validation_every : str or int, optional
            Another rhythm, with the grammar of `checkpoint_every`, and at the end. Callbacks have
            the evaluations at the ends of epochs, too.
        validation_on : {"driver", "executors"}
            Where. The driver gets the rows of an RDD or a DataFrame once; executors measure them
            where they lie, and need a slot that training leaves free.
        callbacks : sequence of keras.callbacks.Callback
            Called on a thread of the driver, where a milestone counts as a batch; the exchange
            never waits for them. See docs/callbacks.md.
        on_callback_error : {"disable", "raise"}
            What a callback that raises does: it is called no more, or ends the run.
        learning_rate : float, keras.optimizers.schedules.LearningRateSchedule, callable, optional
            To begin with, or by the global step, an int: the optimizer steps that all workers
            together have made. Instead of the program's own. See docs/training.md.
        stop_when : callable, str, or sequence of them, optional
            Conditions of which any ends the run as `Run.stop` does: those of `tos_notebook.stop`,
            words such as ``"val_accuracy > 0.98"``, or functions of `Run.status`.
        tensorboard : str, optional
            A folder, as a Hadoop URI or a local path, for event files, written while the run
            trains; they need the package ``tensorboard``. See docs/tensorboard.md.
        histograms : bool, optional
            Whether the distribution of each weight is recorded, for `Run.weights_figure` and the
            event files; by default where event files are written.
        mlflow : bool, str or tos_notebook.MLflow, optional
            Whether the run is logged in MLflow, or the name of the experiment, or more to choose;
            in the active MLflow run if there is one. Needs the package ``mlflow``. See
            docs/mlflow.md.
        sinks : sequence of callable
            Further consumers of the run's events. Each has a thread of its own. One that raises,
            or is 50,000 events behind, gets no more; a note in `Run.status` says so. The end of
            the run waits 10 s for those that are still busy.
        patience : float
            Seconds without news after which the run says what it waits for: in `Run.status`, in
            the live view, and as event `Stalled`. A milestone that takes longer is news, too.
        stall_timeout : float or None
            Seconds without news after which a worker that is alive but stands still loses its
            place: the server refuses it from then on, the others wait for it no longer, and Spark
            kills its task and starts another attempt behind the last committed batch. None for
            never. To load the data and for its first milestone a worker has five times as long,
            and always three times as long as the longest milestone so far. A worker that waits
            for others, or for a paused run, does not stand still.
        checkpoint_every : str or int, optional
            How often all that a run needs to continue is saved in `directory`, which must be given:
            ``"30s"``, ``"5min"``, ``"2h"``, or milestones, ``"500 milestones"`` or 500; and when
            it ends. `tos_notebook.resume` continues there. Never by default.
        keep : int
            Checkpoints to keep; with more than one, a damaged one does no harm. Those of the last
            minute are kept, too.

        Raises
        ------
        ConfigError, DataError, ShapeMismatch, UnsupportedProgram
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
        # All parameters by name: a test compares them with the fields of both kinds.
        given = locals()
        options = pick(RunOptions, given).checked()
        observer_options = pick(ObserverOptions, given).checked()
        own = self._options.strategy.settings(self._options.combiner, self._options.codec)
        if options.every is not None:
            require_directory(self._directory, options)
            own.require_saveable()
        storage = self._factory.storage.uri
        with self._lock, spoken(), announced(f"Spark, the data, or the files in {storage}"):
            if self._closed:
                raise SessionClosed("This session was closed; create another TrainingSession.")
            if self._run is not None:
                refuse_if_active(self._run)
            refuse_without_state(self.program, self._options)
            request, observers = first_request(self._factory, own, data, options, observer_options)
            return self._launch(request, observers)

    def _resume(
        self,
        source: DataSource,
        settings: Settings,
        resumed: Resumed,
        checkpointer: CheckpointWriter,
        observers: Observers,
    ) -> Run:
        """Continue a run, as the only one of this session; see `tos_notebook.resume`."""
        self._only = True
        request = resumed_request(self._factory, source, settings, resumed, checkpointer, observers)
        with self._lock, announced(f"Spark, or the files in {self._factory.storage.uri}"):
            return self._launch(request, observers)

    def run(self, data: Any, epochs: int = 1, **options: Any) -> Run:
        """Train and wait for the end; an interrupt stops the run and keeps the weights.

        Parameters and errors are those of `start` and `Run.wait`.
        """
        with self._ask.patiently():
            run = self.start(data, epochs, **options)
        try:
            return run.wait()
        except KeyboardInterrupt:
            if run.active:
                run.stop()
            raise

    def _launch(self, request: RunRequest, observers: Observers) -> Run:
        spare_jobs()
        self._run = run = self._factory.make(request, self._on_end)
        run.lifecycle.begin(run, observers.makers)
        return run

    def _on_end(self) -> None:
        if self._only:
            self._closed = True
            atexit.unregister(self.close)
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
            self._server.close()

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
        state = "closed" if self._closed else f"serving at {self.address}"
        rule = self._options.strategy if self.combiner is None else self.combiner
        return f"<TrainingSession {state}: {self.program!r}, {rule!r}>"


CLOSE_TIMEOUT = 30.0
"""Seconds that `close` waits for a run that is ending by itself."""
