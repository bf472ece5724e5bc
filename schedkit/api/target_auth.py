"""How the calls of a target are signed, at the door: references only. No value of a secret ever passes here."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from schedkit.api.bodies import AuthBody
from schedkit.api.jobs_out import AuthOut
from schedkit.errors import InvalidInput, NotAllowed, Reason
from schedkit.model.access import Caller
from schedkit.model.jobs import HmacAuth, HttpTarget, Job
from schedkit.ports import Secrets

FIELD: Final = "target.auth"
EXAMPLE: Final = '{"type": "HMAC_SHA256", "secret_ref": "env:SCHEDKIT_SECRET_BILLING"}'


def auth_in(body: AuthBody | None, secrets: Secrets) -> HmacAuth | None:
    """Raises InvalidInput where references and type do not fit, or where this deployment lets no job name them."""
    if body is None or body.type == "NONE":
        given = body.model_fields_set - {"type"} if body is not None else ()
        if given:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "auth NONE has no secrets", field=f"{FIELD}.{min(given)}", fix=(EXAMPLE,)
            )
        return None
    if body.secret_ref is None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "auth HMAC_SHA256 needs the reference of its secret",
            field=f"{FIELD}.secret_ref",
            fix=(EXAMPLE,),
        )
    _allowed(body.secret_ref, "secret_ref", secrets)
    if body.previous_secret_ref is not None:
        _allowed(body.previous_secret_ref, "previous_secret_ref", secrets)
    return HmacAuth(body.secret_ref, body.previous_secret_ref)


def auth_out(auth: HmacAuth) -> AuthOut:
    """As the API shows it, and takes it back."""
    shown: AuthOut = {"type": "HMAC_SHA256", "secret_ref": auth.secret_ref}
    if auth.previous_secret_ref is not None:
        shown["previous_secret_ref"] = auth.previous_secret_ref
    return shown


def _allowed(ref: str, name: str, secrets: Secrets) -> None:
    why = secrets.refusal(ref)
    if why is not None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"{name} cannot be used: {why}",  # it is not quoted: somebody may have given the secret itself
            field=f"{FIELD}.{name}",
            why="a job must not be able to read any file or variable of the scheduler",
        )


def own_secrets(job: Job, caller: Caller) -> None:
    """Where keys are asked for, a job names secrets of its own team: `file:<folder>/<tenant>/<team>/<name>`.

    Who could name another's secret would have it sign whatever they like. Raises NotAllowed.
    """
    auth = job.target.auth if isinstance(job.target, HttpTarget) else None
    if auth is None or caller.key_id is None:
        return
    for ref in auth.refs:
        if not ref.startswith("file:") or PurePosixPath(ref).parts[-3:-1] != (job.tenant_id, job.team_id):
            raise NotAllowed(
                Reason.FORBIDDEN,
                f"a job of team {job.team_id} names secrets in the folder {job.tenant_id}/{job.team_id} only",
                field=f"{FIELD}.secret_ref",
                why="whoever could name another team's secret could have it sign anything",
                fix=(f"file:<secrets folder>/{job.tenant_id}/{job.team_id}/<name>",),
            )
