"""The OpenAPI document: FastAPI's, plus what our routes say in their own way.

Bodies come from the models that our strict reader takes, answers from the shapes that routes return, refusals from
what every route of a kind may answer and what each one declares with `responses=refuses(…)`. Who may call it depends on
whether the server asks for keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from schedkit.api import examples
from schedkit.api.access import Auth, Guarded, Kept
from schedkit.api.bodies import Body
from schedkit.api.problems import refuses
from schedkit.api.shapes import Problem

REFERENCE: Final = "#/components/schemas/{model}"
REQUEST_ID: Final = {"description": "names this call in the server's log", "schema": {"type": "string"}}
REASON: Final = {"description": "kept in the audit record; percent-encoded", "schema": {"type": "string"}}
TENANT: Final = {"description": "refused where it is not the key's", "schema": {"type": "string"}}
RETRY_AFTER: Final = {"description": "seconds", "schema": {"type": "integer"}}

Doc = dict[str, Any]


def openapi(app: FastAPI, routes: Sequence[Guarded], auth: Auth) -> Doc:
    """The document of an app with these routes."""
    document = get_openapi(title=app.title, version=app.version, routes=app.routes, summary=app.summary)
    parts = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        parts.pop(name, None)
    bodies = [body for route in routes if (body := body_of_route(route)) is not None]
    _, schemas = models_json_schema([(model, "validation") for model, _ in bodies], ref_template=REFERENCE)
    parts |= schemas["$defs"]
    for model, _ in bodies:
        parts[model.__name__] |= {"examples": examples.BODIES[model.__name__]}
    shapes = [((route.name, status), shape) for route in routes for status, shape in route.shapes.items()]
    answers, schemas = TypeAdapter.json_schemas(
        [(place, "serialization", TypeAdapter(shape)) for place, shape in [*shapes, ("Problem", Problem)]],
        ref_template=REFERENCE,
    )
    parts |= schemas["$defs"]
    if auth is not Auth.NONE:
        schemes = document["components"].setdefault("securitySchemes", {})
        schemes["key"] = {"type": "http", "scheme": "bearer", "description": "an API key, sk_…"}
    for route, operation in _operations(document, routes):
        for status in route.shapes:
            content = operation["responses"][str(status)].setdefault("content", {})
            content["application/json"] = {"schema": answers[(route.name, status), "serialization"]}
        _say_who(operation, route, auth)
        _say_what_goes_in(operation, route, auth)
        _say_what_comes_back(operation, route, auth)
    return document


def _operations(document: Doc, routes: Sequence[Guarded]) -> Iterator[tuple[Guarded, Doc]]:
    for route in routes:
        for method in route.methods or ():
            yield route, document["paths"][route.path_format][method.lower()]


def _say_who(operation: Doc, route: Guarded, auth: Auth) -> None:
    """Who may call it, and what the audit log calls it where it is kept."""
    operation["security"] = [{"key": []}] if route.need.role is not None and auth is not Auth.NONE else []
    operation["x-role"] = route.need.role.value if route.need.role is not None else None
    if route.kept is not Kept.NEVER:
        operation["x-audit"] = route.action


def _say_what_goes_in(operation: Doc, route: Guarded, auth: Auth) -> None:
    parameters = operation.setdefault("parameters", [])
    for parameter in parameters:
        parameter["schema"] = _never_null(parameter["schema"])  # one that may be left out is not sent as null
        if (example := examples.PARAMETERS.get(parameter["name"])) is not None:
            parameter["example"] = example
    parameters += [{"name": name, "in": "header", **said} for name, said in _usual_headers(route, auth)]
    if (body := body_of_route(route)) is not None:
        model, required = body
        reference = {"$ref": REFERENCE.format(model=model.__name__)}
        operation["requestBody"] = {"required": required, "content": {"application/json": {"schema": reference}}}


def _say_what_comes_back(operation: Doc, route: Guarded, auth: Auth) -> None:
    answers = operation["responses"]
    if "HTTPValidationError" in str(answers.get("422")):
        del answers["422"]
    for status, refusal in refuses(*_usual(route, auth)).items():
        answers.setdefault(str(status), refusal)
    for status, answer in answers.items():
        headers = answer.setdefault("headers", {}) | {"X-Request-Id": REQUEST_ID}
        answer["headers"] = headers | ({"Retry-After": RETRY_AFTER} if status in ("429", "503") else {})
    operation["responses"] = dict(sorted(answers.items()))


def _usual(route: Guarded, auth: Auth) -> Iterator[int]:
    """How every route of this kind may refuse."""
    yield 400  # a query parameter that is not known
    if auth is Auth.NONE or route.need.role is not None:
        yield 403  # a foreign host or page; a role too low
    if "{" in route.path_format:
        yield 404
    if body_of_route(route) is not None:
        yield 413
    if route.need.role is not None:
        yield 503
        if auth is not Auth.NONE:
            yield from (401, 429)


def _usual_headers(route: Guarded, auth: Auth) -> Iterator[tuple[str, Doc]]:
    """Headers that every route of this kind reads by itself."""
    yield "X-Request-Id", REQUEST_ID
    if route.kept is not Kept.NEVER:
        yield "Schedkit-Reason", REASON
    if route.need.role is not None and auth is not Auth.NONE:
        yield "Schedkit-Tenant", TENANT


def _never_null(schema: Doc) -> Doc:
    kinds: list[Doc] = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return kinds[0] | {name: value for name, value in schema.items() if name not in ("anyOf", "default")}


def body_of_route(route: APIRoute) -> tuple[type[Body], bool] | None:
    """The model of a route's body, and whether there must be one."""
    for dependency in route.dependant.dependencies:
        body: tuple[type[Body], bool] | None = getattr(dependency.call, "__schedkit_body__", None)
        if body is not None:
            return body
    return None
