"""The door: one ASGI app over a world. Errors leave it as problem+json, and OpenAPI describes what comes in."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse

from schedkit import __version__
from schedkit.api import audit, demo, dlq, jobs, keys, ops, runs, schedules, stream, workers
from schedkit.api.access import Access, Auth, Guarded, Kept
from schedkit.api.bodies import Body
from schedkit.api.docs_page import docs_page
from schedkit.api.door import Door
from schedkit.api.ops import Vitals
from schedkit.api.problems import MEDIA_TYPE, on_bug, on_http_exception, on_schedkit_error, problem, request_id_of
from schedkit.api.requests import known_query
from schedkit.api.stream import Following, Streams
from schedkit.api.trail import Chains
from schedkit.api.workers import WorkersDoor
from schedkit.errors import InvalidInput, Reason, SchedkitError
from schedkit.ports import World

ROUTERS: Final = (
    jobs.batch_router,
    jobs.router,
    workers.router,
    runs.router,
    dlq.router,
    schedules.router,
    keys.router,
    audit.router,
    ops.router,
    stream.router,
)


def make_app(
    world: World, vitals: Vitals, door: WorkersDoor, access: Access | None = None, feed: Following | None = None
) -> FastAPI:
    """The API of this world, with its door for workers.

    Without an `access` that asks for keys it refuses callers of other hosts and pages.
    """
    access = access or Access()
    assert access.auth is Auth.NONE or access.keyring is not None, "keys cannot be checked without a keyring"
    app = FastAPI(title="schedkit", version=__version__, openapi_url="/openapi.json", docs_url=None, redoc_url=None)
    app.state.access = access
    app.state.streams = Streams(feed) if feed is not None else Streams()
    serve(app, world, vitals, door)
    app.state.routes = [_guarded(route) for router in ROUTERS for route in router.routes]
    for router in ROUTERS:
        app.include_router(router, dependencies=[Depends(known_query)])
    if access.auth is Auth.NONE:  # they answer anybody, and are for trying things out
        app.include_router(demo.demo_router())
    app.add_exception_handler(SchedkitError, on_schedkit_error)
    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(RequestValidationError, on_bad_parameter)
    app.add_exception_handler(Exception, on_bug)
    app.add_middleware(Door, chance=world.chance, loopback_only=access.auth is Auth.NONE)
    app.openapi = lambda: openapi(app)  # type: ignore[method-assign]
    app.add_api_route("/docs", docs, include_in_schema=False)
    return app


async def docs(request: Request) -> HTMLResponse:
    """The API's own page. Not a closure over the app: FastAPI caches each route's function for ever."""
    return HTMLResponse(docs_page(request.app.openapi(), str(request.base_url).rstrip("/")))


def serve(app: FastAPI, world: World, vitals: Vitals, door: WorkersDoor) -> None:
    """Let the app serve this world from now on; what it knew of another one is forgotten."""
    state = app.state
    state.world, state.vitals, state.workers, state.chains = world, vitals, door, Chains()


def _guarded(route: Any) -> Guarded:
    """Deny by default: a route that does not say who may call it is no route of this API."""
    assert isinstance(route, Guarded), f"{route.path}: make its router with route_class=Guarded"
    return route


async def on_bad_parameter(request: Request, error: Exception) -> JSONResponse:
    """A query or path parameter that is not what it must be."""
    assert isinstance(error, RequestValidationError), "registered for RequestValidationError"
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"][1:])
    refusal = InvalidInput(Reason.INVALID_ARGUMENT, f"{name}: {first['msg'][:1].lower()}{first['msg'][1:]}", field=name)
    return problem(refusal, request_id_of(request))


def openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's document, plus the bodies that our own strict reader takes, plus the shape of every refusal."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes, summary=app.summary)
        bodies = [(route, *body) for route in app.state.routes if (body := _body(route))]
        _, schemas = models_json_schema(
            [(model, "validation") for _, model, _ in bodies], ref_template="#/components/schemas/{model}"
        )
        parts = document.setdefault("components", {}).setdefault("schemas", {})
        parts |= schemas.get("$defs", {}) | {"Problem": PROBLEM}
        for name in ("HTTPValidationError", "ValidationError"):
            parts.pop(name, None)
        for route, model, required in bodies:
            for method in route.methods or ():
                reference = {"$ref": f"#/components/schemas/{model.__name__}"}
                document["paths"][route.path_format][method.lower()]["requestBody"] = {
                    "required": required,
                    "content": {"application/json": {"schema": reference}},
                }
        refusal = {
            "description": "Refused",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for path in document["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
                operation["responses"]["4XX"] = operation["responses"]["5XX"] = refusal
        parts_of_access = document["components"].setdefault("securitySchemes", {})
        parts_of_access["key"] = {"type": "http", "scheme": "bearer", "description": "an API key, sk_…"}
        for route in app.state.routes:
            for method in route.methods or ():
                _declare(document["paths"][route.path_format][method.lower()], route)
        app.openapi_schema = document
    return app.openapi_schema


def _declare(operation: dict[str, Any], route: Guarded) -> None:
    """Say in an operation who may call it, and what the audit log calls it where it is kept."""
    operation["security"] = [{"key": []}] if route.need.role is not None else []
    operation["x-role"] = route.need.role.value if route.need.role is not None else None
    if route.kept is not Kept.NEVER:
        operation["x-audit"] = route.action


PROBLEM: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457, with a stable `reason`, why it is so, and how to fix it",
    "required": ["type", "title", "status", "detail", "reason", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "reason": {"type": "string", "enum": [reason.value for reason in Reason]},
        "why": {"type": "string"},
        "fix": {"type": "array", "items": {"type": "string"}},
        "field": {"type": "string"},
        "retry_after_seconds": {"type": "integer"},
        "request_id": {"type": "string"},
    },
}


def _body(route: APIRoute) -> tuple[type[Body], bool] | None:
    """The model of a route's body, and whether there must be one."""
    for dependency in route.dependant.dependencies:
        body: tuple[type[Body], bool] | None = getattr(dependency.call, "__schedkit_body__", None)
        if body is not None:
            return body
    return None
