"""Fault documents: plain data in, faults or every problem with its path out, and the JSON Schema of it all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, TypeVar, Union, get_args

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from notleader.faults.base import Fault, StandingFault
from notleader.faults.match import ABOUT_A_BODY, Match, keys_answered
from notleader.faults.trigger import OF_TIME, Trigger
from notleader.proxy.wire.names import ApiKey, did_you_mean

_Model = TypeVar("_Model", bound=BaseModel)


class Problem(NamedTuple):
    """One thing that is wrong in a document, and where: `faults[2].match.api_key`."""

    path: str
    message: str


class FaultDocumentError(Exception):
    """The document is refused as a whole; `problems` are all that were found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{path}: {message}" if path else message for path, message in problems))
        self.problems = problems


def parse_faults(document: Any, path: str = "faults") -> list[Fault]:
    """The faults of a list of documents (or of faults); FaultDocumentError with every problem of all of them."""
    if not isinstance(document, list):
        raise FaultDocumentError([Problem(path, f"a list of faults expected, got {_kind_of(document)}")])
    parsed: list[Fault] = []
    problems: list[Problem] = []
    for position, item in enumerate(document):
        try:
            parsed.append(item if isinstance(item, Fault) else parse_fault_document(item, f"{path}[{position}]"))
        except FaultDocumentError as error:
            problems += error.problems
    problems += _taken_twice(document, path)
    if problems:
        raise FaultDocumentError(problems)
    return parsed


def parse_fault_document(document: Any, path: str = "") -> Fault:
    """One fault; FaultDocumentError with every problem, each path beginning with `path`."""
    if not isinstance(document, dict):
        raise FaultDocumentError([Problem(path, f"a mapping expected, got {_kind_of(document)}")])
    kind = document.get("kind")
    model = Fault.kinds.get(kind) if isinstance(kind, str) else None
    if model is None:
        problems = _of_every_kind(document, path)
        if kind is None:
            message = f"missing; one of {', '.join(sorted(Fault.kinds))}"
        else:
            hint = did_you_mean(str(kind), Fault.kinds) or f"; one of {', '.join(sorted(Fault.kinds))}"
            message = f"there is no kind {kind!r}{hint}"
        raise FaultDocumentError([Problem(_joined(path, "kind"), message), *problems])
    fault = validated(model, document, path)
    if problems := _contradictions(fault, path):
        raise FaultDocumentError(problems)
    return fault


def _of_every_kind(document: dict[str, Any], path: str) -> list[Problem]:
    """What is wrong with a fault of no known kind, in the parts that all kinds have alike."""
    problems: list[Problem] = []
    for key, model in (("match", Match), ("trigger", Trigger)):
        try:
            validated(model, document.get(key, {}), _joined(path, key))
        except FaultDocumentError as error:
            problems += error.problems
    return problems


def validated(model: type[_Model], document: Any, path: str) -> _Model:
    """A model made of plain data; FaultDocumentError with every problem."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        messages: dict[str, list[str]] = {}
        for detail in error.errors(include_url=False):
            place = _joined(path, *_steps(document, detail))
            messages.setdefault(place, []).append(_message(model, detail))
        problems = [
            Problem(place, ", or ".join(dict.fromkeys(said)))
            for place, said in messages.items()
            # A value of several forms that is wrong inside one of them isn't wrong for not being another.
            if not any(deeper.startswith(f"{place}.") for deeper in messages)
        ]
        raise FaultDocumentError(problems) from None


@cache
def fault_json_schema() -> dict[str, Any]:
    """The JSON Schema of one fault document: the union of all kinds, told apart by `kind`."""
    every_kind: Any = Union[tuple(Fault.kinds.values())]  # noqa: UP007 (made at run time)
    one_of_them: Any = Annotated[every_kind, Field(discriminator="kind")]
    adapter: TypeAdapter[Any] = TypeAdapter(one_of_them)
    schema = adapter.json_schema()
    for model in schema["$defs"].values():
        # A literal with a default isn't required of a model; of a document, which is told apart by it, it is.
        told_by = [key for key in ("kind", "distribution") if key in model["properties"]]
        model["required"] = [*told_by, *(key for key in model.get("required", ()) if key not in told_by)]
    return schema


def meaningless_keys(kind: type[Fault], phase: str) -> tuple[frozenset[str], str]:
    """The match keys that faults of this kind are refused with in this phase, and why."""
    if phase != "connection":
        return frozenset(), ""
    if issubclass(kind, StandingFault) and kind.told_alike is not None:
        return frozenset(Match.model_fields) - kind.told_alike, "means nothing here: every client is told the same"
    return _OF_REQUESTS, "is not known yet when a connection is accepted"


_OF_REQUESTS: Final = frozenset(
    {"api_key", "api_version", "topic", "partition_index", "client_id", "group_id", "transactional_id"}
)


def _contradictions(fault: Fault, path: str) -> list[Problem]:
    """Matches that could never hit anything."""
    match = fault.match
    keys, reason = meaningless_keys(type(fault), fault.phase)
    problems = [Problem(_joined(path, "match", key), reason) for key in sorted(keys) if getattr(match, key) is not None]
    if isinstance(fault, StandingFault):
        idle = fault.trigger.model_fields_set.difference(OF_TIME)
        if fault.trigger.times == "forever":
            idle -= {"times"}
        problems += [
            Problem(
                _joined(path, "trigger", key),
                f"{fault.kind} stands: only {', '.join(OF_TIME[:-1])} and {OF_TIME[-1]} mean something",
            )
            for key in sorted(idle)
        ]
    elif fault.api_keys is not None and not problems:
        if not fault.api_keys:
            problems.append(Problem(_joined(path, "match", "api_key"), _acts_elsewhere(fault)))
        else:
            problems += _unanswered(match, fault.api_keys, path)
    return problems


def _acts_elsewhere(fault: Fault) -> str:
    """Why a fault can't hit the APIs that its match names, and in which phase it could."""
    message = f"{fault.kind} acts on {_names(fault.acts_on or ())} only"
    for phase in get_args(type(fault).model_fields["phase"].annotation):
        if phase != fault.phase and (other := fault.model_copy(update={"phase": phase})).api_keys:
            return f"{message}, in phase {fault.phase}; with `phase: {phase}` on {_names(other.acts_on or ())}"
    return message


def _unanswered(match: Match, api_keys: frozenset[int], path: str) -> list[Problem]:
    """What a match asks and no request of these APIs answers in any version."""
    asked = {key for key in ABOUT_A_BODY if getattr(match, key) is not None}
    answered = [keys_answered(api_key) for api_key in api_keys]
    if any(asked <= keys for keys in answered):
        return []
    nowhere = asked.difference(*answered)
    if not nowhere:
        message = f"no request of {_names(api_keys)} names all of {', '.join(sorted(asked))}: this can never match"
        return [Problem(_joined(path, "match"), message)]
    message = f"a request of {_names(api_keys)} names none: this can never match"
    return [Problem(_joined(path, "match", key), message) for key in sorted(nowhere)]


def _names(api_keys: Iterable[int]) -> str:
    return ", ".join(sorted(ApiKey(key).name for key in api_keys))


def _taken_twice(document: list[Any], path: str) -> list[Problem]:
    first: dict[str, int] = {}
    problems = []
    for position, item in enumerate(document):
        name = item.get("name") if isinstance(item, dict) else getattr(item, "name", None)
        if isinstance(name, str) and name:
            if name in first:
                message = f"the name {name!r} is taken by {path}[{first[name]}]"
                problems.append(Problem(f"{path}[{position}].name", message))
            first.setdefault(name, position)
    return problems


def _joined(path: str, *steps: str | int) -> str:
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path


def _kind_of(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__


def _steps(document: Any, detail: ErrorDetails) -> list[str | int]:
    """Where in the document the error is: pydantic's location without the names of union members."""
    steps: list[str | int] = []
    place = document
    for position, part in enumerate(detail["loc"]):
        last = position == len(detail["loc"]) - 1
        is_key = isinstance(place, dict) and part in place
        is_index = isinstance(place, list) and isinstance(part, int)
        if is_key or is_index:
            place = place[part]
        elif not (last and detail["type"] in ("missing", "extra_forbidden")):
            continue
        steps.append(part)
    return steps


_SAID_SHORTER = {
    "int_type": "a whole number expected",
    "int_parsing": "a whole number expected",
    "int_from_float": "a whole number expected",
    "float_type": "a number expected",
    "float_parsing": "a number expected",
    "string_type": "text expected",
    "model_type": "a mapping expected",
    "model_attributes_type": "a mapping expected",
    "dict_type": "a mapping expected",
}


def _message(model: type[BaseModel], detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        meaning = _meaning(model, detail["loc"])
        return f"missing: {meaning}" if meaning else "missing"
    if kind == "extra_forbidden":
        *place, name = detail["loc"]
        nested = [outer for outer in ("trigger", "match") if name in _known_keys(model, (*place, outer))]
        if nested and not {"trigger", "match"} & set(place):
            return f"unknown key; {nested[0]} takes it: {nested[0]}: {{{name}: …}}"
        return f"unknown key{did_you_mean(str(name), _known_keys(model, tuple(place)))}"
    if kind == "literal_error":
        expected = str(context["expected"])
        return f"{detail['input']!r} is not {expected}"
    if kind == "union_tag_not_found":
        return f"a mapping with {context['discriminator']} expected, or a number"
    return _SAID_SHORTER.get(kind, detail["msg"].removeprefix("Value error, "))


def _meaning(model: type[BaseModel], location: tuple[str | int, ...]) -> str:
    """What the field there is for, as its description says; empty when it has none."""
    *place, name = location
    fields = (found.model_fields.get(str(name)) for found in _places(model, tuple(place)))
    said = next((field.description for field in fields if field and field.description), "")
    return said.removesuffix(".")


def _known_keys(model: type[BaseModel], location: tuple[str | int, ...]) -> set[str]:
    """The keys that the place of an unknown one would take."""
    return {name for place in _places(model, location) for name in place.model_fields}


def _places(model: type[BaseModel], location: tuple[str | int, ...]) -> list[Any]:
    """The models that may stand at a location of pydantic's."""
    places: list[Any] = [model]
    for part in location:
        fields = [place.model_fields[part] for place in places if part in place.model_fields]
        if fields:
            places = [inner for found in fields for inner in _models(found.annotation)]
        else:
            places = [place for place in places if part in _literals(place)] or places
    return places


def _models(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _literals(model: Any) -> set[Any]:
    return {value for found in model.model_fields.values() for value in get_args(found.annotation)}
