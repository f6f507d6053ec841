"""`notleader fault`, run in this process against the real application without sockets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from notleader.faults.base import Fault
from notleader.proxy.admin.app import create_app
from notleader.proxy.admin.guard import Guard
from notleader.proxy.cli import fault as cli
from notleader.proxy.cli.client import AdminClient
from tests.proxy.admin.conftest import FakeProxy

CLOSE = {"name": "cut", "kind": "close", "match": {"api_key": "Produce"}, "trigger": {"times": 2}}


class Shell:
    """Runs `notleader fault …`; what it asks over HTTP reaches the application directly."""

    def __init__(self, proxy: FakeProxy, token: str | None = None) -> None:
        self.proxy = proxy
        self.app = Guard(create_app(proxy), token=token)  # type: ignore[arg-type]
        self.timeouts: list[dict[str, float]] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.timeouts.append(request.extensions["timeout"])

        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app)) as client:
                return await client.request(
                    request.method, request.url, headers=request.headers, content=request.content
                )

        found = asyncio.run(ask())
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli.fault_app, arguments, input=stdin)


@pytest.fixture
def shell(proxy: FakeProxy, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return connect(Shell(proxy), monkeypatch)


def connect(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    for variable in ("NOTLEADER_ADMIN", "NOTLEADER_TOKEN", "NOTLEADER_ADMIN_TOKEN", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)

    def client(admin: str, token: str | None) -> AdminClient:
        return AdminClient(admin, token, transport=httpx.MockTransport(shell.answer))

    monkeypatch.setattr(cli, "AdminClient", client)
    return shell


def names(proxy: FakeProxy) -> list[str]:
    return [rule.name for rule in proxy.plan.rules()]


class TestAdd:
    def test_json_on_the_command_line(self, shell: Shell) -> None:
        done = shell("add", json.dumps(CLOSE))
        assert (done.exit_code, done.stdout, done.stderr) == (0, "cut (close)\n", "")

    def test_standard_input(self, shell: Shell) -> None:
        done = shell("add", "-", stdin="kind: close\nname: from-stdin\n")
        assert (done.exit_code, names(shell.proxy)) == (0, ["from-stdin"])

    @pytest.mark.parametrize(
        "text",
        [
            "kind: close\nname: a\n",
            "- {kind: close, name: a}\n",
            "faults:\n  - kind: close\n    name: a\n",
            json.dumps({"faults": [{"kind": "close", "name": "a"}]}),
        ],
    )
    def test_a_file_of_any_form(self, shell: Shell, tmp_path: Path, text: str) -> None:
        file = tmp_path / "faults.yaml"
        file.write_text(text)
        done = shell("add", str(file))
        assert (done.exit_code, names(shell.proxy), done.stderr) == (0, ["a"], "")

    def test_what_else_a_config_file_has_is_mentioned(self, shell: Shell, tmp_path: Path) -> None:
        file = tmp_path / "config.yaml"
        file.write_text("kafka: a:1\nfaults: [{kind: close}]\nsteps: []\n")
        done = shell("add", str(file))
        assert done.exit_code == 0
        assert "kafka, steps" in done.stderr

    def test_the_rules_come_back_as_json(self, shell: Shell) -> None:
        done = shell("add", "--json", json.dumps([CLOSE, {"kind": "close"}]))
        assert [rule["name"] for rule in json.loads(done.stdout)] == ["cut", "close-1"]
        assert isinstance(json.loads(shell("add", "--json", '{"kind": "close"}').stdout), list)

    def test_every_problem_has_its_path_in_the_users_document(self, shell: Shell, tmp_path: Path) -> None:
        file = tmp_path / "faults.yaml"
        file.write_text("faults:\n  - {kind: close, trigger: {times: 0}}\n  - {kind: clsoe}\n")
        done = shell("add", str(file))
        assert done.exit_code == 2
        assert "faults[0].trigger.times: " in done.stderr
        assert "faults[1].kind: " in done.stderr
        assert names(shell.proxy) == []
        as_json = shell("add", "--json", str(file))
        assert as_json.exit_code == 2
        assert json.loads(as_json.stdout)["problems"][1]["path"] == "faults[1].kind"

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("/no/such/file.yaml", "/no/such/file.yaml: No such file or directory"),
            ('{"kind": ', "the JSON on the command line: "),
            ("[", "the JSON on the command line: "),
            ('{"kind": "close", "name": "a" "match": {}}', "the JSON on the command line: Expecting ',' delimiter"),
            ('{"kind": "close", "kind": "error"}', "the JSON on the command line: 'kind' is said twice in one object"),
            ("{kind: close, kind: error}", "what is on the command line is neither JSON nor YAML: kind is said twice"),
            ("{kind: close", "what is on the command line is neither JSON nor YAML: "),
            ("-", "standard input: is neither YAML nor JSON: "),
        ],
    )
    def test_what_cannot_be_read_is_one_line(self, shell: Shell, source: str, message: str) -> None:
        done = shell("add", source, stdin="a: [b\nc: }")
        assert done.exit_code == 2
        assert done.stderr.startswith(message)
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""

    @pytest.mark.parametrize("text", ["kind: close", "kind: close\nname: " + "x" * 5000, "- kind: close\n"])
    def test_yaml_on_the_command_line_is_no_file(self, shell: Shell, text: str) -> None:
        done = shell("add", text)
        assert "No such file" not in done.output
        assert done.exit_code in (0, 2)

    @pytest.mark.parametrize(
        "text", ["{kind: close, name: a}", "[{kind: close, name: a}]", "{'kind': 'close', 'name': a}"]
    )
    def test_yaml_that_begins_like_json(self, shell: Shell, text: str) -> None:
        done = shell("add", text)
        assert (done.exit_code, done.stderr, names(shell.proxy)) == (0, "", ["a"])

    def test_a_document_without_faults_is_refused(self, shell: Shell) -> None:
        assert shell("add", "-", stdin="just text").exit_code == 2

    def test_a_yaml_date_does_not_crash(self, shell: Shell) -> None:
        done = shell("add", "-", stdin="kind: close\nname: 2026-01-01\n")
        assert done.exit_code in (0, 2)
        assert done.exception is None or isinstance(done.exception, SystemExit)

    def test_a_name_that_is_taken_is_wrong_use(self, shell: Shell) -> None:
        shell("add", json.dumps(CLOSE))
        done = shell("add", json.dumps(CLOSE))
        assert done.exit_code == 2
        assert "already in force" in done.stderr


class TestList:
    def test_nothing_is_nothing(self, shell: Shell) -> None:
        done = shell("ls")
        assert (done.exit_code, done.stdout) == (0, "")
        assert json.loads(shell("ls", "--json").stdout) == []

    def test_off_a_terminal_lines_are_tab_separated(self, shell: Shell) -> None:
        shell("add", json.dumps(CLOSE))
        shell.proxy.serve()
        done = shell("ls")
        assert done.stdout == "cut\tclose\tbefore_broker\tapi_key=Produce\ttimes=2\t1\tactive\n"
        shell.proxy.serve()
        assert shell("ls").stdout.endswith("\t2\tspent\n")
        shell.proxy.plan.switch("cut", False)
        assert shell("ls").stdout.endswith("\t2\toff\n")

    def test_markup_in_a_name_stays_text(self, shell: Shell) -> None:
        shell("add", json.dumps({"kind": "close", "name": "[red]x"}))
        assert shell("ls").stdout.startswith("[red]x\t")


class TestRemove:
    def test_one(self, shell: Shell) -> None:
        shell("add", json.dumps({"kind": "close", "name": "a b?"}))
        assert json.loads(shell("rm", "--json", "a b?").stdout) == {"removed": "a b?"}
        assert names(shell.proxy) == []

    def test_one_that_is_not_there_is_a_negative_verdict(self, shell: Shell) -> None:
        done = shell("rm", "nobody")
        assert done.exit_code == 1
        assert done.stderr == "there is no fault 'nobody'\n"

    def test_all(self, shell: Shell) -> None:
        shell("add", json.dumps([CLOSE, {"kind": "close"}]))
        assert shell("clear").exit_code == 0
        assert names(shell.proxy) == []

    def test_release(self, shell: Shell) -> None:
        shell("add", json.dumps(CLOSE))
        assert shell("release", "cut").exit_code == 0
        assert not shell.proxy.plan.is_held("cut")


class TestWait:
    def test_reached(self, shell: Shell) -> None:
        shell("add", json.dumps(CLOSE))
        shell.proxy.serve(times=2)
        done = shell("wait", "cut", "--hits", "2")
        assert (done.exit_code, done.stdout) == (0, "cut: 2 of 2 hits, reached\n")

    def test_not_reached_is_a_negative_verdict(self, shell: Shell) -> None:
        shell("add", json.dumps(CLOSE))
        done = shell("wait", "cut", "--hits", "2", "--timeout", "20ms", "--json")
        assert done.exit_code == 1
        assert json.loads(done.stdout) == {"name": "cut", "hits": 0, "wanted": 2, "reached": False}

    def test_the_client_waits_longer_than_the_server(self, shell: Shell) -> None:
        shell("add", json.dumps(CLOSE))
        shell.proxy.serve(times=2)
        shell("wait", "cut", "--timeout", "2m")
        assert shell.timeouts[-1]["read"] > 120

    def test_a_rule_that_is_not_there_is_wrong_use(self, shell: Shell) -> None:
        assert shell("wait", "nobody", "--timeout", "1s").exit_code == 2

    @pytest.mark.parametrize("timeout", ["soon", "10", "-1s", "2h", ""])
    def test_a_time_nobody_understands_is_wrong_use(self, shell: Shell, timeout: str) -> None:
        assert shell("wait", "cut", "--timeout", timeout).exit_code == 2


class TestServer:
    def test_nobody_there_is_one_line_that_says_what_to_do(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("[Errno 111] Connection refused", request=request)

        monkeypatch.setattr(shell, "answer", refuse)
        done = shell("ls", "--admin", "127.0.0.1:9999")
        assert done.exit_code == 2
        assert done.stderr.count("\n") == 1
        assert "127.0.0.1:9999" in done.stderr
        assert "notleader run" in done.stderr
        assert "--admin" in done.stderr

    def test_something_else_there_is_one_line(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shell, "answer", lambda request: httpx.Response(502, text="<html>"))
        done = shell("ls", "--json")
        assert done.exit_code == 2
        assert json.loads(done.stdout)["detail"] == "HTTP 502 that is not notleader's"

    @pytest.mark.parametrize("admin", ["", "http://", "ftp://x:1", "host:notaport", "[::1"])
    def test_an_address_that_is_none_is_wrong_use(self, shell: Shell, admin: str) -> None:
        done = shell("ls", "--admin", admin)
        assert done.exit_code == 2
        assert done.exception is None or isinstance(done.exception, SystemExit)

    def test_a_token_is_asked_for_and_taken_from_the_environment(
        self, proxy: FakeProxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shell = connect(Shell(proxy, token="s3cret"), monkeypatch)
        done = shell("ls")
        assert done.exit_code == 2
        assert "--token" in done.stderr
        monkeypatch.setenv("NOTLEADER_TOKEN", "s3cret")
        assert shell("ls").exit_code == 0
        assert shell("ls", "--token", "wrong").exit_code == 2


class TestKinds:
    def test_each_has_a_line_without_any_proxy(self) -> None:
        done = CliRunner().invoke(cli.fault_app, ["kinds"])
        assert {line.split("\t")[0] for line in done.stdout.splitlines()} == set(Fault.kinds)
        assert all(line.split("\t")[1] for line in done.stdout.splitlines())

    @pytest.mark.parametrize("kind", sorted(Fault.kinds))
    def test_each_is_described_with_its_fields(self, kind: str) -> None:
        done = CliRunner().invoke(cli.fault_app, ["show", kind])
        assert done.exit_code == 0
        lines = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
        fields = {line[0]: line for line in lines}
        assert {"name", "phase", "trigger.for_ms"} <= set(fields)
        assert "e+18" not in done.stdout
        undescribed = [name for name, line in fields.items() if not line[3].strip()]
        assert not undescribed
        document: dict[str, Any] = json.loads(CliRunner().invoke(cli.fault_app, ["show", kind, "--json"]).stdout)
        assert document["schema"]["properties"]["kind"]["const"] == kind

    @pytest.mark.parametrize("kind", ["refuse", "broker_down", "leader_move", "close", "error"])
    def test_what_it_is_refused_with_is_not_listed_and_all_else_is(self, kind: str, shell: Shell) -> None:
        document: dict[str, Any] = json.loads(CliRunner().invoke(cli.fault_app, ["show", kind, "--json"]).stdout)
        listed = {field["name"] for field in document["fields"]}
        own = {"error": {"error_code": 6}, "leader_move": {"leader_id": 2}, "broker_down": {"node_id": 1}}.get(kind, {})
        for part, key, value in (
            ("match", "api_key", "Produce"),
            ("match", "topic", "orders"),
            ("match", "partition_index", 0),
            ("match", "client_id", "app"),
            ("match", "node_id", 1),
            ("match", "listener", "bootstrap"),
            ("match", "connection", 1),
            ("trigger", "skip", 1),
            ("trigger", "for_ms", 10),
        ):
            rule = {"kind": kind, "name": f"{part}-{key}", **own, part: {key: value}}
            said = shell("add", json.dumps(rule))
            assert (f"{part}.{key}" in listed) == (said.exit_code == 0), (key, said.stderr)

    def test_an_unknown_one_gets_a_suggestion(self) -> None:
        done = CliRunner().invoke(cli.fault_app, ["show", "clsoe"])
        assert done.exit_code == 2
        assert done.stderr == "there is no fault kind 'clsoe'; did you mean 'close'?\n"
