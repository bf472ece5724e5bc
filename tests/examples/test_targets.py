"""The examples, called by a real scheduler: signed, twice for a lost answer, and the work is done once."""

from __future__ import annotations

import asyncio
import importlib
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from schedkit.embedded import Embedded, Settings, running
from schedkit.engine.signing import signed_headers
from schedkit.model.runs import Run
from schedkit.model.time import rfc3339
from tests.architecture.tree import ROOT
from tests.examples.serving import Front, serving_asgi, serving_wsgi

SECRET = "whsec_dGhlIHNlY3JldCBvZiB0aGUgZXhhbXBsZXM="  # noqa: S105 - nobody else has it
REF = "env:SCHEDKIT_SECRET_BILLING"
LOST = 1  # answers
MAX_LINES = 50


@dataclass(frozen=True, slots=True)
class Example:
    """A running example: where it is called, where it keeps its work, what was heard of it."""

    url: str
    database: Path
    front: Front

    def invoices(self) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database)) as db:
            return db.execute("select run, cast(body as text) from invoices").fetchall()


@pytest.fixture(scope="module", params=["fastapi", "flask", "django"])
def module(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An example as Python imports it: once in a process, as Django wants it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "examples")
        patch.setenv("DATABASE", str(tmp_path_factory.mktemp("example") / "invoices.db"))
        patch.setenv("SCHEDKIT_SECRET_BILLING", SECRET)
        yield importlib.import_module(f"{request.param}_target")


@pytest.fixture
async def example(module: Any) -> AsyncIterator[Example]:
    front = Front()
    settings = module.DATABASE
    database = Path(settings["NAME"] if isinstance(settings, dict) else settings)
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("delete from invoices")
    served = (
        serving_asgi(front.before_asgi(module.app))
        if module.__name__ == "fastapi_target"
        else serving_wsgi(front.before_wsgi(getattr(module, "application", None) or module.app))
    )
    async with served as url:
        yield Example(f"{url}/invoices", database, front)


@asynccontextmanager
async def scheduler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Embedded, httpx.AsyncClient]]:
    monkeypatch.setenv("SCHEDKIT_SECRET_BILLING", SECRET)
    async with AsyncExitStack() as stack:
        embedded = await stack.enter_async_context(running(Settings(data=folder, demo=False)))
        transport = httpx.ASGITransport(app=embedded.app)
        client = httpx.AsyncClient(transport=transport, base_url=embedded.settings.url)
        yield embedded, await stack.enter_async_context(client)


async def ended(embedded: Embedded, client: httpx.AsyncClient, url: str) -> Run:
    """A job that is due now, once its run has ended."""
    end: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
    embedded.listeners.append(lambda run: end.set_result(run) if run.status.final else None)
    body = {
        "schedule": {"type": "ONCE", "run_at": rfc3339(embedded.world.clock.now())},
        "target": {"url": url, "auth": {"type": "HMAC_SHA256", "secret_ref": REF}},
        "payload": {"amount_cents": 4200},
        "retry_policy": {"initial_backoff_seconds": 0},
    }
    made = await client.post("/v1/jobs", json=body)
    assert made.status_code == 201, made.text
    return await end


async def test_a_call_whose_answer_is_lost_comes_again_and_its_work_is_done_once(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example.front.lost = LOST
    async with scheduler(tmp_path, monkeypatch) as (embedded, client):
        run = await ended(embedded, client, example.url)
    assert [attempt.http_status for attempt in run.attempts] == [503, 200]
    heard = [{name.lower(): value for name, value in call.items()} for call in example.front.headers]
    assert [call["x-fencing-token"] for call in heard] == ["1", "2"]
    assert heard[0]["webhook-id"] == heard[1]["webhook-id"]
    assert example.invoices() == [(heard[0]["webhook-id"], '{"amount_cents":4200}')]
    assert run.result is not None
    assert heard[0]["webhook-id"] in run.result


async def test_a_repeat_is_answered_alike_a_stale_caller_with_409_and_a_stranger_with_401(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduler(tmp_path, monkeypatch) as (embedded, client):
        await ended(embedded, client, example.url)
        (first,) = example.front.headers
        headers = {name: value for name, value in first.items() if name.lower() not in ("host", "content-length")}
        now, key = embedded.world.clock.now(), "job_1:2026-09-28T12:00:00Z"
    body = '{"amount_cents":4200}'
    async with httpx.AsyncClient(headers=headers) as copy:
        again = await copy.post(example.url, content=body)
        changed = await copy.post(example.url, content=body.replace("4200", "9900"))
        bare = await copy.post(example.url, headers={"webhook-signature": ""}, content=body)
    assert (again.status_code, changed.status_code, bare.status_code) == (200, 401, 401)
    assert len(example.invoices()) == 1
    signed = signed_headers([b"the secret of the examples"], key, body.encode(), now)
    async with httpx.AsyncClient(headers=signed) as caller:
        answers = [await caller.post(example.url, headers={"X-Fencing-Token": token}, content=body) for token in "2231"]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 409]
    assert len({answer.text for answer in answers[:3]}) == 1
    assert len(example.invoices()) == 2


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_fits_on_a_page(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MAX_LINES
