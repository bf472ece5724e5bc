"""The door: one ASGI app over a world. Errors leave it as problem+json."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse

from schedkit import __version__
from schedkit.api import audit, backfills, demo, dlq, jobs, keys, ledgers, ops, runs, schedules, skips, stream, workers
from schedkit.api.access import Access, Auth, Guarded
from schedkit.api.docs_page import docs_page
from schedkit.api.door import Door
from schedkit.api.openapi import openapi
from schedkit.api.ops import Vitals
from schedkit.api.problems import on_bug, on_http_exception, on_schedkit_error, problem, request_id_of
from schedkit.api.stream import Following, Streams
from schedkit.api.trail import Chains
from schedkit.api.workers import WorkersDoor
from schedkit.errors import InvalidInput, Reason, SchedkitError
from schedkit.ports import World

ROUTERS: Final = (  # a request is compared with one after the other: what is asked all the time stands first
    workers.router,
    jobs.batch_router,
    jobs.router,
    skips.router,
    ledgers.router,
    backfills.router,
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
    app.router.routes.extend(app.state.routes)  # as they are: `include_router` would make each of them anew
    if access.auth is Auth.NONE:  # they answer anybody, and are for trying things out
        app.include_router(demo.demo_router())
    app.add_exception_handler(SchedkitError, on_schedkit_error)
    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(RequestValidationError, on_bad_parameter)
    app.add_exception_handler(Exception, on_bug)
    app.add_middleware(Door, chance=world.chance, loopback_only=access.auth is Auth.NONE)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
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


def document(app: FastAPI) -> dict[str, Any]:
    """The app's OpenAPI document, made once."""
    if app.openapi_schema is None:
        app.openapi_schema = openapi(app, app.state.routes, app.state.access.auth)
    return app.openapi_schema
