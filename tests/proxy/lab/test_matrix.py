"""The matrix without its processes: which cells there are, what they hold, and the words for what was found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from notleader.proxy.lab import matrix_run
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.incident import CLIENTS, Incident, incident_names, load_incident
from notleader.proxy.lab.incident_docs import PAGE as INCIDENTS
from notleader.proxy.lab.incident_docs import page as incident_page
from notleader.proxy.lab.matrix import FAMILIES, Client, MatrixError, cell, clients, incidents
from notleader.proxy.lab.matrix_cli import _about
from notleader.proxy.lab.matrix_page import Page, html, markdown
from notleader.proxy.lab.matrix_run import Filled, digest, fill, forget_warm_up
from notleader.proxy.lab.matrix_words import WORDS, lasting, rated, said
from notleader.proxy.lab.recorded import apart
from notleader.proxy.lab.stages import Stages

FRANZ = Client("franz_go", "1.22.2")
SCALA = Client("scala", "0.8.2.2")


def filled(*findings: dict[str, Any], **more: Any) -> Filled:
    cell = Filled(
        "sarama-hang", "franz_go@1.22.2", "client.sarama-hang.franz_go-1.22.2", "d", "2026-01-01T00:00:00Z", 3.0
    )
    given = [{"client": cell.tested, "verdict": "invalid", "slowest_us": None, "count": 1, **each} for each in findings]
    return replace(cell, findings=[{"sentence": f"{each['check']}.", **each} for each in given], sends=30, **more)


def test_there_are_a_dozen_families_at_pinned_versions() -> None:
    known = clients([])
    assert len(known) >= 12
    assert {client.family for client in known} == set(FAMILIES)
    for family in FAMILIES.values():
        for program in filter(None, (family.producer, family.consumer)):
            assert (CLIENTS / program).is_file(), program


def test_clients_and_incidents_are_asked_for_by_name() -> None:
    assert clients(["franz_go@1.22.2"]) == [FRANZ]
    assert {client.family for client in clients(["sarama"])} == {"sarama"}
    assert [incident.name for incident in incidents(["sarama-hang"])] == ["sarama-hang"]
    with pytest.raises(MatrixError, match=r"no client 'kafka'.*sarama@"):
        clients(["kafka"])
    with pytest.raises(MatrixError, match="leader-lost is not for the matrix"):
        incidents(["leader-lost"])


@pytest.mark.parametrize("incident", incidents([]), ids=lambda incident: incident.name)
def test_every_client_has_a_valid_cell_in_every_world(incident: Incident) -> None:
    for client in clients([]):
        if client.unable(incident):
            continue
        made = cell(client, incident).incident
        assert made.topics[0].name == f"{incident.topics[0].name}.{incident.name}.{client.word}"
        places = {made.clients[0].arguments.get(name) for name in ("topic", "output")}
        assert made.topics[0].name in places
        assert made.runs[0].must == []


def test_a_client_without_idempotence_goes_without_and_says_so() -> None:
    [incident] = incidents(["sarama-hang"])
    assert SCALA.lacks(incident) == "not idempotent"
    assert FRANZ.lacks(incident) == ""
    assert cell(FRANZ, incident).incident.clients[0].arguments["idempotent"] is True
    kafka_go = cell(Client("kafka_go", "0.4.51"), incident)
    assert kafka_go.incident.clients[0].arguments["idempotent"] is False


def test_a_consumers_world_is_fed_by_somebody_else() -> None:
    [incident] = incidents(["offset-out-of-range-once"])
    reader, feeder = cell(FRANZ, incident).incident.clients
    assert reader.arguments["mode"] == "consume"
    assert feeder.version == "installed"
    assert SCALA.unable(incident)


def test_an_incident_set_apart_has_names_of_its_own_everywhere() -> None:
    incident = apart(load_incident("offset-out-of-range-once"), "word")
    assert [topic.name for topic in incident.topics] == ["orders.word"]
    assert incident.faults[0]["match"]["topic"] == "orders.word"
    assert incident.clients[0].arguments["group_id"] == "billing.word"
    assert {program.arguments["topic"] for program in incident.clients} == {"orders.word"}
    assert [program.name for program in incident.clients] == ["librdkafka.word", "feeder.word"]


def test_a_cell_is_run_anew_when_its_settings_or_faults_change() -> None:
    [incident] = incidents(["sarama-hang"])
    before = digest(cell(FRANZ, incident))
    assert before == digest(cell(FRANZ, incident))
    assert incident.matrix is not None
    world = incident.matrix.model_copy(update={"settings": {"retries": 7}})
    assert digest(cell(FRANZ, incident.model_copy(update={"matrix": world}))) != before


def test_the_worst_finding_is_the_word_and_the_others_stand_behind_it() -> None:
    told = said(filled({"check": "failed", "verdict": "valid", "slowest_us": 2_000_000, "count": 3}, {"check": "hang"}))
    assert told.word == "hangs"
    assert told.phrase == "hangs: 1 of 30 sends never answered; errors: 3 of 30, the slowest after 2.0 s"
    assert told.evidence == ["hang.", "failed."]


def test_a_cell_without_findings_recovers_where_the_fault_struck_and_is_unharmed_where_not() -> None:
    assert said(filled(hits={"not-leader": 4})).word == "recovers"
    assert said(filled(hits={"not-leader": 0})).word == "unharmed"
    back = {"check": "recovery", "verdict": "valid", "slowest_us": 1_500_000}
    assert said(filled(back, hits={"not-leader": 4})).phrase == "recovers, slowest after 1.5 s"


def test_a_client_that_ended_before_its_first_send_is_not_called_unharmed() -> None:
    told = said(replace(filled(hits={"mute": 2}), failed="client ended with code 1: no brokers", sends=0))
    assert told.word == "no start"
    assert "no brokers" in told.phrase
    assert said(replace(filled(hits={"mute": 2}), sends=0)).word == "no start"


def test_a_client_whose_program_can_not_be_had_is_blamed_for_nothing_and_asked_the_next_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def nothing(*_: object) -> None:
        raise LabError("there is no 'javac' on PATH")

    monkeypatch.setattr(matrix_run, "command", nothing)
    incident = load_incident("sarama-hang")
    asked = cell(FRANZ, incident)
    [done] = fill([asked], tmp_path, Stages(quiet=True))
    told = said(done)
    assert (told.word, told.phrase) == ("not run", "not run: there is no 'javac' on PATH")
    assert not matrix_run._up_to_date(asked, tmp_path)
    page = Page([incident], [FRANZ], {(incident.name, FRANZ.name): [done]}, [])
    assert page.not_run() == 1
    assert "run the same command again" in markdown(page, "matrix.html")
    assert "not run: there is no" in html(page)


def test_nobody_is_called_dead_after_a_fault_that_never_ends() -> None:
    assert lasting(load_incident("sarama-two-minutes"))
    assert not lasting(load_incident("sarama-hang"))
    dead = filled({"check": "stuck", "slowest_us": 3_000_000}, hits={"x": 1})
    assert said(dead).word == "stays dead"
    assert said(dead, to_the_end=True).word == "recovers"


def test_what_was_not_judged_is_not_told() -> None:
    assert said(filled({"check": "hang", "verdict": "unknown"}, hits={"x": 1})).word == "recovers"


def test_the_client_of_the_incident_meets_it_as_the_incident_has_it() -> None:
    [incident] = incidents(["java-callback-deadlock"])
    victim = cell(Client("java", "0.11.0.3"), incident)
    assert victim.own
    assert victim.incident.clients[0].arguments["resend"] == "get"
    assert not cell(Client("java", "2.8.2"), incident).own


def test_the_rules_come_after_the_first_success_where_the_story_is_not_about_the_start() -> None:
    [warm] = incidents(["lost-acknowledgement"])
    made = cell(FRANZ, warm).incident
    assert (made.faults, made.steps[0]["at"]) == ([], "0s")
    assert [step["add"]["name"] for step in made.steps] == [rule["name"] for rule in warm.faults]
    [cold] = incidents(["java-send-blocks"])
    assert cell(FRANZ, cold).incident.faults


def test_what_came_before_the_rules_is_not_judged(tmp_path: Path) -> None:
    said_to_it = tmp_path / "client.jsonl"
    sends = [("m0", "ok", 700), ("m1", "info", 650), ("m2", "ok", 900), ("m3", "pending", None)]
    lines = [
        {"operation": "send", "message_id": name, "outcome": outcome, "completed_at_us": at}
        for name, outcome, at in sends
    ]
    said_to_it.write_text("".join(json.dumps(line) + "\n" for line in lines))
    forget_warm_up(said_to_it)
    kept = [json.loads(line)["message_id"] for line in said_to_it.read_text().splitlines()]
    assert kept == ["m1", "m2", "m3"]


def test_a_cell_whose_rounds_differ_says_its_rate_and_shows_each_round() -> None:
    hung = filled({"check": "hang"}, hits={"x": 1}, told=["the story of one that hangs"])
    back = filled(hits={"x": 1}, told=["the story of one that recovers"])
    rounds = [back, hung, hung, back, hung]
    both = rated(rounds)
    assert (both.word, both.first.word, both.stable) == ("hangs 3 of 5, recovers 2 of 5", "hangs", False)
    assert rated([hung, back]).first.word == "hangs", "of two that are as frequent the worse"
    assert (rated([back, back]).word, rated([back, back]).stable) == ("recovers", True)
    page = Page(incidents(["sarama-hang"]), [FRANZ], {(hung.incident, hung.client): rounds}, [])
    assert "hangs 3 of 5, recovers 2 of 5" in html(page)
    assert "the story of one that recovers" in html(page)
    assert "[hangs 3 of 5, recovers 2 of 5](" in markdown(page, "matrix.html")


def test_both_pages_have_every_cell_and_the_html_its_evidence() -> None:
    rows = incidents(["sarama-hang", "offset-out-of-range-once"])
    done = filled({"check": "hang", "sentence": "2 <operations> never completed."}, hits={"not-leader": 4})
    page = Page(rows, [FRANZ, SCALA], {(done.incident, done.client): [done]}, ["2026, Kafka 3.9.1"])
    text = html(page)
    assert "2 &lt;operations&gt; never completed." in text
    assert 'href="#sarama-hang--franz_go-1.22.2"' in text
    assert 'id="sarama-hang--franz_go-1.22.2"' in text
    assert "no group consumer here" in text
    assert "not run" in text
    plain = markdown(page, "matrix.html")
    assert "| | franz-go (Go)<br>1.22.2 | " in plain
    assert "| [sarama-hang](matrix.html#sarama-hang) | [hangs](matrix.html#sarama-hang--franz_go-1.22.2) | |" in plain
    assert all(f"**{word}**" in plain for word in WORDS)


def test_the_page_of_the_catalogue_is_up_to_date_and_names_every_incident() -> None:
    text = INCIDENTS.read_text()
    assert text == incident_page(), "run `python -m notleader.proxy.lab.incident_docs`"
    assert len(incident_names()) >= 26
    for name in incident_names():
        assert f"| `{name}` | [" in text


@pytest.mark.parametrize("name", incident_names())
def test_an_incident_says_who_is_hurt_and_where_it_was_told(name: str) -> None:
    incident = load_incident(name)
    assert incident.links
    if name == "leader-lost":
        return
    names = [run.name for run in incident.runs]
    assert {"affected", "control"} <= set(names)
    assert incident.reproduces or incident.seen, "what was seen instead?"


@pytest.mark.parametrize(("count", "said"), [(1, "1 cell in 1 run,"), (2, "1 cell in 2 runs,")])
def test_what_the_page_rests_on_is_counted_in_words_that_fit(count: int, said: str) -> None:
    one = cast(Filled, SimpleNamespace(at="2026-11-28 09:00", incident="sarama-hang", client="sarama", seconds=3.0))
    *_, counted = _about("2026-11-28", "notleader matrix", [one] * count)
    assert counted.startswith(said)
