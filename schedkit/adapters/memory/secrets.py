"""Secrets in memory, for tests and simulations: what a dictionary holds, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from schedkit.model.secrets import Missing, Secret


class MemorySecrets:
    """`Secrets` over a mapping of references to values; a job may name any reference."""

    def __init__(self, values: Mapping[str, bytes] | None = None) -> None:
        self.values = dict(values or {})

    def refusal(self, ref: str) -> str | None:
        return None

    async def read(self, ref: str) -> Secret | Missing:
        value = self.values.get(ref)
        return Missing(f"there is no secret {ref}") if value is None else Secret(value)
