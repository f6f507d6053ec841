"""Bodies as Go reads them. What is expected here is what a Toxiproxy 2.12.0 answered."""

from __future__ import annotations

import pytest

from notleader.proxy.admin.toxics.bodies import BodyError, as_float32, first_value
from notleader.proxy.admin.toxics.requests import WrongFieldError, changed_toxic, new_toxic, wanted_proxy

_GO = "json: cannot unmarshal"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("", "EOF"),
        (" ", "EOF"),
        ("{", "unexpected EOF"),
        ('{"name":', "unexpected EOF"),
        ('{"a":"abc', "unexpected EOF"),
        ("hello", "invalid character 'h' looking for beginning of value"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ('{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
        (r'{"a":"\x"}', "invalid character 'x' in string escape code"),
        ('{"a":"\n"}', "invalid character '\\n' in string literal"),
        ('{"a":01}', "invalid character '1' after object key:value pair"),
        ('{"a":-}', "invalid character '}' in numeric literal"),
        ('{"a":1.}', "invalid character '}' after decimal point in numeric literal"),
        ('{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        ("[]", f"{_GO} array into Go value of type toxiproxy.Proxy"),
        ('{"name":5}', f"{_GO} number into Go struct field Proxy.name of type string"),
        ('{"name":true,"enabled":5}', f"{_GO} bool into Go struct field Proxy.name of type string"),
        ('{"name":"x","enabled":"yes"}', f"{_GO} string into Go struct field Proxy.enabled of type bool"),
        ('{"upstream":{}}', f"{_GO} object into Go struct field Proxy.upstream of type string"),
    ],
)
def test_what_is_wrong_is_said_in_the_same_words(body: str, complaint: str) -> None:
    with pytest.raises(BodyError) as refused:
        wanted_proxy(first_value(body.encode()))
    assert str(refused.value) == complaint


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("{}", "invalid toxic type"),
        ("null", "invalid toxic type"),
        ('{"type":"nope","stream":"x"}', "stream was invalid, can be either upstream or downstream"),
        ('{"type":"noop","stream":""}', "stream was invalid, can be either upstream or downstream"),
        ('{"type":"noop","name":"there"}', "toxic already exists"),
        ('{"type":5}', f"{_GO} number into Go struct field ToxicWrapper.type of type string"),
        (
            '{"type":"noop","toxicity":1e300}',
            f"{_GO} number 1e300 into Go struct field ToxicWrapper.toxicity of type float32",
        ),
        (
            '{"type":"latency","attributes":{"latency":1.0}}',
            f"{_GO} number 1.0 into Go struct field LatencyToxic.attributes.latency of type int64",
        ),
        (
            '{"type":"limit_data","attributes":[1]}',
            f"{_GO} array into Go struct field ToxicWrapper.attributes of type toxics.NoopToxic",
        ),
    ],
)
def test_a_toxic_that_can_not_be(body: str, complaint: str) -> None:
    with pytest.raises((BodyError, WrongFieldError)) as refused:
        new_toxic(first_value(body.encode()), lambda name: name == "there")
    assert str(refused.value) == complaint


def test_keys_in_any_case_the_later_one_and_no_null() -> None:
    proxy = wanted_proxy(first_value(b' {"NAME":"a","name":"b","upStream":"u:1","enabled":null,"x":[1]} {"name":"c"}'))
    assert proxy == {"name": "b", "listen": "", "upstream": "u:1", "enabled": True, "kafka": False}


def test_a_stream_is_shown_as_it_was_given() -> None:
    rule = new_toxic(
        first_value(b'{"type":"latency","stream":"UPstream","attributes":{"LATENCY":5}}'), lambda name: False
    )
    assert rule.stream == "upstream"
    assert rule.document() == {
        "attributes": {"latency": 5, "jitter": 0},
        "name": "latency_UPstream",
        "type": "latency",
        "stream": "UPstream",
        "toxicity": 1,
    }


def test_a_change_takes_what_is_given_of_it() -> None:
    rule = new_toxic(first_value(b'{"type":"slicer","attributes":{"average_size":5}}'), lambda name: False)
    assert changed_toxic(rule, None) == (rule.attributes, 1)
    body = first_value(b'{"attributes":{"delay":3},"toxicity":0.123456789,"name":"other"}')
    assert changed_toxic(rule, body) == ({"average_size": 5, "size_variation": 0, "delay": 3}, 0.12345679)
    with pytest.raises(BodyError, match=r"SlicerToxic.attributes.delay of type int$"):
        changed_toxic(rule, first_value(b'{"attributes":{"delay":"x"}}'))


def test_broken_text_is_read() -> None:
    assert wanted_proxy(first_value(b'{"name":"\\ud800\xff","upstream":"u:1"}'))["name"] == "��"


@pytest.mark.parametrize("number", [0.1, 0.5, 1e-7, 0.12345679, 1, 0, -1, 2])
def test_a_number_of_32_bits_is_written_short(number: float) -> None:
    assert as_float32(float(number)) == number
