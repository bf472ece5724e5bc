"""`schedkit api`: any call of the HTTP API, with the context's address, token and retries."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from schedkit.cli import output, values
from schedkit.cli.invocation import Invocation
from schedkit.errors import InvalidInput, Reason

METHODS: Final = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE")
MOST_PAGES: Final = 1_000


def api(
    me: Invocation,
    method: Annotated[str, typer.Argument(metavar="METHOD", help=f"{', '.join(METHODS)}.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="/v1/jobs?limit=5; the /v1 may be left out.")],
    field: Annotated[
        list[str] | None, typer.Option("--field", "-F", metavar="K=V", help="Of the body (of the query for GET).")
    ] = None,
    source: Annotated[str | None, typer.Option("--input", metavar="FILE", help="The body; - is stdin.")] = None,
    header: Annotated[list[str] | None, typer.Option("--header", metavar="H", help="k=v, nothing secret.")] = None,
    paginate: Annotated[bool, typer.Option("--paginate", help="Follow next_cursor to the end.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="The answer as it came, on one line.")] = False,
) -> None:
    """Call the HTTP API directly.

    Examples:
      schedkit api GET /v1/jobs --paginate
      schedkit api POST /v1/schedules:preview --input preview.json
    """
    verb = values.choice(method, METHODS, "METHOD")
    place, query = _split(path)
    body: Any = _body(source)
    given = {key: _json_or_text(value) for key, value in values.pairs(field, "--field").items()}
    if verb in ("GET", "HEAD", "DELETE"):
        query += [(key, output.raw(value)) for key, value in given.items()]
    elif given:
        body = {**(body or {}), **given}
    headers = values.header_pairs(header)
    with me.asking():
        answer = me.client.call(verb, place, params=query, body=body, headers=headers)
        data = answer.data
        if paginate and isinstance(data, dict) and "items" in data:
            data = _rest(me, verb, place, query, headers, data)
    _print(me, data, raw=raw)


def _split(path: str) -> tuple[str, list[tuple[str, str]]]:
    from urllib.parse import parse_qsl, urlsplit

    parts = urlsplit(path if path.startswith("/") else f"/{path}")
    if "://" in path:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "give a path such as /v1/jobs; the context has the address")
    known = ("/v1/", "/healthz", "/readyz", "/metrics", "/openapi.json")
    place = parts.path if parts.path.startswith(known) else f"/v1{parts.path}"
    return place, parse_qsl(parts.query, keep_blank_values=True)


def _body(source: str | None) -> Any:
    if source is None:
        return None
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as problem:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"cannot read {source}: {problem.strerror}") from problem
    except ValueError as problem:
        raise InvalidInput(Reason.INVALID_JSON, f"{source} is no JSON: {problem}") from problem


def _json_or_text(text: str) -> Any:
    """`5`, `true` and `{…}` are what they look like; everything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _rest(
    me: Invocation,
    verb: str,
    place: str,
    query: list[tuple[str, str]],
    headers: dict[str, str],
    first: dict[str, Any],
) -> dict[str, Any]:
    items, cursor = list(first["items"]), first.get("next_cursor")
    for _ in range(MOST_PAGES):
        if cursor is None:
            break
        asked = [(key, value) for key, value in query if key != "cursor"] + [("cursor", cursor)]
        page = me.client.call(verb, place, params=asked, headers=headers).data
        items, cursor = items + page["items"], page.get("next_cursor")
    return {**first, "items": items, "next_cursor": cursor}


def _print(me: Invocation, data: Any, *, raw: bool) -> None:
    """The document as the server said it: no schema is put around it."""
    if isinstance(data, str) and me.style.format not in ("json", "jsonl"):
        output.write(data.rstrip("\n"))
    elif me.style.format == "yaml":
        import yaml

        output.write(yaml.safe_dump(data, sort_keys=False, allow_unicode=me.style.screen.unicode).rstrip("\n"))
    elif me.style.format == "jsonl" and isinstance(data, dict) and isinstance(data.get("items"), list):
        output.write("\n".join(me.style.json(item) for item in data["items"]))
    else:
        output.write(me.style.json(data, indent=None if raw or me.style.format == "jsonl" else 2))
