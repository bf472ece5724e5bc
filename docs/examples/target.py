"""A target that does the work of each run once, however often it is called."""

import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

db = sqlite3.connect("target.db", isolation_level=None)
db.execute("create table if not exists mails (text)")
db.execute("create table if not exists seen (key text primary key, token integer)")


class Target(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        key, token = self.headers["Idempotency-Key"], int(self.headers["X-Fencing-Token"])
        payload = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        db.execute("begin immediate")  # the work and its key are kept together, or neither is
        known = db.execute("select token from seen where key = ?", (key,)).fetchone()
        if known is None:
            db.execute("insert into mails values (?)", (payload.decode(),))  # the work
        stale = known is not None and token < known[0]  # a caller that lost its lease and does not know it yet
        if not stale:
            db.execute("insert or replace into seen values (?, ?)", (key, token))
        db.execute("commit")
        self.send_response(409 if stale else 200)
        self.end_headers()


HTTPServer(("127.0.0.1", int(sys.argv[1])), Target).serve_forever()
