"""Who may call what. Each route says the role that it needs; a route that says nothing cannot be made.

    router = APIRouter(prefix="/v1/jobs", route_class=Guarded)

    @router.post("/{ref}:pause")
    @needs(Role.OPERATOR)
    async def pause_job(world: WorldDep, caller: CallerDep, ref: str) -> …

A request goes: key (401) ─► role (403) ─► query, body ─► the route, whose store keeps the audit record ─► answer.
Tenant and team come from the key and from nowhere else. Without keys (`Auth.NONE`) everybody who can reach the API is
the admin of the one tenant there is, so it listens on this machine only.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_type_hints
from urllib.parse import unquote

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute

from schedkit.api.attempts import Attempts
from schedkit.api.problems import request_id_of
from schedkit.api.requests import known_query
from schedkit.api.trail import Chains, Trail
from schedkit.engine import keyring
from schedkit.errors import NotAllowed, QuotaExceeded, Reason, StoreUnavailable, Unauthenticated
from schedkit.model.access import Caller, Role, id_in, key_hash, key_of, same_hash
from schedkit.model.audit import MAX_GIVEN_CHARS, Entry, Recorded
from schedkit.model.keys import api_key_key
from schedkit.ports import World

NO_HASH: Final = "0" * 64  # an id that nobody has is compared too, so that it takes as long

F = TypeVar("F", bound=Callable[..., Any])
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Auth(StrEnum):
    """How callers say who they are."""

    NONE = "none"
    API_KEY = "api-key"


class Kept(StrEnum):
    """When the audit record of a call is written."""

    NEVER = "never"  # it changes nothing, or nothing that an auditor asks for
    WITH_CHANGE = "with change"
    AFTERWARDS = "afterwards"  # many decisions: one record once they are made


@dataclass(frozen=True, slots=True)
class Keyring:
    """What keys are made of: the server's secret, chance that nobody can foresee, and the word after `sk_`."""

    pepper: Callable[[], bytes] = field(repr=False)
    secret: Callable[[int], bytes]
    env: str = "dev"


@dataclass(frozen=True, slots=True)
class Access:
    """How an API lets callers in. Without a keyring no key can be made."""

    auth: Auth = Auth.NONE
    keyring: Keyring | None = None
    attempts: Attempts = field(default_factory=Attempts)


@dataclass(frozen=True, slots=True)
class Need:
    """What a route declares: the role, None where anybody may ask; and its audit record, None for the usual."""

    role: Role | None
    kept: Kept | None = None


def needs(role: Role | None, kept: Kept | None = None) -> Callable[[F], F]:
    """Declare who may call a route: this role or a higher one, or anybody without a key where it is None."""

    def declare(endpoint: F) -> F:
        endpoint.__schedkit_need__ = Need(role, kept)  # type: ignore[attr-defined]
        return endpoint

    return declare


class Guarded(APIRoute):
    """A route that lets in whom it declares, knows its query, and keeps the audit record of what they do.

    `shapes` is what its answers look like, by status: what the function is annotated to return, and each `model` of its
    `responses`. They are for the document; no answer is checked against them.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.shapes: dict[int | str, Any] = {}
        if (shape := _shape(endpoint)) is not None:
            self.shapes[options.get("status_code") or 200] = shape
            options["response_model"] = Any
        responses = {status: dict(said) for status, said in (options.get("responses") or {}).items()}
        self.shapes |= {status: said.pop("model") for status, said in responses.items() if "model" in said}
        first = [Depends(known_query), *(options.get("dependencies") or ())]
        super().__init__(path, endpoint, **options | {"responses": responses, "dependencies": first})

    @property
    def need(self) -> Need:
        """What it declares. Raises TypeError where it declares nothing."""
        need = getattr(self.endpoint, "__schedkit_need__", None)
        if not isinstance(need, Need):
            raise TypeError(f"{self.path} does not say who may call it: put @needs(Role.…) under its route")
        return need

    @property
    def kept(self) -> Kept:
        """When its record is written."""
        reads = not self.methods or self.methods <= {"GET", "HEAD"}
        return self.need.kept or (Kept.NEVER if reads else Kept.WITH_CHANGE)

    @property
    def action(self) -> str:
        """What its audit records call it."""
        return str(self.endpoint.__name__)

    def get_route_handler(self) -> Handler:
        handle, need, kept = super().get_route_handler(), self.need, self.kept

        async def guarded(request: Request) -> Response:
            if need.role is None:
                return await handle(request)
            caller = await _authenticated(request)
            request.scope["schedkit.caller"] = caller
            if not caller.role.allows(need.role):
                await self._refused(request, caller, need.role)
            if kept is Kept.NEVER:
                return await handle(request)
            world: World = request.app.state.world
            afterwards = kept is Kept.AFTERWARDS
            trail = Trail(
                world.store, world.clock, _chains(request), self._entry(request, caller), afterwards=afterwards
            )
            request.scope["schedkit.world"] = replace(world, store=trail)
            try:
                answer = await handle(request)
            except Exception:
                await trail.broke_off()
                raise
            await trail.end()
            return answer

        return guarded

    async def _refused(self, request: Request, caller: Caller, role: Role) -> None:
        """Record that somebody tried to change what their role may not, and raise NotAllowed."""
        if self.kept is not Kept.NEVER:
            world: World = request.app.state.world
            entry = replace(self._entry(request, caller), outcome=Recorded.REFUSED)
            await _chains(request).append(world.store, world.clock, entry)
        raise NotAllowed(
            Reason.FORBIDDEN,
            f"this takes the role {role}, and your key has the role {caller.role}",
            why="viewers read, operators change, admins say who may",
            fix=("ask an admin of your tenant for a key: schedkit key create NAME --role " + role,),
        )

    def _entry(self, request: Request, caller: Caller) -> Entry:
        named = next(iter(request.path_params.values()), request.url.path)
        return Entry(
            tenant_id=caller.tenant_id,
            team_id=caller.team_id,
            key_id=caller.key_id,
            role=caller.role.value,
            action=self.action,
            resource=str(named)[:MAX_GIVEN_CHARS],
            outcome=Recorded.DONE,
            request_id=request_id_of(request),
            address=address_of(request),
            given=unquote(request.headers.get("schedkit-reason", ""))[:MAX_GIVEN_CHARS] or None,
        )


def _shape(endpoint: Callable[..., Any]) -> Any:
    """What a route's JSON answers look like, from its annotation; None where they are no JSON."""
    said = get_type_hints(endpoint, include_extras=True).get("return")
    kinds = get_args(said) if isinstance(said, UnionType) else (said,)
    shapes = tuple(kind for kind in kinds if kind is not None and not _is_response(kind))
    return Union[shapes] if shapes else None  # noqa: UP007 - as many as there are


def _is_response(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Response)


async def caller_of(request: Request) -> Caller:
    """Who calls, as the route's guard found."""
    caller = request.scope["schedkit.caller"]
    assert isinstance(caller, Caller), "a route that asks who calls needs a role"
    return caller


CallerDep = Annotated[Caller, Depends(caller_of)]


def access_of(request: Request) -> Access:
    """How this API lets callers in."""
    access = request.app.state.access
    assert isinstance(access, Access), "the app is made with its access"
    return access


def address_of(request: Request) -> str:
    """Where a request came from."""
    return request.client.host if request.client is not None else "unknown"


def _chains(request: Request) -> Chains:
    chains = request.app.state.chains
    assert isinstance(chains, Chains), "the app is made with its chains"
    return chains


async def _authenticated(request: Request) -> Caller:
    """Raises Unauthenticated; QuotaExceeded for an address that fails again and again; NotAllowed, StoreUnavailable."""
    access = access_of(request)
    caller = Caller() if access.auth is Auth.NONE else await _of_key(request, access)
    wished = request.headers.get("schedkit-tenant")
    if wished is not None and wished != caller.tenant_id:
        raise NotAllowed(
            Reason.FORBIDDEN,
            f"you call for the tenant {caller.tenant_id}, not for {wished[:60]!r}",
            field="Schedkit-Tenant",
            why="the tenant comes from the key; naming another one does not change it",
            fix=("leave --tenant away, or use a context with a key of that tenant",),
        )
    return caller


async def _of_key(request: Request, access: Access) -> Caller:
    """Whose key the request has. What is wrong is told to those who have the right key, and to nobody else."""
    assert access.keyring is not None, "keys cannot be checked without the pepper"
    world: World = request.app.state.world
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if not text:
        raise _failed(request, access, "this call needs an API key", "send the header Authorization: Bearer sk_…")
    key_id = id_in(text.strip()) if scheme.lower() == "bearer" else None
    if key_id is None:
        raise _failed(request, access, "this is no API key", "a key begins with sk_; copy it as a whole")
    item = await world.store.get(api_key_key(key_id))
    claimed = key_hash(access.keyring.pepper(), text.strip())
    if not same_hash(claimed, item["hash"] if item is not None else NO_HASH) or item is None:
        raise _failed(request, access, "this API key is not known here", "a key is good for the server that made it")
    key = key_of(item)
    if not key.live(world.clock.now()):
        how = "was revoked" if key.revoked_at is not None else "has expired"
        anew = f"ask an admin for a new one: schedkit key create {key.name} --role {key.role}"
        raise _failed(request, access, f"this API key {how}", anew)
    await _note_use(world, item)
    return key.caller


async def _note_use(world: World, item: Any) -> None:
    write = keyring.use(key_of(item), world.clock.now())
    if write is not None:
        try:
            await world.store.apply(write)
        except StoreUnavailable:
            return  # it is noted by a later call; a read must not fail for it


def _failed(request: Request, access: Access, detail: str, fix: str) -> Unauthenticated | QuotaExceeded:
    wait_s = access.attempts.failed(address_of(request), request.app.state.world.clock.now())
    if wait_s is None:
        return Unauthenticated(
            Reason.UNAUTHENTICATED,
            detail,
            why="this server takes calls with a key only",
            fix=(fix, "schedkit context update NAME --token-file FILE"),
        )
    return QuotaExceeded(
        Reason.QUOTA_EXCEEDED,
        f"too many calls without a right key came from {address_of(request)}; the last one: {detail}",
        why="somebody who tries keys is slowed down; calls with a right key are not",
        fix=(fix,),
        retry_after_seconds=wait_s,
        extra={"scope": "address"},
    )
