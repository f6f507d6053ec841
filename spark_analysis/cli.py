"""The command line: arguments in, exit code out (0 valid, 1 negative verdict, 2 wrong use)."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from notleader.spark_analysis import resident
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.paths import SMALL_BYTES, InputError, check_paths, is_local, local_path, size_bytes

if TYPE_CHECKING:
    from notleader.spark_analysis.jobs.analyze import Analysis

# A live analysis sees every operation in flight: one is not hanging because it was just called.
_LIVE_HANG_MS = 30_000
# Whatever is there yet, a live recording is going to be larger.
_LIVE_MEMORY = "2g"
_LOOK_S = 0.2
_SECOND_S = 1.0

_DESCRIPTION = """\
Say what the faults did to the clients.

Reads captures of the proxy and what the clients said of their own operations, joins the two with Spark,
and writes below OUT: report.html (one file, works offline), report.md, junit.xml, findings.json,
and as Parquet findings/, history/ (one row per client operation with its attempts on the wire) and operations/."""

_EPILOG = """\
exit codes: 0 nothing wrong (or not enough to judge), 1 a negative verdict, 2 wrong use or unreadable input

examples:
  notleader analyze --capture out/capture --outcomes out/*.jsonl --out out/analysis
  notleader analyze --capture out/capture --outcomes out/*.jsonl --log out/log --out out/analysis
  notleader analyze --capture out/capture --outcomes out/*.jsonl --kafka localhost:9092 --out out/analysis
  notleader analyze --capture a --capture b --outcomes producer.log consumer.log --out o --late-ms 3000 --json
  notleader analyze --capture out/capture --outcomes out/*.jsonl --out out/analysis --live      # until Ctrl-C
  notleader analyze --capture s3a://bucket/capture --outcomes s3a://bucket/said --out s3a://bucket/o --master spark://host:7077
"""


def given_for(capture: Sequence[str], outcomes: Sequence[str], logs: Sequence[str], out: str) -> argparse.Namespace:
    """What `analyze --json` of these paths is given, all else as it is without flags."""
    said = ["analyze", "--json", "--out", out]
    for flag, paths in (("--capture", capture), ("--outcomes", outcomes), ("--log", logs)):
        said += [flag, *paths] if paths else []
    return _parser().parse_args(said)


def _parser() -> argparse.ArgumentParser:
    # `notleader analyze` becomes this program, and says how it was called.
    prog = os.environ.get("NOTLEADER_PROG", "python -m notleader.spark_analysis")
    parser = argparse.ArgumentParser(prog=prog, description="Analyse captures of notleader.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    analyze = commands.add_parser(
        "analyze",
        prog="notleader analyze" if os.environ.get("NOTLEADER_CLI") else None,
        help="captures + outcomes → findings and a report",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = analyze.add_argument
    add("--capture", nargs="+", action="extend", required=True, metavar="DIR", help="capture folder, one or more")
    add(
        "--outcomes",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="JSON lines of recorders, or of Kafka's verifiable producer and consumer; files or folders",
    )
    add(
        "--log",
        nargs="+",
        action="extend",
        default=[],
        metavar="DIR",
        help="what `notleader log read` wrote: settles what is lost, doubled, reordered, there though failed",
    )
    add("--out", required=True, metavar="DIR", help="where to write; overwritten")
    add("--master", metavar="URL", help="Spark master (default local[2]; under spark-submit, its own)")
    add("--memory", metavar="SIZE", help="heap of Spark's driver, and of each executor on a cluster, as 2g")
    add("--live", action="store_true", help="while the test runs: judge again as things are recorded, until Ctrl-C")
    add("--every-s", type=float, metavar="S", default=10.0, help="live: not more often than that (default 10)")
    add("--no-warm", action="store_true", help="in a Spark of its own, which ends; else one stays for ten minutes")
    add("--json", action="store_true", help="print one JSON document and nothing else")
    add("--run", nargs="+", action="extend", default=[], metavar="ID", help="only these runs, no line of another")
    add("--date", nargs="+", action="extend", default=[], metavar="YYYY-MM-DD", help="only these days")
    add("--by-run", action="store_true", help="each run had a cluster of its own: don't compare offsets across runs")
    kafka = analyze.add_argument_group(
        "the brokers' log, read first", "TLS, SASL and --value-is-id as for `notleader log read`."
    )
    kafka.add_argument("--kafka", metavar="HOST:PORT[,…]", help="the brokers' own address, not the proxy's")
    topics = "default: those that were produced to"
    kafka.add_argument("--topic", nargs="+", action="extend", metavar="NAME", help=topics)
    limits = analyze.add_argument_group("bounds")
    commands.add_parser("stop", help="end the Spark that earlier analyses left")
    submit = commands.add_parser("entry", help="the file that spark-submit starts")
    submit.add_argument("--zip", metavar="FILE", help="write the package there, for --py-files")
    default = Options()
    for name, unit, value, text in (
        ("blocked", "MS", default.blocked_ms, "a call that holds its caller this long is a negative verdict"),
        ("slow", "MS", default.slow_ms, "without a bound, sends this slow are mentioned"),
        ("hang", "MS", None, f"a pending operation younger than this is not judged (live: {_LIVE_HANG_MS})"),
        ("stuck", "MS", default.stuck_ms, "time a client has to work again after a fault's last hit"),
        ("skew", "MS", default.skew_ms, "how far the clocks of clients and proxies may differ"),
        ("storm", "N", default.storm_per_s, "requests of one kind per second and client that make a storm"),
    ):
        flag = f"--{name}-ms" if unit == "MS" else f"--{name}-per-s"
        told = text if value is None else f"{text} (default %(default)s)"
        limits.add_argument(flag, type=number, metavar=unit, default=value, help=told)
    late = "a send that takes longer is a negative verdict (default: none but the recorder's own budget_ms)"
    limits.add_argument("--late-ms", type=number, metavar="MS", help=late)
    return parser


def number(text: str) -> int:
    if (value := int(text)) < 0:
        raise argparse.ArgumentTypeError(f"a number from 0 up is expected, not {text}")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; problems with the input are one line on stderr and exit code 2."""
    given = _parser().parse_args(arguments)
    try:
        if given.command == "stop":
            print({0: "no Spark was left", 1: "ended Spark"}.get(ended := resident.stop(), f"ended {ended} Sparks"))  # noqa: T201
            return 0
        if given.command == "entry":
            return _entry(given)
        return _analyze(given)
    except InputError as error:
        print(f"notleader analyze: {error}", file=sys.stderr)  # noqa: T201
        if getattr(given, "json", False):
            print(json.dumps({"error": str(error)}))  # noqa: T201
        return 2
    except KeyboardInterrupt:
        return 130


def _entry(given: argparse.Namespace) -> int:
    from notleader.spark_analysis.entry import ENTRY, pack

    try:
        if given.zip:
            pack(Path(given.zip))
    except OSError as error:
        raise InputError(f"cannot write {given.zip}: {error.strerror}") from error
    print(ENTRY)  # noqa: T201
    return 0


def _analyze(given: argparse.Namespace) -> int:
    check_paths(given.capture, given.outcomes, given.log, growing=given.live)
    if given.kafka or given.topic:
        raise InputError("--kafka is what the command `notleader analyze` reads: else `notleader log read` and --log")
    if given.live and given.log:
        raise InputError("--live can't be given a log: read it, and analyse again, when the run is over")
    if given.live and (given.run or given.date):
        raise InputError("--live follows whole folders: leave out --run and --date")
    given.out = _usable_out(given.out)
    if given.live:
        _wait_for_captures(given)
    with _Progress(not given.json and sys.stderr.isatty()) as progress:
        return _done(given, progress)


def _done(given: argparse.Namespace, progress: _Progress) -> int:
    """Have the analysis done by a Spark that stays, or else by one that is started here."""
    size = size_bytes([*given.capture, *given.outcomes, *given.log])
    if (code := _by_resident(given, size, progress)) is not None:
        return code
    progress("starting Spark")
    # Late, so that wrong use is told without waiting for Spark to load.
    from notleader.spark_analysis import warm
    from notleader.spark_analysis.session import build_session

    with _told_as_input_errors():
        log_file = Path(given.out) / "spark.log" if "://" not in given.out else None
        memory = given.memory or (_LIVE_MEMORY if given.live else None)
        # An interrupted conversation with Java is none of the user's; py4j would log its traces.
        logging.getLogger().addHandler(logging.NullHandler())
        spark = build_session(given.master, input_bytes=size, memory=memory, log_file=log_file)
        # PySpark's own handler asks Java over a connection that is in use.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if given.live:
            return _watch(given, spark, given.out, _options(given), progress)
        try:
            text, code = _judged(given, spark, progress, progress.say)
            progress.done()
            # Whoever waits has the verdict before anything is done for the next time.
            print(text, flush=True)  # noqa: T201
        except BaseException:
            with suppress(Exception):
                spark.stop()
            raise
    # Nothing of what follows can take the answer back, Ctrl-C neither.
    with suppress(Exception, KeyboardInterrupt):
        progress("keeping Spark's start for the next time")
        warm.keep(spark)
        progress.done()
    with suppress(Exception, KeyboardInterrupt):
        spark.stop()
    return code


def _wait_for_captures(given: argparse.Namespace) -> None:
    """Wait for the proxy to make the capture folders: Spark's stream refuses one that isn't there."""

    def missing() -> list[str]:
        return [path for path in given.capture if is_local(path) and not local_path(path).exists()]

    if not (absent := missing()):
        return
    print(f"waiting for {', '.join(absent)}, to be made by the proxy", file=sys.stderr)  # noqa: T201
    while missing():
        time.sleep(_LOOK_S)
    check_paths(given.capture, given.outcomes, growing=True)


def _options(given: argparse.Namespace) -> Options:
    return Options(
        blocked_ms=given.blocked_ms,
        late_ms=given.late_ms,
        slow_ms=given.slow_ms,
        hang_ms=given.hang_ms if given.hang_ms is not None else _LIVE_HANG_MS if given.live else 0,
        stuck_ms=given.stuck_ms,
        skew_ms=given.skew_ms,
        storm_per_s=given.storm_per_s,
        # Who asks for many analyses at once knows more of them than a flag says (notleader.spark_analysis.each).
        **{"by_run": given.by_run, **getattr(given, "more_options", {})},
    )


def _judged(
    given: argparse.Namespace, spark: Any, progress: Callable[[str], None], say: Callable[[str], None]
) -> tuple[str, int]:
    """One analysis with its report: what is to be printed when all is done, and the exit code.

    The verdict's own lines are said as soon as it is there; one document of `--json` is printed as a whole.
    """
    from notleader.spark_analysis.jobs.analyze import Judged, analyze
    from notleader.spark_analysis.lookups import let_go_later
    from notleader.spark_analysis.report.files import write_report
    from notleader.spark_analysis.report.summary import first_lines, further_lines

    def judged(now: Judged) -> None:
        if not given.json:
            say(first_lines(now))
        elif getattr(given, "findings_first", False):
            say(json.dumps([finding.as_dict() for finding in now.findings]))

    with let_go_later(spark._jvm._gateway_client):
        analysis = analyze(
            spark, given.capture, given.outcomes, given.out, _options(given),
            runs=given.run, dates=given.date, logs=given.log, progress=progress, judged=judged,
        )  # fmt: skip
    progress("writing the report")
    report = write_report(spark, analysis, given.out)
    code = 1 if analysis.verdict == "invalid" else 0
    if given.json:
        return json.dumps({**analysis.as_dict(), "report": report}), code
    return f"{further_lines(analysis)}\n\nreport: {report}", code


def _by_resident(given: argparse.Namespace, size: int, progress: _Progress) -> int | None:
    """The exit code of an analysis that a Spark which stays has done and that is printed; None where there is none."""
    answered = by_resident(given, size, progress, progress.say)
    if answered is None:
        return None
    out, err, code = answered
    progress.done()
    sys.stderr.write(err)
    if out:
        print(out, flush=True)  # noqa: T201
    return code


def warmth() -> str:
    """`keep`: a Spark that an analysis starts stays; `use`: one that stays is asked; `off`: neither."""
    configured = any(name in os.environ for name in ("SPARK_CONF_DIR", "SPARK_ENV_LOADED", "SPARK_HOME"))
    return "off" if configured else os.environ.get("NOTLEADER_SPARK_WARM", "keep")


def by_resident(
    given: argparse.Namespace,
    size: int,
    progress: Callable[[str], None],
    say: Callable[[str], None] = lambda _: None,
) -> tuple[str, str, int] | None:
    """What a Spark which stays says: stdout, stderr, exit code; None where there is none for this analysis.

    What it said before is not in that; `say` was given it.

    Small local ones only: a large one wants a Java of its own, started for its size, and a store the caller's secrets.
    """
    wanted = warmth()
    paths = [*given.capture, *given.outcomes, *given.log, given.out]
    apart = given.live or given.master or given.memory or any("://" in path for path in paths)
    if given.no_warm or wanted == "off" or apart or size > SMALL_BYTES:
        return None
    asked = vars(given) | {
        name: [str(Path(path).absolute()) for path in getattr(given, name)] for name in ("capture", "outcomes", "log")
    }
    try:
        return resident.ask(asked, progress, say, leave=wanted == "keep")
    except resident.UnavailableError:
        return None


@contextmanager
def resident_job() -> Iterator[tuple[resident.Job, Callable[[], None]]]:
    """What a Spark that stays does for each caller, and what it does when that one has its answer."""
    from notleader.spark_analysis import warm
    from notleader.spark_analysis.plans import let_go
    from notleader.spark_analysis.session import build_session, suit

    spark = build_session()

    def job(asked: dict[str, Any], progress: resident.Progress, say: resident.Say) -> tuple[str, str, int]:
        given = argparse.Namespace(**asked)
        apart = spark.newSession()
        suit(apart, size_bytes([*given.capture, *given.outcomes, *given.log]))
        try:
            with _told_as_input_errors():
                text, code = _judged(given, apart, progress, say)
        except InputError as error:
            return "", f"notleader analyze: {error}\n", 2
        finally:
            apart.catalog.clearCache()
            let_go(apart)
        return text, "", code

    def rest() -> None:
        warm.keep(spark)

    try:
        yield job, rest
    finally:
        spark.stop()


@contextmanager
def _told_as_input_errors() -> Iterator[None]:
    """What Spark and Java say of what they were given, as one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from notleader.spark_analysis.schemas import SchemaError
    from notleader.spark_analysis.session import NoJavaError

    try:
        yield
    except (SchemaError, NoJavaError) as error:
        raise InputError(str(error)) from error
    except (PySparkException, Py4JError) as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error  # py4j tidies up before it lets one pass, and may fail at that
        raise InputError(_no_store(str(error)) or f"Spark: {_cause(error)}{_configured()}") from error


# The connectors that go by Hadoop's version, by the scheme or the class that is missing.
_CONNECTORS = {"s3": "hadoop-aws", "abfs": "hadoop-azure", "wasb": "hadoop-azure"}


def _no_store(said: str) -> str | None:
    """What to do where Spark lacks the jar for a store's URLs; None where it says something else."""
    found = re.search(
        r'No FileSystem for scheme "(\w+)"|Class\S* (?:org\.apache\.hadoop\.fs\.)?(\w+)\.\S+ not found', said
    )
    if found is None:
        return None
    scheme = next(filter(None, found.groups()))
    connector = next((name for begin, name in _CONNECTORS.items() if scheme.startswith(begin)), None)
    package = f"org.apache.hadoop:{connector}:{_hadoop_version()}" if connector else "GROUP:ARTIFACT:VERSION"
    return (
        f"Spark has no jar that reads {scheme}:// URLs: with PYSPARK_SUBMIT_ARGS='--packages {package} pyspark-shell' "
        f"in the environment it fetches one; spark-submit takes --packages {package}"
    )


def _hadoop_version() -> str:
    from pyspark.find_spark_home import _find_spark_home

    jars = Path(_find_spark_home(), "jars").glob("hadoop-client-api-*.jar")
    return next((jar.stem.removeprefix("hadoop-client-api-") for jar in jars), "VERSION-OF-SPARKS-HADOOP")


def _watch(given: argparse.Namespace, spark: Any, out: str, options: Options, progress: _Progress) -> int:
    """Judge again and again until SIGINT or SIGTERM, telling what changed; the last verdict is the exit code."""
    from notleader.spark_analysis.jobs.live import watch
    from notleader.spark_analysis.report.files import write_report
    from notleader.spark_analysis.report.summary import changes, summary

    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    last: Analysis | None = None

    def judged(analysis: Analysis) -> None:
        nonlocal last
        progress("writing the report")
        report = write_report(spark, analysis, out)
        progress.done()
        if given.json:
            print(json.dumps({**analysis.as_dict(), "report": report}), flush=True)  # noqa: T201
        else:
            print("\n".join(changes(last, analysis)), flush=True)  # noqa: T201
        last = analysis
        progress("waiting for more")

    progress("waiting for the first segment")
    try:
        watch(
            spark, given.capture, given.outcomes, out, options,
            every_s=given.every_s, ended=ended, judged=judged, progress=progress,
        )  # fmt: skip
    finally:
        spark.stop()
    progress.done()
    if last is None:
        raise InputError("nothing was recorded while this ran")
    if not given.json:
        print(f"\n{summary(last)}\n\nreport: {out}/report.html")  # noqa: T201
    return 1 if last.verdict == "invalid" else 0


def _usable_out(out: str) -> str:
    """`out` made absolute and created when it is local; InputError when it can't be."""
    if "://" in out:
        return out.rstrip("/")
    folder = Path(out).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror}") from error
    return str(folder)


def _cause(error: Exception) -> str:
    """What an error of Spark's or Java's comes down to, in one line: the deepest cause, and the file it is about."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    said = [
        line.removeprefix(": ") for line in lines if not line.startswith(("at ", "An error occurred", "Caused by: "))
    ]
    found = (causes[-1:] or said[:1] or [type(error).__name__])[0]
    file = next((each[0] for line in lines if (each := re.search(r"[^\s'\"]+\.parquet", line))), "")
    return found if not file or file in found else f"{file}: {found}"


def _configured() -> str:
    """Where a configuration of the user's own came in, which may be what is wrong."""
    folder = os.environ.get("SPARK_CONF_DIR")
    return f" (with the configuration in SPARK_CONF_DIR={folder})" if folder else ""


class _Progress:
    """One line on a terminal that says what is going on, and since when; silent elsewhere.

    For the length of a `with`: what ends that is told below the line, not behind it.
    """

    def __init__(self, shown: bool) -> None:
        self._shown = shown
        self._started = time.monotonic()
        self._said = False
        self._what = ""
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._clock: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._clock is not None and kind is KeyboardInterrupt:
            self._stand()
            sys.stderr.write("\n")
        else:
            self.done()

    def __call__(self, what: str) -> None:
        if not self._shown:
            return
        with self._writing:
            self._what = what
            self._write()
        if self._clock is None:
            self._over.clear()
            self._clock = threading.Thread(target=self._tick, daemon=True)
            self._clock.start()

    def say(self, text: str) -> None:
        """Print the first of an answer; an analysis that has to be done again says it no second time."""
        if not self._said:
            self.done()
            print(text, flush=True)  # noqa: T201
        self._said = True

    def done(self) -> None:
        self._stand()
        if self._shown:
            sys.stderr.write("\r\x1b[K")

    def _stand(self) -> None:
        """Let the seconds run no more."""
        self._over.set()
        if self._clock is not None:
            self._clock.join()
            self._clock = None

    def _tick(self) -> None:
        while not self._over.wait(_SECOND_S):
            with self._writing:
                self._write()

    def _write(self) -> None:
        seconds = time.monotonic() - self._started
        sys.stderr.write(f"\r\x1b[K{self._what} … ({seconds:.0f} s)")
        sys.stderr.flush()
