"""Java classes of this package: compiled by the compiler that Spark has, and sent to executors."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..errors import WorkerEnvironment
from .calls import java_errors, reason

if TYPE_CHECKING:
    from pyspark import SparkContext

_lock = threading.Lock()

_loaders: WeakKeyDictionary[SparkContext, dict[Path, Any]] = WeakKeyDictionary()
"""Of each Spark context: Java's class loaders, by the source of the classes."""


@contextmanager
def java_classes(sc: SparkContext, source: Path) -> Iterator[None]:
    """Let Spark find the classes of a Java file by their names, while the context is open.

    The executors have them for as long as the Spark context lasts.

    Parameters
    ----------
    sc : SparkContext
    source : Path
        Java as Janino understands it: without type arguments that it would have to infer.

    Raises
    ------
    WorkerEnvironment
        This Spark cannot compile it.
    """
    thread = sc._jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    with _lock:
        known = _loaders.setdefault(sc, {})
        if source not in known:
            known[source] = _loader(sc, source, before)
    thread.setContextClassLoader(known[source])
    try:
        yield
    finally:
        thread.setContextClassLoader(before)


def _loader(sc: Any, source: Path, parent: Any) -> Any:
    """Compile a file, send it to the executors, and return what loads its classes here."""
    # Executors fetch it whenever they start: it has to last as long as the context.
    archive = Path(sc._temp_dir, f"{source.stem}.jar")
    try:
        compiler = sc._jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(parent)
        compiler.cook(source.read_text(encoding="utf-8"))
        classes = compiler.getBytecodes()
        with zipfile.ZipFile(archive, "w") as zipped:
            for name in classes:
                zipped.writestr(f"{name.replace('.', '/')}.class", bytes(classes[name]))
        sc._jsc.addJar(archive.as_uri())
    except java_errors(TypeError) as error:
        raise WorkerEnvironment(
            f"Spark's own Java compiler, Janino, is needed for {source.name}, and failed: "
            f"{reason(error)}. Use a Spark 4 as it is published, such as pip install pyspark."
        ) from None
    urls = sc._gateway.new_array(sc._jvm.java.net.URL, 1)
    urls[0] = sc._jvm.java.io.File(str(archive)).toURI().toURL()
    loader = sc._jvm.java.net.URLClassLoader(urls, parent)
    # Hadoop looks for classes by the loader of its configuration, which is that of Spark's start.
    sc._jsc.hadoopConfiguration().setClassLoader(loader)
    return loader
