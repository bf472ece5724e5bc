"""The client: retries, keys, errors."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from schedkit.client import Client, Unreachable
from schedkit.errors import Conflict, InvalidInput, NotFound, Reason, SchedkitError, StoreUnavailable
from tests.cli.conftest import FakeServer
from tests.cli.samples import JOB, RUN_ID, page, problem

Handler = Any


class Script:
    """A transport that answers from a list, and keeps what was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        status, doc, *headers = answer
        return httpx.Response(status, json=doc, headers=headers[0] if headers else None)

    def client(self, url: str = "http://sched.example", **rest: Any) -> Client:
        return Client(url, transport=httpx.MockTransport(self), sleep=self.waits.append, **rest)


RESET = httpx.ReadError("connection reset")
REFUSED = httpx.ConnectError("refused")
BUSY = (503, problem(503, "STORE_UNAVAILABLE", retry_after_seconds=1))


@pytest.mark.parametrize("trouble", [RESET, httpx.ReadTimeout("slow"), BUSY, REFUSED])
def test_reads_and_creates_are_tried_again_with_jitter(trouble: Any) -> None:
    script = Script(trouble, trouble, (201, JOB))
    created = script.client().create_job({"name": "digest"})
    assert created.job == JOB
    assert len(script.waits) == 2
    keys = {request.headers["idempotency-key"] for request in script.requests}
    assert keys == {created.idempotency_key}
    script = Script(trouble, (200, page(JOB)))
    assert script.client().list_jobs()["items"] == [JOB]


def test_what_may_not_be_repeated_is_not() -> None:
    script = Script(RESET, (200, JOB))
    with pytest.raises(Unreachable):
        script.client().trigger_job("digest")
    with pytest.raises(Unreachable):
        Script(RESET).client().update_job("digest", {"name": "x"}, version=3)
    assert len(script.requests) == 1
    refused = Script(REFUSED, (200, JOB))
    assert refused.client().trigger_job("digest") == JOB, "a refused connection carried nothing"


def test_a_refused_connection_to_this_machine_is_told_at_once() -> None:
    script = Script(REFUSED)
    with pytest.raises(Unreachable) as told:
        script.client("http://127.0.0.1:8700").list_jobs()
    assert told.value.refused
    assert (len(script.requests), script.waits) == (1, [])


def test_retry_after_is_a_floor_and_the_deadline_a_ceiling() -> None:
    later = (503, problem(503, "STORE_UNAVAILABLE"), {"retry-after": "3"})
    script = Script(later, (200, JOB))
    script.client().get_job("digest")
    assert script.waits[0] >= 3
    script = Script((503, problem(503, "STORE_UNAVAILABLE"), {"retry-after": "60"}))
    with pytest.raises(StoreUnavailable):
        script.client(timeout_s=10).get_job("digest")
    assert script.waits == []


@pytest.mark.parametrize(
    ("status", "kind"), [(400, InvalidInput), (404, NotFound), (409, Conflict), (412, Conflict), (418, InvalidInput)]
)
def test_a_problem_becomes_the_error_of_its_status(status: int, kind: type[SchedkitError]) -> None:
    doc = problem(status, "JOB_NOT_FOUND", why="a rule", fix=["do this"], field="name", nearest_free_second="x")
    with pytest.raises(kind) as told:
        Script((status, doc)).client().get_job("digest")
    error = told.value
    assert (error.reason, error.why, error.fix, error.field) == (Reason.JOB_NOT_FOUND, "a rule", ("do this",), "name")
    assert error.extra == {"request_id": "req_8f2a", "http_status": status, "nearest_free_second": "x"}


def test_a_proxy_page_and_a_list_where_a_document_belongs_are_no_schedkit() -> None:
    with pytest.raises(Unreachable, match="not as a schedkit server does"):
        Script((502, "bad gateway")).client(timeout_s=0.01).get_job("digest")
    with pytest.raises(Unreachable, match="no schedkit document"):
        Script((200, ["x"])).client().get_job("digest")


@pytest.mark.parametrize("url", ["ftp://x", "nonsense", "http://x:port"])
def test_a_wrong_url_is_invalid_input(url: str) -> None:
    with pytest.raises(InvalidInput), Client(url) as client:
        client.version()


def test_names_and_run_ids_are_quoted_into_the_path() -> None:
    script = Script((200, JOB))
    client = script.client()
    client.get_job("-a%2f?c ü:pause")
    assert script.requests[-1].url.raw_path == b"/v1/jobs/-a%252f%3Fc%20%C3%BC%3Apause"
    client.get_run(RUN_ID)
    assert script.requests[-1].url.raw_path == f"/v1/runs/{RUN_ID}".encode()


@pytest.mark.parametrize("name", ["", ".", "..", "hello/runs", "../runs", "a/b"])
def test_what_is_no_segment_of_a_path_names_no_job_and_no_run(name: str) -> None:
    script = Script((200, JOB))
    for ask in (script.client().get_job, script.client().job_next, script.client().get_run):
        with pytest.raises(NotFound):
            ask(name)
    assert script.requests == []


def test_pages_end_where_the_cursor_does_or_the_limit() -> None:
    first, second = page(JOB, JOB, cursor="c"), page(JOB)
    client = Script((200, first), (200, second)).client()
    assert len(list(client.pages(client.list_jobs, status=["PAUSED"]))) == 3
    client = Script((200, first)).client()
    assert len(list(client.pages(client.list_jobs, limit=4))) == 4


def test_a_token_is_asked_for_with_every_call() -> None:
    script = Script((200, JOB))
    tokens = iter(["a", "b"])
    client = script.client(token=lambda: next(tokens))
    client.get_job("x")
    client.get_job("x")
    assert [request.headers["authorization"] for request in script.requests] == ["Bearer a", "Bearer b"]


def test_over_a_real_socket(server: FakeServer) -> None:
    with Client(server.url) as client:
        assert client.ready()
        assert client.snapshot()["profile"] == "embedded"
        assert client.preview({"type": "CRON", "cron": "0 8 * * *"}, count=1)["occurrences"]
        assert server.last.body == {"schedule": {"type": "CRON", "cron": "0 8 * * *"}, "count": 1}
        assert client.resume_job("digest", misfire="SKIP")["job_id"] == JOB["job_id"]
        assert client.cancel_run(RUN_ID)["run_id"] == RUN_ID
    assert json.dumps(server.last.body) == "null"
    assert not Client("http://127.0.0.1:1", timeout_s=0.5).ready()
