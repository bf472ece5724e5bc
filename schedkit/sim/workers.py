"""The workers of a simulation: the SDK's own courier on machines that are killed, stopped and cut off like all others.

A task names a target in its payload; its function calls it and reports what came of it. So the targets' history shows
who began which run, under which epoch, and what a worker reports can be held against what the target said.
"""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any, Final

import httpx

from schedkit.client import AsyncClient
from schedkit.model.calls import Answered, Call, NoAnswer, Reply
from schedkit.model.time import SECOND_MS
from schedkit.sim.ground import Ground
from schedkit.sim.targets import TargetLine
from schedkit.worker.courier import Courier
from schedkit.worker.held import Done, Failure, Held, Outcome, Stop, Stopped

URL: Final = "http://127.0.0.1:8700"
QUEUE: Final = "tasks"
SLOTS: Final = 12
TIMEOUT_MS: Final = 25 * SECOND_MS  # of a function's own call
STOPS_SHARE: Final = 0.5  # functions that stop when they are told to; the others end as they would have


async def work(ground: Ground, transport: httpx.AsyncBaseTransport, worker_id: str, line: TargetLine) -> None:
    """One worker process, for ever."""
    chance = ground.chance(f"worker/{worker_id}")
    client = AsyncClient(URL, transport=transport, timeout_s=40, monotonic=ground.loop.time, draw=chance.random)
    await Courier(
        client=client,
        queue=QUEUE,
        worker_id=worker_id,
        slots=SLOTS,
        perform=partial(_perform, line, chance),
        monotonic=ground.loop.time,
        sleep=asyncio.sleep,
        draw=chance.random,
    ).serve()


async def _perform(line: TargetLine, chance: Random, held: Held) -> Outcome:
    calling = asyncio.ensure_future(line.call(_call_of(held.doc)))
    told = asyncio.ensure_future(held.stopped.wait())
    heeds = chance.random() < STOPS_SHARE
    await asyncio.wait((calling, told) if heeds else (calling,), return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if not calling.done():
        calling.cancel()
        return Stopped()
    return _outcome(calling.result(), held)


def _outcome(reply: Reply, held: Held) -> Outcome:
    match reply:
        case Answered(status) if 200 <= status < 300:
            return Done({"status": status})
        case Answered(status) if status < 500:
            return Failure(f"the target answered {status}", retryable=False)
        case Answered(status, _, retry_after):
            return Failure(f"the target answered {status}", retry_after_s=float(retry_after or 0))
        case NoAnswer(error) if held.stop is Stop.CANCELLED:
            return Failure(f"{error}; it was to stop")
        case _:
            return Failure(reply.error)


def _call_of(doc: Any) -> Call:
    headers = {
        "Idempotency-Key": str(doc["idempotency_key"]),
        "X-Fencing-Token": str(doc["epoch"]),
        "X-Attempt": str(doc["attempt"]),
    }
    payload = doc["payload"] if isinstance(doc["payload"], dict) else {}  # users edit it, and trigger with their own
    return Call(f"http://{payload.get('host', 'ok')}.example/task", "POST", headers, None, TIMEOUT_MS)
