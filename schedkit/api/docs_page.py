"""GET /docs: what can be called, as one page that loads nothing from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any, Final

STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}"
    "code,pre{font:13px/1.45 ui-monospace,monospace}h2{margin:2rem 0 .4rem}td{padding:.2rem 1rem .2rem 0}"
    "pre{background:#f3f4f6;padding:.7rem;overflow-x:auto;border-radius:.3rem}"
    "@media(prefers-color-scheme:dark){body{background:#111418;color:#d7dce2}pre{background:#1c2128}a{color:#79b8ff}}"
)
TRY: Final = """curl -X POST {url}/v1/jobs \\
  -H 'Content-Type: application/json' -H 'Idempotency-Key: tea-1' \\
  -d '{{"name": "tea", "schedule": {{"type": "INTERVAL", "every_seconds": 30}},
       "target": {{"url": "{url}/_demo/echo"}}}}'"""


def docs_page(document: dict[str, Any], url: str) -> str:
    """The operations of an OpenAPI document as a page of HTML."""
    rows: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[0]
            call = f"<td><code>{method.upper()}</code></td><td><code>{escape(path)}</code></td>"
            rows.setdefault(tag, []).append(f"<tr>{call}<td>{escape(operation.get('summary', ''))}</td></tr>")
    tables = "".join(f"<h2>{escape(tag)}</h2><table>{''.join(lines)}</table>" for tag, lines in rows.items())
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>schedkit API</title><style>{STYLE}</style><h1>schedkit API</h1>"
        f"<p>Everything in full: <a href=/openapi.json>/openapi.json</a>. Errors are problem+json: "
        "<code>reason</code>, <code>why</code>, <code>fix</code>.</p>"
        f"<pre>{escape(TRY.format(url=url))}</pre>{tables}</html>"
    )
