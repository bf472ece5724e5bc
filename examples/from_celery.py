"""A worker for what Celery beat used to start: schedkit worker run from_celery:w"""

from typing import Any

from schedkit.worker import Retry, Task, Worker

w = Worker("celery")  # the queue of the imported jobs


@w.task("shop.mail.digest")  # the name that the task had in Celery
def digest(task: Task, args: list[Any], kwargs: dict[str, Any]) -> dict[str, int]:
    sent = send(kwargs["kind"], key=task.idempotency_key)  # your own code, as it was; the key is new
    if sent is None:
        raise Retry("the mail server is busy", after="30s")
    return {"sent": sent}


def send(kind: str, key: str) -> int | None:
    """How many mails went out, each key's only once; None where none could."""
    return len(kind)
