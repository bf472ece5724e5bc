"""A small slice of the fuzzing, the same each time: each example of the document, and a few requests for each call.

`make fuzz` runs all of it: with drawn seeds, more requests, and the phase that tries each bound of each field.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from schedkit.api import examples
from schedkit.api.access import Auth
from schedkit.api.app import ROUTERS
from schedkit.api.bodies import Body
from schedkit.api.openapi import body_of_route
from tests.fuzz.run import CONFIG, fuzz

SEED = 1
FEW = 3  # requests drawn for each call: about seven seconds of one core, most of them for the start
EXCLUDED = {"positive_data_acceptance", "missing_required_header"}  # the file says why


@pytest.mark.parametrize("auth", Auth)
def test_every_call_answers_as_the_document_says(auth: Auth, tmp_path: Path) -> None:
    found = fuzz(tmp_path, auth, seed=SEED, examples=FEW, phases="examples,fuzzing", quiet=True)
    assert found.returncode == 0, found.stdout[-20_000:] + found.stderr
    assert " passed" in found.stdout


def test_no_other_check_is_left_out() -> None:
    checks = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["checks"]
    assert {name for name, said in checks.items() if said.get("enabled") is False} == EXCLUDED


def test_every_whole_number_may_be_written_as_json_schemas_have_it() -> None:
    """5.0 is an integer there."""
    checked = 0
    for model in _bodies(Body):
        for name, field in model.model_fields.items():
            schema = model.model_json_schema()["properties"].get(field.alias or name, {})
            for kind in (schema, *schema.get("anyOf", ())):
                if kind.get("type") == "integer":
                    number = float(kind["minimum"])
                    annotated: Any = Annotated
                    adapter = TypeAdapter[Any](annotated[field.annotation, field, *field.metadata])
                    assert adapter.validate_python(number) == number, f"{model.__name__}.{name}"
                    checked += 1
    assert checked > 20


def _bodies(kind: type[Body]) -> Iterator[type[Body]]:
    for model in kind.__subclasses__():
        yield model
        yield from _bodies(model)


def test_every_body_has_an_example_and_no_example_is_of_nothing() -> None:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    bodies = {found[0].__name__ for route in routes if (found := body_of_route(route)) is not None}
    assert bodies == set(examples.BODIES)
