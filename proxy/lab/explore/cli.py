"""`notleader explore`: find the fault that breaks a client."""

from __future__ import annotations

import contextlib
import json
import shlex
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from notleader.proxy.lab.errors import LabError, need
from notleader.proxy.lab.exits import clear_errors
from notleader.proxy.lab.explore.judging import KINDS
from notleader.proxy.lab.paths import made
from notleader.proxy.lab.placeholders import checked
from notleader.proxy.lab.stages import Stages

if TYPE_CHECKING:
    from notleader.proxy.lab.explore.candidates import Rule
    from notleader.proxy.lab.explore.search import Explored

_LANES = 2
MESSAGES = 20
"""What {messages} is in a command where nobody says it."""


def explore(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND…", help="What to try, with {bootstrap} and the like in it.")
    ],
    kafka: Annotated[
        str, typer.Option(metavar="HOST:PORT[,…]", help="The Kafka to use. Default: one of its own, from its jars.")
    ] = "",
    minutes: Annotated[
        float, typer.Option(metavar="M", min=0.1, help="When to stop striking; what was found is shrunk after that.")
    ] = 10.0,
    tries: Annotated[int | None, typer.Option(metavar="N", min=1, help="Strike so often at most.")] = None,
    lanes: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="How many tries at once.")] = _LANES,
    seed: Annotated[int, typer.Option(metavar="N", help="Another order of tries.")] = 0,
    allow: Annotated[str, typer.Option(metavar="A,B", help=f"What is no failure here: {', '.join(KINDS)}.")] = "",
    check: Annotated[
        str, typer.Option(metavar="CMD", help="Run after each try, {bootstrap} being Kafka itself: exit 0 is well.")
    ] = "",
    check_sql: Annotated[
        str, typer.Option("--check-sql", metavar="SQL", help="Asked after each try by DuckDB: each row is a failure.")
    ] = "",
    brokers: Annotated[
        int, typer.Option(metavar="N", min=1, max=9, help="Of the Kafka of its own; 3: one may be gone for good.")
    ] = 1,
    partitions: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Of each try's topic.")] = 1,
    messages: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help=f"What {{messages}} is; fewer when it is shrunk. Default: {MESSAGES}."),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=1, help="When a run is late. Default: 10 s + 5 x one without faults (300 s)."
        ),
    ] = None,
    patience: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="How long a late one is waited for before it `hangs`.")
    ] = 150.0,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Try the rules of this file, and nothing else.")
    ] = None,
    by_chance: Annotated[
        bool, typer.Option("--random", help="Strike by chance, whatever was seen: no families in turn, no pairs.")
    ] = False,
    failures: Annotated[int | None, typer.Option(metavar="N", min=1, help="Stop at so many distinct failures.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="It is a failure, too, to give up where a client may, and to say so.")
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Report, rule files, corpus; a search of the same command goes on.")
    ] = Path("out/explore"),
    again: Annotated[bool, typer.Option("--again", help="Try what the corpus says was tried before, too.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the files of every try.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Find the fault that breaks a client, and shrink it to the line that does.

    COMMAND does some work with Kafka and ends by itself, in seconds. It is run
    twice without faults, then again and again behind proxies of its own, with
    faults at the exchanges that it makes. A failure is repeated, shrunk to the
    smallest rule that still breaks it, and told once. In COMMAND are replaced:

    {bootstrap} the proxy: the command's bootstrap server. {topic} and {group}
    names of this try alone; the topic exists. {messages} how many to send: the
    failure is told with the fewest. {try} its number. {outcomes} a file to write
    outcome lines to, which may go to stdout as well.

    Well is: exit code 0 in time, and by the broker's log nothing acknowledged
    lost and nothing doubled. Exit 0 when nothing was found, 1 when something
    was; 2 when nothing can be told: the command does not end well without
    faults, or none of the rules of --replay was hit.

    Examples:

    notleader explore -- ./service --bootstrap-server {bootstrap} --topic {topic}

    notleader explore --replay out/explore/failure-1.yaml -- ./service {bootstrap}
    """
    with clear_errors(as_json=as_json):
        need("explore", "capture")
        allowed = _words(allow)
        from notleader.proxy.lab.explore import telling
        from notleader.proxy.lab.explore.asked import Asked
        from notleader.proxy.lab.explore.candidates import brokers_needed

        told: int | None = None
        found_with: list[str] = []
        if replay is not None:
            rules = rules_of(replay)
            brokers = max(brokers, brokers_needed(rules))
            text = replay.read_text("utf-8")
            told, found_with = telling.messages_of(text), telling.options_of(text)
        from notleader.proxy.lab.explore.findings import Corpus
        from notleader.proxy.lab.explore.search import Limits, Search
        from notleader.proxy.lab.explore.sql import valid
        from notleader.proxy.lab.explore.tries import Bench, brokers_of
        from notleader.proxy.lab.process import executable

        checked(command)
        count = messages_for(command, messages, told)
        executable(command)
        if check_sql:
            need("--check-sql", "explore")
            valid(check_sql)
        stages = Stages(quiet=as_json)
        own = any("{topic}" in word for word in command)
        limits = Limits(
            minutes, tries, lanes if own else 1, seed, allowed, limit, patience, by_chance, failures, strict
        )
        if not own:
            stages.console.print("without {topic} the log is not judged, and one try is made at a time", markup=False)
        made(out)
        corpus_file = out / "corpus.json"
        corpus = Corpus.load(corpus_file, command, count)
        if again:
            corpus.tried.clear()
        name = f"explore-{uuid.uuid4().hex[:8]}"
        with kafka_of(kafka, stages, brokers) as bootstrap, stages.stage("explore") as say:
            bench = Bench(
                bootstrap,
                command,
                (out / "tries" / name).resolve(),
                name,
                partitions,
                check,
                check_sql,
                keep,
                brokers_of(bootstrap),
                count,
            )

            asked = Asked.of(context, bench.brokers)

            def tell(text: str) -> None:
                stages.console.print(text, markup=False, soft_wrap=True)

            def save() -> None:
                corpus.save(corpus_file)
                if not search.earlier:
                    telling.write(search.explored, asked, limits, out)

            search = Search(bench, limits, corpus, say, tell, save)
            if replay is not None:
                if not {*found_with} <= {*asked.options}:
                    tell(f"{replay} was found with {shlex.join(found_with)}: without that it may not be seen again")
                tried, verdicts = search.replay(rules)
                how = "; ".join(each.sentence for each in verdicts) or "the command ends well"
                say(f"{replay}: {how}", well=not verdicts)
            else:
                try:
                    search.run()
                except KeyboardInterrupt:
                    search.explored.interrupted = True
                    raise
                finally:
                    if search.explored.points:
                        save()
                        if search.earlier:
                            tell(f"{len(search.earlier)} of what failed before was not tried again: its report stays")
                        elif search.explored.interrupted:
                            tell(f"report: {out / 'report.html'}")
                say(search.explored.progress(), well=not search.explored.failures)
    if replay is not None:
        if as_json:
            typer.echo(
                json.dumps(
                    {
                        "file": str(replay),
                        "messages": count,
                        "negative": bool(verdicts),
                        "verdicts": [{"kind": each.kind, "sentence": each.sentence} for each in verdicts],
                        "hits": tried.hits,
                        "folder": str(tried.folder),
                    }
                )
            )
        elif rules and not any(tried.hits):
            stages.console.print("none of its rules was hit", markup=False)
        raise typer.Exit(1 if verdicts else 0)
    _end(search.explored, telling.document(search.explored, asked, limits), out, as_json)


def _end(explored: Explored, document: dict[str, Any], out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(document))
    else:
        for number, failure in enumerate(explored.failures, 1):
            typer.echo(f"{number}. {failure.title}")
            broke = f"broke {failure.broke} of {failure.repeated} times{failure.sent}"
            typer.echo(f"   {broke}: {out / f'failure-{number}.yaml'}")
        for failure in explored.unstable:
            typer.echo(f"unstable, broke {failure.times} times: {failure.title}")
        if not explored.failures:
            typer.echo("nothing found" + (" that breaks again" if explored.unstable else ""))
        typer.echo(f"report: {out / 'report.html'}")
    raise typer.Exit(1 if explored.failures else 0)


@contextlib.contextmanager
def kafka_of(given: str, stages: Stages, brokers: int = 1) -> Iterator[str]:
    """The bootstrap address of the Kafka that was named, or of one that ends with the search."""
    if given:
        yield given
        return
    from notleader.proxy.lab.incident import Cluster
    from notleader.proxy.lab.run import started

    with started(Cluster(nodes=brokers), stages) as cluster:
        yield cluster.bootstrap


def _words(allow: str) -> frozenset[str]:
    words = frozenset(word.strip() for word in allow.split(",") if word.strip())
    if unknown := sorted(words - KINDS.keys()):
        raise LabError(f"--allow {unknown[0]}: there is no such verdict (there are {', '.join(KINDS)})")
    return words


def messages_for(command: list[str], asked: int | None, told: int | None) -> int | None:
    """What {messages} is in a command: what was asked for, else what the rule file says; None where it isn't in it."""
    if any("{messages}" in word for word in command):
        return asked or told or MESSAGES
    if asked is not None:
        raise LabError(
            f"--messages {asked}: write {{messages}} in the command where it takes that number, or leave it out"
        )
    return None


def rules_of(file: Path) -> list[Rule]:
    """The rules of a config file, each problem told with its path."""
    from notleader.proxy.config.settings import ConfigError, load, read_yaml

    try:
        document = read_yaml(file)
    except ConfigError as error:  # which names the file
        raise LabError(str(error)) from error
    try:
        load(document, need_kafka=False)
    except ConfigError as error:
        raise LabError(f"{file}: {error}") from error
    if "faults" not in document:
        raise LabError(f"{file} has no rules below `faults`")
    return list(document["faults"] or [])
