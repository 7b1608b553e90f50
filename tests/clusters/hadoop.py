"""A real HDFS and a real YARN in one JVM of their own, on random ports of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.clusters.jars import WHEEL, server_jars

STOP_TIMEOUT = 30.0
"""Seconds for the servers' JVM to end."""

YARN = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.5",
    "yarn.scheduler.minimum-allocation-mb": "128",
    # TensorFlow maps far more memory than it uses.
    "yarn.nodemanager.vmem-check-enabled": "false",
    # A full disk of the machine would make its nodes unhealthy.
    "yarn.nodemanager.disk-health-checker.enable": "false",
}

ADVERTISED = (
    "yarn.resourcemanager.address",
    "yarn.resourcemanager.scheduler.address",
    "yarn.resourcemanager.resource-tracker.address",
    "yarn.resourcemanager.admin.address",
    "yarn.resourcemanager.webapp.address",
)
"""What a client of YARN has to know; the ports are random."""

LOGGING = """
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


class Hadoop:
    """A name node, data nodes, a resource manager and node managers.

    The JVM ends when its stdin does, so nothing outlives this process, however it ends.

    Parameters
    ----------
    folder : Path
        For all that the servers write; their words are in ``servers.log``.
    data_nodes, node_managers : int
        No node managers: HDFS only.
    """

    def __init__(self, folder: Path, data_nodes: int = 2, node_managers: int = 2) -> None:
        self.folder = folder
        self.conf_dir = folder / "conf"
        self.conf_dir.mkdir(parents=True)
        self._start_jvm()
        try:
            self.dfs = self._start_hdfs(data_nodes)
            self.uri = str(self.dfs.getURI().toString())
            self._write("core-site", {"fs.defaultFS": self.uri})
            self._write("hdfs-site", {"dfs.replication": str(data_nodes)})
            if node_managers:
                self.yarn = self._start_yarn(node_managers)
                advertised = {key: str(self.yarn.getConfig().get(key)) for key in ADVERTISED}
                self._write("yarn-site", advertised)
        except BaseException:
            self.stop()
            raise

    def _start_jvm(self) -> None:
        logging = self.folder / "log4j2.properties"
        logging.write_text(LOGGING)
        home = os.environ.get("JAVA_HOME")
        (py4j,) = (WHEEL / "jars").glob("py4j-*.jar")
        with (self.folder / "servers.log").open("w") as log:
            port, token, self._process = launch_gateway(
                jarpath=str(py4j),
                classpath=f"{server_jars()}/*:{WHEEL}/jars/*",
                javaopts=[
                    "-Xmx512m",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    f"-Dlog4j2.configurationFile={logging}",
                    f"-Dhadoop.log.dir={self.folder}/log",
                    f"-Dtest.build.data={self.folder}/yarn",
                    f"-Djava.io.tmpdir={self.folder}",
                ],
                java_path=f"{home}/bin/java" if home else "java",
                die_on_exit=True,
                enable_auth=True,
                redirect_stdout=log,
                redirect_stderr=log,
                return_proc=True,
            )
        # Without memory management: what is collected here does not call into a JVM that has ended.
        parameters = GatewayParameters(
            port=port, auth_token=token, auto_convert=True, enable_memory_management=False
        )
        self._gateway = JavaGateway(gateway_parameters=parameters)
        self._hadoop = self._gateway.jvm.org.apache.hadoop

    def _start_hdfs(self, data_nodes: int) -> Any:
        conf = self._hadoop.hdfs.HdfsConfiguration()
        conf.set("hdfs.minidfs.basedir", f"{self.folder}/dfs")
        builder = getattr(self._hadoop.hdfs, "MiniDFSCluster$Builder")(conf)
        dfs = builder.numDataNodes(data_nodes).build()
        dfs.waitActive()
        return dfs

    def _start_yarn(self, node_managers: int) -> Any:
        conf = self._hadoop.yarn.conf.YarnConfiguration(self.dfs.getConfiguration(0))
        for key, value in YARN.items():
            conf.set(key, value)
        yarn = self._hadoop.yarn.server.MiniYARNCluster("cluster", node_managers, 1, 1)
        yarn.init(conf)
        yarn.start()
        assert yarn.waitForNodeManagersToConnect(30_000), "node managers do not connect"
        return yarn

    def _write(self, name: str, settings: dict[str, str]) -> None:
        properties = "".join(
            f"<property><name>{key}</name><value>{escape(value)}</value></property>\n"
            for key, value in settings.items()
        )
        text = f"<configuration>\n{properties}</configuration>\n"
        (self.conf_dir / f"{name}.xml").write_text(text)

    def put(self, files: Iterable[Path], target: str) -> str:
        """Copy local files into a directory of HDFS; return its URI."""
        file_system = self.dfs.getFileSystem()
        directory = self._hadoop.fs.Path(target)
        file_system.mkdirs(directory)
        for path in files:
            file_system.copyFromLocalFile(self._hadoop.fs.Path(path.as_uri()), directory)
        return self.uri + target

    def list(self, directory: str) -> dict[str, int]:
        """Return the files of a directory of HDFS, with their bytes; none if there is none."""
        file_system, path = self.dfs.getFileSystem(), self._hadoop.fs.Path(directory)
        found = file_system.listStatus(path) if file_system.exists(path) else []
        return {str(status.getPath().getName()): int(status.getLen()) for status in found}

    def stop(self) -> None:
        """End the servers' JVM; harmless when repeated."""
        self._process.stdin.close()
        self._process.wait(STOP_TIMEOUT)

    def __enter__(self) -> Hadoop:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
