"""How a route reads its request: the JSON body, paging, filters. One way for every route."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import Depends, Header, Query, Request, Response
from fastapi.dependencies.models import Dependant

from schedkit.api import strict_json
from schedkit.api.bodies import Model, Time, read
from schedkit.errors import InvalidInput, Reason
from schedkit.ports import World

LOCATION: Final = {"Location": {"description": "where it is", "schema": {"type": "string"}}}
IDEMPOTENT: Final = {"Idempotent-Replayed": {"description": "`true`", "schema": {"type": "string", "const": "true"}}}


def made(response: Response, where: str, replayed: bool) -> None:
    """Say where the thing is that was made, now or by an earlier request with the same Idempotency-Key."""
    response.headers["Location"] = where
    if replayed:
        response.headers["Idempotent-Replayed"] = "true"


DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
MAX_KEY_CHARS: Final = 255


async def world_of(request: Request) -> World:
    """The world of this request: where it is recorded, its store keeps the record."""
    world = request.scope.get("schedkit.world", request.app.state.world)
    assert isinstance(world, World), "the app is made with a world"
    return world


def body_of(model: type[Model], *, optional: bool = False) -> Callable[[Request], Any]:
    """A dependency that reads the body strictly as `model`; `optional` takes no body for an empty object."""

    async def reader(request: Request) -> Model:
        raw = await request.body()
        if not raw.strip():
            if optional:
                return read(model, {})
            raise InvalidInput(Reason.INVALID_JSON, "the request has no body; this call needs a JSON object")
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media != "application/json" and not media.endswith("+json"):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"the body is {media or 'of no type'}, not application/json",
                field="Content-Type",
                why="a web page can send other types to this machine without asking first",
                fix=("send the header Content-Type: application/json",),
            )
        return read(model, strict_json.loads(raw))

    reader.__schedkit_body__ = model, not optional  # type: ignore[attr-defined]
    return reader


def _query_names(dependant: Dependant) -> set[str]:
    own = {field.alias for field in dependant.query_params}
    return own.union(*(_query_names(part) for part in dependant.dependencies))


async def known_query(request: Request) -> None:
    """Raises InvalidInput for a query parameter that the route does not have: one that matters, misspelled."""
    known = _query_names(request.scope["route"].dependant)
    for name in request.query_params:
        if name not in known:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"there is no query parameter {name[:60]!r} here; known: {', '.join(sorted(known)) or 'none'}",
                field=name[:60],
            )


WorldDep = Annotated[World, Depends(world_of)]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=MAX_KEY_CHARS,
        pattern=r"^[!-~]([ -~]*[!-~])?$",  # what every client, proxy and server passes on as it is
        description="one key, one request: a repeat within 24 hours is answered as the first time",
    ),
]
When = Annotated[Time | None, Query()]
Cursor = Annotated[str | None, Query(max_length=1_024)]


def bad_cursor(error: ValueError) -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, str(error), field="cursor", fix=("start again without a cursor",))
