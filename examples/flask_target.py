"""A target in Flask: it takes signed calls only, and makes each invoice once, however often it is called.

SCHEDKIT_SECRET_BILLING=… flask --app flask_target run --port 9000
"""

import os
import sqlite3
from contextlib import closing

from flask import Flask, abort, request

from schedkit.target import CREATE_TABLE, InvalidSignature, StaleEpoch, remember, verify

DATABASE = os.environ.get("DATABASE", "invoices.db")
SECRET = os.environ["SCHEDKIT_SECRET_BILLING"]

app = Flask(__name__)
with closing(sqlite3.connect(DATABASE)) as db, db:
    db.execute(CREATE_TABLE)
    db.execute("CREATE TABLE IF NOT EXISTS invoices (run TEXT, body BLOB)")


@app.post("/invoices")
def invoices() -> dict[str, str]:
    body = request.get_data()
    try:
        call = verify(request.headers, body, SECRET)
        with closing(sqlite3.connect(DATABASE)) as db, db:  # one transaction for the key and the work
            if remember(db, call.idempotency_key, call.epoch):
                db.execute("INSERT INTO invoices VALUES (?, ?)", (call.idempotency_key, body))  # the work
    except InvalidSignature:
        abort(401, "not signed by the scheduler")
    except StaleEpoch:
        abort(409, "a later call of this run was here before")
    return {"invoice": call.idempotency_key}  # a repeat gets the same answer
