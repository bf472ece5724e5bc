"""Mutants of `failure`, of creating, and of what carries timers: replies, retries, sweeps, buckets, queues."""

from __future__ import annotations

from typing import Final

from tests.sim.mutants.mutant import Edit, Mutant

ADVANCE: Final = "schedkit.engine.when.advance"
CLAIM: Final = "schedkit.engine.who.claim"
CREATING: Final = "schedkit.api.creating"
DISPATCHER: Final = "schedkit.roles.dispatcher"
KEYS: Final = "schedkit.model.keys"
LOADER: Final = "schedkit.roles.loader"
POOL: Final = "schedkit.roles.pool"
PORTS: Final = "schedkit.ports"
REAP: Final = "schedkit.engine.failure.reap"
RETRY: Final = "schedkit.engine.failure.retry"

STANDS_IN_THE_STORE: Final = "the timer stands in the store until the run is claimed, so the sweep sends it again"

REPLIES: Final = (
    Mutant(
        "no_retry_cap",
        "a run that fails is tried for ever",
        ("I7",),
        (Edit(RETRY, "if attempt >= policy.max_attempts:", "if attempt >= 1_000:"),),
    ),
    Mutant(
        "one_try_less",
        "the last try is not made",
        ("I7",),
        (Edit(RETRY, "if attempt >= policy.max_attempts:", "if attempt + 1 >= policy.max_attempts:"),),
    ),
    Mutant(
        "permanent_retried",
        "what can never succeed is tried again",
        ("I7",),
        (Edit(RETRY, "case Answered(status) if not retryable(status):", "case Answered(status) if False:"),),
    ),
    Mutant(
        "nothing_retried",
        "a 503 is taken for permanent",
        ("I7",),
        (Edit(RETRY, "or http_status >= 500", "or http_status >= 600"),),
    ),
    Mutant(
        "backoff_not_capped",
        "waits grow without end",
        ("I7",),
        (
            Edit(
                RETRY,
                "return min(policy.max_backoff_ms, policy.initial_backoff_ms << min(attempt - 1, MAX_EXPONENT))",
                "return 2 * policy.max_backoff_ms",
            ),
        ),
    ),
    Mutant(
        "no_backoff",
        "what failed is tried again at once",
        ("I7",),
        (Edit(RETRY, "return int(draw * backoff_cap_ms(attempt, policy))", "return 0"),),
    ),
    Mutant(
        "no_jitter",
        "all that failed together comes back together",
        ("I7",),
        (
            Edit(
                RETRY,
                "return int(draw * backoff_cap_ms(attempt, policy))",
                "return backoff_cap_ms(attempt, policy)",
            ),
        ),
    ),
    Mutant(
        "retry_after_ignored",
        "a target that asks for time gets none",
        ("I7",),
        (Edit(RETRY, "floor_ms = retry_after_ms(retry_after, now) or 0", "floor_ms = 0"),),
    ),
    Mutant(
        "no_dead_letter",
        "what failed for good is kept nowhere",
        ("I7",),
        (
            Edit(
                CLAIM,
                'dead = {**ended_for_good, "dead_partition": dead_listing(run.tenant_id), "dead_at": sortable(now)}',
                "dead = ended_for_good",
            ),
        ),
    ),
    Mutant(
        "reclaimed_at_most_once",
        "a run that may be called once is called by the next holder too",
        ("C7",),
        (Edit(REAP, "if delivery is Delivery.AT_MOST_ONCE:", "if False:"),),
    ),
    Mutant(
        "timeout_retried_at_most_once",
        "a run that may be called once is called again after a timeout",
        ("C7",),
        (Edit(RETRY, "case NoAnswer(error) if at_most_once:", "case NoAnswer(error) if False:"),),
    ),
    Mutant(
        "failure_retried_at_most_once",
        "a run that may be called once is called again after a 500",
        ("C7",),
        (Edit(RETRY, "case Answered(status) if at_most_once:", "case Answered(status) if False:"),),
    ),
    Mutant(
        "unknown_for_all",
        "a timeout ends every run as UNKNOWN",
        ("C7", "I7"),
        (Edit(RETRY, "case NoAnswer(error) if at_most_once:", "case NoAnswer(error) if True:"),),
    ),
    Mutant(
        "poison_at_once",
        "one lost executor is enough to give a run up",
        ("I7",),
        (Edit(REAP, "MAX_RECLAIMS: Final = 9", "MAX_RECLAIMS: Final = 0"),),
    ),
    Mutant(
        "any_answer_is_success",
        "whatever a target answers is recorded as a success",
        ("C6", "I7"),
        (Edit(RETRY, "if 200 <= status < 300:", "if status:"),),
    ),
)

CREATES: Final = (
    Mutant(
        "key_ignored",
        "a repeated create makes another job",
        ("I3",),
        (Edit(CREATING, "if used is not None and key is not None and (before", "if False and (before"),),
    ),
    Mutant(
        "key_not_written",
        "nothing remembers which job a key has made",
        ("I3",),
        (Edit(CREATING, "        if key is not None:", "        if False:"),),
    ),
    Mutant(
        "key_taken_twice",
        "two creates at once both take the key",
        ("I3",),
        (Edit(ADVANCE, '"take key", (condition,), changes)', '"take key", (), changes)'),),
    ),
    Mutant(
        "key_forgotten",
        "a key stands for its job for a moment only",
        ("I3",),
        (Edit(ADVANCE, "KEY_LIFE_MS: Final = DAY_MS", "KEY_LIFE_MS: Final = DAY_MS // 86_400"),),
    ),
    Mutant(
        "name_shared",
        "two living jobs have one name",
        ("names",),
        (Edit(CREATING, "if holder is not None and holder.name == job.name and", "if False and"),),
    ),
    Mutant(
        "forgotten_soon",
        "what has ended is forgotten after a minute",
        ("I29", "I30"),
        (Edit(KEYS, "RETENTION_MS: Final = 30 * DAY_MS", "RETENTION_MS: Final = 60_000"),),
    ),
)

CARRIERS: Final = (
    Mutant(
        "no_sweep",
        "what was left behind is never looked for",
        ("I2", "I13"),
        (Edit(LOADER, "if due and (found := await self.sweep()):", "if False and (found := 0):"),),
    ),
    Mutant(
        "swept_once",
        "what was left behind is looked for at one age only",
        ("I2", "I13"),
        (Edit(LOADER, "for doublings in range(11)", "for doublings in range(1)"),),
    ),
    Mutant(
        "sweep_gap",
        "a sweep that came late or failed leaves out what it should have found",
        ("I2", "I13"),
        (Edit(LOADER, "since = min(since, self._swept_at - age_ms)", "pass"),),
        equivalent="what the first age leaves out the second finds, a minute later and within the bound",
    ),
    Mutant(
        "done_first",
        "a message is done before it is handled",
        ("BUG",),
        (
            Edit(
                POOL,
                "wait_ms = await self._handle(timer)",
                "_, wait_ms = await queue.done(timer), await self._handle(timer)",
            ),
        ),
    ),
    Mutant(
        "dropped_in_trouble",
        "a message is done with when the store is away",
        ("I2",),
        (Edit(POOL, "await queue.again(timer, STORE_PAUSE_MS)", "await queue.done(timer)"),),
        equivalent=STANDS_IN_THE_STORE,
    ),
    Mutant(
        "removed_first",
        "a timer leaves its bucket before it is sent",
        ("I2",),
        (
            Edit(
                DISPATCHER,
                "await world.queue.send(due)",
                "await world.buckets.remove(due), await world.queue.send(due)",
            ),
        ),
        equivalent=STANDS_IN_THE_STORE,
    ),
    Mutant(
        "overdue_into_buckets",
        "what is overdue as it is written goes into a bucket",
        ("I13",),
        (Edit(PORTS, "await self._try(self.queue.send, overdue)", "await self._try(self.buckets.add, overdue)"),),
        equivalent="a bucket gives all that is due, however old, and what is put into it wakes the dispatcher",
    ),
    Mutant(
        "overdue_dropped",
        "what is overdue as it is written is passed on to nobody",
        ("I13",),
        (Edit(PORTS, "if overdue := [timer for timer in timers if timer.at <= now]:", "if overdue := []:"),),
    ),
    Mutant(
        "ahead_dropped",
        "what is near as it is written is passed on to nobody",
        ("I13",),
        (Edit(PORTS, "if ahead := [timer for timer in timers if timer.at > now]:", "if ahead := []:"),),
    ),
    Mutant(
        "doubt_dropped",
        "what was written in doubt is passed on to nobody",
        ("I13",),
        (
            Edit(
                PORTS,
                "await self._pass_on([(writes[outcome.index].key, outcome.current)])",
                "pass",
            ),
        ),
        equivalent=STANDS_IN_THE_STORE,
    ),
    Mutant(
        "commit_given_up",
        "a write is tried once only",
        ("I11", "I13"),
        (Edit(PORTS, "if self.clock.now() + cap_ms >= deadline:", "if True:"),),
    ),
    Mutant(
        "loaded_late",
        "the loader copies what is overdue, not what is near",
        ("I13",),
        (Edit(LOADER, "until = now + world.horizon_ms", "until = now"),),
    ),
    Mutant(
        "loaded_from_now",
        "the loader leaves out what is overdue as it starts",
        ("I13",),
        (Edit(LOADER, "since = min(now, self._loaded_until)", "since = now"),),
    ),
)

FAILURE: Final = (*REPLIES, *CREATES, *CARRIERS)
