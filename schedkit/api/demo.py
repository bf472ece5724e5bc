"""Targets to try things out with, served by the dev server itself: one that answers, one that fails first, one slow."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Final

from fastapi import APIRouter, Request, Response

REMEMBERED: Final = 10_000  # keys that flaky has seen; the oldest are forgotten
SLOW_S: Final = 2.0
PATHS: Final = {"demo-echo": "/_demo/echo", "demo-flaky": "/_demo/flaky", "demo-slow": "/_demo/slow"}


def demo_router() -> APIRouter:
    """The routes, with a memory of their own."""
    router = APIRouter(include_in_schema=False)
    seen: OrderedDict[str, None] = OrderedDict()

    @router.api_route("/_demo/echo", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    async def echo(request: Request) -> dict[str, Any]:
        """Answer with what was received."""
        return {
            "idempotency_key": request.headers.get("idempotency-key"),
            "fencing_token": request.headers.get("x-fencing-token"),
            "attempt": request.headers.get("x-attempt"),
            "body": (await request.body()).decode(errors="replace"),
        }

    @router.post("/_demo/flaky")
    async def flaky(request: Request, response: Response) -> dict[str, str]:
        """503 the first time a key is seen, 200 from then on."""
        key = request.headers.get("idempotency-key", "")
        if key in seen:
            return {"status": "done"}
        seen[key] = None
        if len(seen) > REMEMBERED:
            seen.popitem(last=False)
        response.status_code = 503
        return {"status": "not yet"}

    @router.post("/_demo/slow")
    async def slow() -> dict[str, str]:
        await asyncio.sleep(SLOW_S)
        return {"status": "done, at last"}

    return router
