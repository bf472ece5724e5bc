"""Every answer that a test hears of the API is held against the OpenAPI document: status, type, body and headers.

So the document is true of all that the tests try, and an answer that it does not describe fails the test that saw it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import httpx
import jsonschema_rs
from fastapi import FastAPI
from starlette.routing import Match

from schedkit.api.access import Auth, Guarded
from schedkit.api.openapi import openapi

NO_CALLS: Final = {404: "ROUTE_NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}  # what is no operation is not described


def documented_client(app: FastAPI) -> httpx.AsyncClient:
    """A client of this app, in process, that holds what it hears against the document."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    hooks: dict[str, list[Callable[..., Any]]] = {"response": [Documented(app)]}
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8700", event_hooks=hooks)


def app_of(client: httpx.AsyncClient) -> FastAPI:
    """The app behind it."""
    app: FastAPI = client._transport.app  # type: ignore[attr-defined]
    return app


class Documented:
    """Hears the answers of an app: a response hook of httpx."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._auth: Auth = app.state.access.auth

    async def __call__(self, answer: httpx.Response) -> None:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return  # it may go on for ever
        await answer.aread()
        route = self._route(answer.request)
        if route is None or answer.status_code == 500 or _is_no_call(answer):
            return
        where = f"{answer.request.method} {route.path_format} {answer.status_code}"
        document = document_of(self._app)
        described = document["paths"][route.path_format][answer.request.method.lower()]
        assert str(answer.status_code) in described["responses"], f"{where} is not in the OpenAPI document"
        response = described["responses"][str(answer.status_code)]
        for header in ("Location", "Idempotent-Replayed", "Retry-After", "X-Request-Id"):
            assert header not in answer.headers or header in response["headers"], f"{where}: {header}"
        media = answer.headers.get("content-type", "").partition(";")[0]
        assert set(response.get("content", {})) == ({media} if media else set()), f"{where}: {media}"
        if media.endswith("json"):
            validator = _validator(self._auth, answer.request.method, route.path_format, answer.status_code, media)
            for error in validator.iter_errors(answer.json()):
                raise AssertionError(f"{where}: {error}")

    def _route(self, request: httpx.Request) -> Guarded | None:
        scope = {"type": "http", "method": request.method, "path": request.url.path, "path_params": {}}
        routes: list[Guarded] = self._app.state.routes
        return next((route for route in routes if route.matches(scope)[0] is Match.FULL), None)


def _is_no_call(answer: httpx.Response) -> bool:
    reason = NO_CALLS.get(answer.status_code)
    return reason is not None and answer.json()["reason"] == reason


_known: dict[Auth, dict[str, Any]] = {}  # the document of each kind of app: it is the same in every test


def document_of(app: FastAPI) -> Any:
    """What the app says of itself, made once."""
    auth = app.state.access.auth
    if auth not in _known:
        _known[auth] = openapi(app, app.state.routes, auth)
    return _known[auth]


@cache
def _validator(auth: Auth, method: str, path: str, status: int, media: str) -> Any:
    document = _known[auth]
    response = document["paths"][path][method.lower()]["responses"][str(status)]
    schema = response["content"][media]["schema"]
    return jsonschema_rs.validator_for({"components": document["components"], **schema}, validate_formats=True)
