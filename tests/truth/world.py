"""Runs a scenario: one broker, a proxy of its own for each run, and clients in processes that many runs share."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from notleader.faults.schema import parse_fault_document
from notleader.proxy.brokerlog import reading as brokerlog
from notleader.proxy.config.settings import load
from notleader.proxy.net.server import Proxy
from tests.clients import builds
from tests.truth import programs
from tests.truth.kept import Run, save
from tests.truth.log import read_log
from tests.truth.scenario import IN_WORKERS, Client, Phase, Producer, Rule, Scenario

_HERE = Path(__file__).parent
_LONGEST_S = 90.0


@dataclass
class World:
    """Brokers and the processes of the clients, which end with it: an asynchronous context manager."""

    bootstrap: str
    """Where the oracle asks, past every proxy."""
    behind: str
    """What the proxies are in front of."""
    folder: Path
    _workers: dict[str, _Worker] = field(default_factory=dict)
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _numbers: Iterable[int] = field(default_factory=itertools.count)

    async def run(self, scenario: Scenario, without: Iterable[str] = (), tag: str = "", attempt: int = 1) -> Run:
        """The scenario, without the rules of these names; its recording is kept below the world's folder."""
        left_out = frozenset(without)
        folder = self.folder / f"{scenario.name}{tag}"
        name = f"{folder.name}-{attempt}-{secrets.token_hex(3)}"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "outcomes").mkdir(parents=True)
        topics = {f"{name}.{topic}": partitions for topic, partitions in scenario.topics.items()}
        await self._create(topics, scenario)
        rules = [_of_run(rule, name) for rule in scenario.faults if rule["name"] not in left_out]
        settings = {
            "kafka": self.behind,
            "listen": "127.0.0.1:0",
            "admin": None,
            "seed": 7,
            "capture": str(folder / "capture"),
            "capture_level": scenario.level,
            "capture_stop_s": 120,
            "faults": rules,
        }
        proxy = Proxy(load(settings))
        await proxy.start()
        problems: list[str] = []
        hits: dict[str, int] = {}
        try:
            background: list[asyncio.Task[list[str]]] = []
            for phase in scenario.phases:
                if phase.after_first_of:
                    await _first_success(folder / "outcomes" / f"{phase.after_first_of}.jsonl")
                for rule_name in set(phase.remove) - left_out:
                    hits |= {rule.name: rule.hits for rule in proxy.plan.rules() if rule.name == rule_name}
                    proxy.plan.remove(rule_name)
                for rule in phase.add:
                    if rule["name"] not in left_out:
                        document = parse_fault_document(dict(_of_run(rule, name)))
                        proxy.plan.replace(rule["name"], document, proxy.now_us())
                proxy.plan_changed()
                if phase.recreate:
                    await self._recreate({f"{name}.{topic}": scenario.topics[topic] for topic in phase.recreate})
                await asyncio.sleep(phase.pause_ms / 1000)
                working = asyncio.ensure_future(self._work(phase, str(proxy.listen), folder, name, scenario))
                if phase.background:
                    background.append(working)
                else:
                    problems += await working
                if phase.until_done or phase is scenario.phases[-1]:
                    problems += [problem for task in background for problem in await task]
                    background.clear()
            hits |= {rule.name: rule.hits for rule in proxy.plan.rules()}
        finally:
            await proxy.stop()
        run_id = _run_id(folder / "capture")
        for client in scenario.clients:
            _dated(folder / "outcomes" / f"{client.name}.jsonl", run_id, client.clock_us)
        in_force = tuple(rule["name"] for rule in scenario.rules if rule["name"] not in left_out)
        # As whoever runs an incident has it read; the oracle reads the log for itself.
        await asyncio.to_thread(
            brokerlog.read_log, self.bootstrap, list(topics), folder / "log", run_id=run_id, value_is_id=True
        )
        run = Run(
            scenario, name, in_force, folder, await read_log(self.bootstrap, topics), hits,
            tuple(problem for problem in problems if problem), attempt,
        )  # fmt: skip
        if scenario.twist is not None:
            scenario.twist(run)
        save(run)
        return run

    async def _create(self, topics: Mapping[str, int], scenario: Scenario) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap, client_id="the-oracle")
        await admin.start()
        try:
            configs = dict(scenario.topic_configs)
            made = [NewTopic(topic, count, 1, topic_configs=configs) for topic, count in topics.items()]
            await admin.create_topics(made)
        finally:
            await admin.close()

    async def _recreate(self, topics: Mapping[str, int]) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap, client_id="the-oracle")
        await admin.start()
        try:
            await admin.delete_topics(list(topics))
            for _ in range(50):
                await asyncio.sleep(0.1)
                made = await admin.create_topics([NewTopic(topic, count, 1) for topic, count in topics.items()])
                if all(error[1] == 0 for error in made.topic_errors):
                    return
        finally:
            await admin.close()
        raise RuntimeError(f"{', '.join(topics)} can't be created again")

    async def _work(self, phase: Phase, listen: str, folder: Path, name: str, scenario: Scenario) -> list[str]:
        jobs = [self._job(client, listen, folder, name, scenario) for client in phase.clients]
        return list(
            await asyncio.gather(*(self._one(client, job) for client, job in zip(phase.clients, jobs, strict=True)))
        )

    async def _one(self, client: Client, job: dict[str, Any]) -> str:
        """What a client's program had to say when it could not do its work; empty when it could."""
        await asyncio.sleep(client.start_ms / 1000)
        if client.lib not in IN_WORKERS:
            return await programs.run(client, job, _LONGEST_S)
        if client.own_process or client.kill_ms:
            worker = await _Worker.start(client.lib, "once")
            try:
                return await worker.work(job, client.kill_ms / 1000 if client.kill_ms else _LONGEST_S)
            finally:
                await worker.stop()
        async with self._starting:
            if client.lib not in self._workers:
                self._workers[client.lib] = await _Worker.start(client.lib)
        return await self._workers[client.lib].work(job, _LONGEST_S)

    def _job(self, client: Client, listen: str, folder: Path, name: str, scenario: Scenario) -> dict[str, Any]:
        job = {field_name: getattr(client, field_name) for field_name in client.__dataclass_fields__}
        return job | {
            "job": next(iter(self._numbers)),
            "role": client.role,
            "bootstrap": listen,
            "file": str(folder / "outcomes" / f"{client.name}.jsonl"),
            "name": f"{name}.{client.name}",
            "topic": f"{name}.{client.topic}",
            "topic_partitions": scenario.topics[client.topic],
            "client_id": f"{name}.{client.client_id or client.name}",
            "transactional_id": f"{name}.{client.name}",
            "group": f"{name}.{client.group}" if not isinstance(client, Producer) and client.group else "",
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self._workers.values():
            await worker.stop()


class _Worker:
    """`programs/worker.py`, which runs clients of one library."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._open: dict[int, asyncio.Future[str]] = {}
        self._listening = asyncio.ensure_future(self._listen())

    @classmethod
    async def start(cls, lib: str, *more: str) -> _Worker:
        _, environment = await asyncio.to_thread(builds.python, "with_aiokafka.py")
        source = str(_HERE.parents[1] / "src")
        path = source if lib == "aiokafka" else os.pathsep.join([environment["PYTHONPATH"], source])
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(_HERE / "programs" / "worker.py"), lib, *more,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path},
        )  # fmt: skip
        return cls(process)

    async def work(self, job: dict[str, Any], longest_s: float) -> str:
        assert self._process.stdin is not None
        done = self._open[job["job"]] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        try:
            return await asyncio.wait_for(done, longest_s)
        except TimeoutError:
            return "" if job["kill_ms"] else f"{job['name']} was not done after {longest_s:.0f} s"

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            waiting = self._open.pop(said["job"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(said["error"] or "")
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_result("the program of the client ended")

    async def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._listening


async def _first_success(file: Path) -> None:
    for _ in range(int(_LONGEST_S / 0.05)):
        if file.exists() and '"ok"' in file.read_text():
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"{file.stem} had no success")


def _of_run(rule: Rule, run: str) -> Rule:
    """The rule with the run's own names for topics, clients, groups and transactional ids."""
    match = dict(rule.get("match", {}))
    for name in ("topic", "client_id", "group_id", "transactional_id"):
        if name in match:
            match[name] = f"{run}.{match[name]}"
    return {**rule, "match": match} if match else rule


def _run_id(capture: Path) -> str:
    """The run's name, as its folder in the capture has it."""
    (folder,) = capture.glob("date=*/run=*")
    return folder.name.removeprefix("run=")


def _dated(file: Path, run_id: str, by_us: int) -> None:
    """Let the lines name their run, and be written by a clock that is off by so much."""
    if not file.exists():
        return
    lines = []
    for text in file.read_text().splitlines():
        # What a killed process was writing ends in the middle, as it would for a user.
        with contextlib.suppress(json.JSONDecodeError):
            line = json.loads(text)
            times = ("called_at_us", "returned_at_us", "completed_at_us")
            lines.append(line | {"run_id": run_id} | {t: line[t] + by_us for t in times if line.get(t) is not None})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
