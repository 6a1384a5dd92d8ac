"""A real Spark cluster on loopback: a master, two workers, a driver, all ended at the end.

The workers have addresses of their own, 127.0.0.1 and 127.0.0.2: Spark runs a task a second time
on another machine only. Everything that it writes, logs at DEBUG too, lies in one folder.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[1]
ADDRESSES = ("127.0.0.1", "127.0.0.2")
PATIENCE = 600.0
"""Seconds to wait for what a busy machine is slow to start."""

_LOGGING = """
rootLogger.level = debug
rootLogger.appenderRef.file.ref = err
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = debug
logger.pages.name = org.sparkproject.jetty
logger.pages.level = info
logger.network.name = io.netty
logger.network.level = info
appender.console.type = Console
appender.console.name = err
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For Java that ends before thorough compilation would pay."""


class SparkCluster:
    """Processes of a cluster, and the session of its driver."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._logging = folder / "log4j2.properties"
        self._logging.write_text(_LOGGING)
        (folder / "events").mkdir()
        self._port = _free_port()
        self._pages = {"master": _free_port()}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._session: Any = None

    def start(self) -> None:
        """Start master, workers and driver."""
        page = ["--webui-port", str(self._pages["master"])]
        host = ["--host", ADDRESSES[0], "--port", str(self._port)]
        self._start("master", ADDRESSES[0], "master.Master", [*host, *page])
        self.start_workers(*ADDRESSES)

    def start_workers(self, *addresses: str) -> None:
        """Start workers, and wait until the master knows them."""
        known = self._alive()
        for address in addresses:
            self._start_worker(address)
        self._until(lambda: self._alive() >= known + len(addresses))

    def _start_worker(self, address: str) -> None:
        name = f"worker-{address}"
        work = ["--work-dir", str(self.folder / f"work-{address}")]
        size = ["--cores", "1", "--memory", "1g", "--webui-port", "0"]
        self._start(name, address, "worker.Worker", ["--host", address, *size, *work, self.url])

    def kill_worker(self, address: str) -> None:
        """Kill a worker with everything that runs on it, at once."""
        _end(self._processes.pop(f"worker-{address}"))

    @property
    def url(self) -> str:
        """The address of the master."""
        return f"spark://{ADDRESSES[0]}:{self._port}"

    def session(self, **settings: str) -> Any:
        """Start a driver with a session."""
        from pyspark.sql import SparkSession

        options = f"-Dlog4j2.configurationFile=file:{self._logging} {_SHORT_LIVED}"
        (self.folder / "driver").mkdir(exist_ok=True)
        known = {
            "spark.driver.host": ADDRESSES[0],
            "spark.driver.bindAddress": ADDRESSES[0],
            "spark.driver.extraJavaOptions": f"{options} -Djava.io.tmpdir={self.folder / 'driver'}",
            "spark.executor.extraJavaOptions": options,
            "spark.executor.memory": "700m",
            "spark.executorEnv.PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "spark.eventLog.compress": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file:{self.folder / 'events'}",
            "spark.local.dir": str(self.folder / "driver"),
            "spark.python.daemon.module": "tests.engines.ready_daemon",
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.minTaskRuntime": "2s",
            "spark.speculation.multiplier": "1.5",
            "spark.speculation.quantile": "0.5",
            "spark.sql.session.timeZone": "Asia/Tokyo",  # moments are the same everywhere
            "spark.sql.shuffle.partitions": "4",
            "spark.ui.port": "0",
            "spark.ui.showConsoleProgress": "false",
            **settings,
        }
        os.environ |= {"SPARK_LOCAL_IP": ADDRESSES[0], "PYSPARK_PYTHON": sys.executable}
        builder = SparkSession.builder.master(self.url).appName("cornerwave tests")
        for name, value in known.items():
            if value:
                builder = builder.config(name, value)
        errors = os.dup(2)
        with (self.folder / "driver.log").open("ab") as log:
            os.dup2(log.fileno(), 2)  # the driver's Java says everything at DEBUG there
            try:
                self._session = builder.getOrCreate()
            finally:
                os.dup2(errors, 2)
                os.close(errors)
        return self._session

    def pages(self) -> dict[str, bytes]:
        """Return the pages that Spark shows of the application, and of the cluster."""
        context = self._session.sparkContext
        driver, app = context.uiWebUrl, context.applicationId
        api = f"{driver}/api/v1/applications/{app}"
        places = [f"{driver}/{page}/" for page in ("jobs", "stages", "SQL", "environment")]
        places += [f"{driver}/executors/", f"{driver}/storage/"]
        places += [f"{api}/{part}" for part in ("jobs", "stages", "environment", "allexecutors")]
        places += [f"{api}/sql?details=true&planDescription=true&length=1000"]
        places += [f"http://{ADDRESSES[0]}:{self._pages['master']}/"]
        with httpx.Client(timeout=60, follow_redirects=True) as client:
            stages = client.get(f"{api}/stages").json()
            places += [f"{driver}/stages/stage/?id={s['stageId']}&attempt=0" for s in stages]
            places += [f"{driver}/SQL/execution/?id={n}" for n in range(len(stages))]
            return {place: client.get(place).content for place in places}

    def stop(self) -> None:
        """End everything that was started here."""
        with suppress(Exception):
            self.stop_session()
        for process in self._processes.values():
            _end(process)

    def stop_session(self) -> None:
        """End the driver, and its Java."""
        from pyspark import SparkContext

        if self._session is not None:
            self._session.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
            _end(gateway.proc)
            gateway.proc.stdin.close()
            SparkContext._gateway = SparkContext._jvm = None
        self._session = None

    def connect_server(self) -> str:
        """Start a server of Spark Connect that runs what it is asked to; return its address."""
        port = _free_port()
        settings = {
            "spark.connect.grpc.binding.address": ADDRESSES[0],
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.extraJavaOptions": _SHORT_LIVED,
            "spark.sql.shuffle.partitions": "4",
            "spark.ui.enabled": "false",
        }
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        options = ["--class", server, "--master", "local[2]", "--name", "connect"]
        options += [word for each in settings.items() for word in ("--conf", "=".join(each))]
        self._start("connect", ADDRESSES[0], "SparkSubmit", [*options, "spark-internal"])
        self._until(lambda: _listens(port))
        return f"sc://{ADDRESSES[0]}:{port}"

    def _start(self, name: str, address: str, what: str, options: list[str]) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}"]
        local = self.folder / f"local-{name}"
        local.mkdir(exist_ok=True)
        logging = f"-Dlog4j2.configurationFile=file:{self._logging}"
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*command, *options],
                env={
                    **os.environ,
                    "PYSPARK_PYTHON": sys.executable,
                    "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
                    "SPARK_HOME": str(home),
                    "SPARK_LOCAL_IP": address,
                    "SPARK_LOCAL_DIRS": str(local),
                    "SPARK_DAEMON_JAVA_OPTS": f"{logging} {_SHORT_LIVED}",
                    "SPARK_DAEMON_MEMORY": "700m",
                    "SPARK_NO_DAEMONIZE": "1",
                },
                stdout=log,
                stderr=log,
            )

    def _alive(self) -> int:
        try:
            page = httpx.get(f"http://{ADDRESSES[0]}:{self._pages['master']}/json/", timeout=5)
            return int(page.json()["aliveworkers"])
        except (httpx.HTTPError, ValueError, KeyError):
            return 0

    def _until(self, ready: Any) -> None:
        end = time.monotonic() + PATIENCE
        while not ready():
            ended = [name for name, p in self._processes.items() if p.poll() is not None]
            if ended or time.monotonic() > end:
                raise RuntimeError(f"the cluster does not start: {ended or 'no answer'}")
            time.sleep(0.1)


@contextmanager
def cluster(folder: Path) -> Iterator[SparkCluster]:
    """A cluster, which is stopped at the end, whatever happens."""
    made = SparkCluster(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _end(process: Any) -> None:
    """Kill a process that was started here, and those that it started, by their ids."""
    for pid in [*_descendants(process.pid), process.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            after_name = status.read_text().rpartition(")")[2].split()
            parents.setdefault(int(after_name[1]), []).append(int(status.parent.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection((ADDRESSES[0], port), timeout=5):
        return True
    return False


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((ADDRESSES[0], 0))
        return int(found.getsockname()[1])
