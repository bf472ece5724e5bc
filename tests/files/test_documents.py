"""From a document to an entry, to text, and back: nothing is lost and nothing is added."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from schedkit.files import documents as forms
from schedkit.files import jobfile, writing
from schedkit.files.writing import Written
from tests.files.making import documents, json_values


def back(text: str) -> dict[str, Any]:
    found = jobfile.read(text, "jobs.yaml")
    assert not found.problems, [str(problem) for problem in found.problems]
    return {job.name: job.document for job in found.jobs}


@settings(max_examples=150, deadline=None)
@given(documents())
def test_a_document_written_as_an_entry_and_read_again_is_the_same_document(document: dict[str, Any]) -> None:
    text = writing.text_of([Written(document["name"], forms.entry_of(document), ["a note", "12:30 yes"])])
    assert back(text) == {document["name"]: document}, text


@settings(max_examples=150, deadline=None)
@given(documents())
def test_an_entry_is_the_shortest_one(document: dict[str, Any]) -> None:
    entry = forms.entry_of(document)
    again = forms.entry_of(back(writing.text_of([Written(document["name"], entry)]))[document["name"]])
    assert again == entry


@settings(max_examples=150, deadline=None)
@given(json_values)
def test_every_payload_survives_yaml(payload: Any) -> None:
    entry = {"every": "5m", "queue": "q", "payload": payload}
    assert back(writing.text_of([Written("a", entry)]))["a"]["payload"] == payload


def test_what_a_server_shows_of_a_job_is_what_it_was_asked_to_be() -> None:
    schedule = {"type": "INTERVAL", "every_seconds": 60, "anchor_at": "2026-01-01T00:00:00Z"}
    target = {
        "type": "HTTP",
        "target_id": "demo-echo",
        "path": "/x",
        "url": "http://127.0.0.1/now/x",
        "method": "POST",
        "timeout_seconds": 30,
        "headers": {},
    }
    shown = {"job_id": "job_1", "name": "a", "status": "PAUSED", "schedule": schedule, "target": target, "version": 3}
    spec = forms.spec_of(shown)
    assert set(spec) == set(forms.FIELDS)
    assert spec["paused"] is True
    assert "url" not in spec["target"]
    assert forms.entry_of(spec) == {
        "every": "1m",
        "anchor": "2026-01-01T00:00:00Z",
        "target": "demo-echo",
        "path": "/x",
        "paused": True,
    }
