"""A target in FastAPI: it takes signed calls only, and makes each invoice once, however often it is called.

SCHEDKIT_SECRET_BILLING=… uvicorn fastapi_target:app --port 9000
"""

import os
import sqlite3
from contextlib import closing

from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool

from schedkit.target import CREATE_TABLE, Delivery, InvalidSignature, StaleEpoch, remember, verify

DATABASE = os.environ.get("DATABASE", "invoices.db")
SECRET = os.environ["SCHEDKIT_SECRET_BILLING"]

app = FastAPI()
with closing(sqlite3.connect(DATABASE)) as db, db:
    db.execute(CREATE_TABLE)
    db.execute("CREATE TABLE IF NOT EXISTS invoices (run TEXT, body BLOB)")


def make_invoice(call: Delivery, body: bytes) -> None:
    with closing(sqlite3.connect(DATABASE)) as db, db:  # one transaction for the key and the work
        if remember(db, call.idempotency_key, call.epoch):
            db.execute("INSERT INTO invoices VALUES (?, ?)", (call.idempotency_key, body))  # the work


@app.post("/invoices")
async def invoices(request: Request) -> dict[str, str]:
    body = await request.body()
    try:
        call = verify(request.headers, body, SECRET)
        await run_in_threadpool(make_invoice, call, body)
    except InvalidSignature:
        raise HTTPException(401, "not signed by the scheduler") from None
    except StaleEpoch:
        raise HTTPException(409, "a later call of this run was here before") from None
    return {"invoice": call.idempotency_key}  # a repeat gets the same answer
