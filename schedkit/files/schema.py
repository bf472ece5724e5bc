"""The JSON schema of a job file, for editors and other programs; it follows from the table of keys."""

from __future__ import annotations

from typing import Any, Final

from schedkit.files.jobfile import VERSION
from schedkit.files.keys import BY_NAME, KEYS, PLACES, TIMINGS, TOP, Key, Kind
from schedkit.model.jobs import MAX_ATTEMPTS
from schedkit.model.names import MAX_NAME_CHARS

ANY_CASE: Final = "case, - and _ do not matter"
_SPAN: Final = {"type": "string", "pattern": r"^([0-9]+(\.[0-9]{1,3})?(ms|[smhdw]))+$"}
_TEXT: Final = {"type": "string", "minLength": 1}


def schema() -> dict[str, Any]:
    """The schema, in JSON Schema 2020-12. What it allows may still be refused: crons, zones and times are text here."""
    job = {
        "type": "object",
        "properties": {key.name: _value(key) for key in KEYS},
        "additionalProperties": False,
        "allOf": [{"oneOf": [{"required": [key]} for key in keys]} for keys in (TIMINGS,)],
    }
    own = {key.name: _value(key) for key in KEYS if not key.own}
    properties: dict[str, Any] = {name: {"description": means} for name, means in TOP.items() if name != "targets"}
    properties["schedkit"] |= {"const": VERSION}
    properties["managed_by"] |= {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS}
    properties["defaults"] |= {"type": "object", "properties": own, "additionalProperties": False}
    properties["jobs"] |= {
        "type": ["object", "null"],
        "propertyNames": {"maxLength": MAX_NAME_CHARS, "pattern": r"^(?!job_|-)[^/\\:]+$"},
        "additionalProperties": job,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"schedkit-jobs-{VERSION}",
        "title": f"A job file of schedkit {VERSION}",
        "description": f"Each job has one of {', '.join(TIMINGS)}, and one of {', '.join(PLACES)} or a default for it.",
        "type": "object",
        "required": ["schedkit", "jobs"],
        "properties": properties,
        "additionalProperties": False,
    }


def _value(key: Key) -> dict[str, Any]:
    told: dict[str, Any] = {"description": key.means + (f" Default: {key.default}." if key.default else "")}
    match key.kind:
        case Kind.TEXT | Kind.TIME:
            return told | _TEXT
        case Kind.WORD:
            return told | {"type": "string", "examples": list(key.words), "$comment": ANY_CASE}
        case Kind.SPAN:
            return told | _SPAN
        case Kind.FLAG:
            return told | {"type": "boolean"}
        case Kind.COUNT:
            return told | {"type": "integer", "minimum": 1}
        case Kind.PAIRS:
            return told | {"type": "object", "additionalProperties": {"type": "string"}}
        case Kind.RETRY:
            attempts = {"type": "integer", "minimum": 1, "maximum": MAX_ATTEMPTS}
            backoff = {"type": "string", "examples": ["10s..10m"]}
            return told | {"type": "object", "properties": {"max_attempts": attempts, "backoff": backoff}}
        case Kind.ANY:
            return told


assert set(TIMINGS) | set(PLACES) <= set(BY_NAME), "the schema speaks of keys that there are"
