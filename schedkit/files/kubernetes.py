"""Kubernetes: CronJob manifests, one or many in a file, or a List as `kubectl get cronjobs -o yaml` prints it.

schedule, timeZone          cron, tz; CRON_TZ= or TZ= in front of the schedule is the zone
concurrencyPolicy           overlap: Forbid skips, Allow allows; Replace skips, as nothing here stops a run
startingDeadlineSeconds     expires_after          suspend        paused
backoffLimit                retry.max_attempts     the pod        payload, for whoever starts it
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from schedkit.errors import InvalidInput, Reason
from schedkit.files.imported import Imported, Wishes
from schedkit.model.jobs import MAX_ATTEMPTS

QUEUE: Final = "kubernetes"
BACKOFF_LIMIT: Final = 6  # Kubernetes' own default
_ZONED: Final = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)")
_EVERY: Final = re.compile(r"@every\s+((?:\d+[hms])+)")


def read(text: str, wishes: Wishes) -> Imported:
    """The jobs of manifests. Raises InvalidInput for what is no YAML."""
    found = Imported(wishes, "Kubernetes CronJobs")
    found.defaults = wishes.spread()
    if wishes.target is None:
        found.note(f"nothing here starts pods: a worker on the queue {QUEUE} has to, from the image in the payload")
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as problem:
        told = str(problem).splitlines()[0]
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"this is no YAML: {told}", field="FILE") from problem
    for document in documents:
        for manifest in _manifests(document):
            try:
                _manifest(found, manifest)
            except (AttributeError, TypeError, ValueError) as problem:  # a field is not what its kind should be
                found.leave("a manifest", str(_mapping(manifest, "metadata").get("name")), f"malformed: {problem}")
    return found


def _manifests(document: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(document, Mapping) and isinstance(document.get("items"), list):
        yield from (item for item in document["items"] if isinstance(item, Mapping))
    elif isinstance(document, Mapping):
        yield document


def _manifest(found: Imported, manifest: Mapping[str, Any]) -> None:
    metadata = _mapping(manifest, "metadata")
    name = str(metadata.get("name") or "cronjob")
    spec = _mapping(manifest, "spec")
    if manifest.get("kind") != "CronJob":
        found.leave(name, str(manifest.get("kind")), "it is no CronJob")
        return
    said = str(spec.get("schedule", ""))
    notes: list[str] = []
    entry = _when(found, said, spec, notes)
    if spec.get("suspend") is True:
        entry["paused"] = True
    if "startingDeadlineSeconds" in spec:
        entry["expires_after"] = f"{spec['startingDeadlineSeconds']}s"
    match spec.get("concurrencyPolicy", "Allow"):
        case "Forbid":
            entry["overlap"] = "skip"
        case "Replace":
            entry["overlap"] = "skip"
            notes.append("concurrencyPolicy Replace stopped the run before; here the new run is skipped")
    labels = {str(key): str(value) for key, value in _mapping(metadata, "labels").items()}
    if metadata.get("namespace"):
        labels = {"namespace": str(metadata["namespace"]), **labels}
    entry |= {"labels": labels} if labels else {}
    if {"successfulJobsHistoryLimit", "failedJobsHistoryLimit"} & set(spec):
        notes.append("how many runs are kept is the scheduler's to say: the history limits have no meaning here")
    job = _mapping(_mapping(spec, "jobTemplate"), "spec")
    entry |= {**found.wishes.place(QUEUE), **_retry(job, notes), **_bound(found, job, notes)}
    entry["payload"] = _payload(job, notes)
    known = ("schedule", "timeZone", "suspend", "startingDeadlineSeconds", "concurrencyPolicy", "jobTemplate")
    history = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    notes.extend(f"{key} has no meaning here" for key in spec if key not in (*known, *history))
    found.add(name, said, name, entry, notes)


def _when(found: Imported, said: str, spec: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    zone, schedule = spec.get("timeZone"), said
    if (zoned := _ZONED.fullmatch(said)) is not None:
        zone, schedule = zoned[1], zoned[2]
        notes.append("the zone in front of the schedule became tz; Kubernetes refuses it there by now")
    if (every := _EVERY.fullmatch(schedule)) is not None:
        return {"every": every[1]}
    if zone is None:
        notes.append("no timeZone: it ran on the clock of the controller, which is UTC as a rule")
    zone = str(zone or found.wishes.tz or "UTC")
    entry: dict[str, Any] = {"cron": schedule, "tz": zone}
    fields = schedule.split()
    if zone not in ("UTC", "Etc/UTC") and len(fields) > 1 and "*" not in fields[1]:
        entry |= {"dst_gap": "skip", "dst_overlap": "both"}
        notes.append("when clocks change, Kubernetes leaves a missing time out and runs a repeated one twice: so here")
    return entry


def _retry(job: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    attempts = int(job.get("backoffLimit", BACKOFF_LIMIT)) + 1
    if attempts > MAX_ATTEMPTS:
        notes.append(f"{attempts} tries became {MAX_ATTEMPTS}, the most there are here")
    return {"retry": {"max_attempts": min(attempts, MAX_ATTEMPTS), "backoff": "10s..6m"}}


def _bound(found: Imported, job: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    if "activeDeadlineSeconds" not in job:
        return {}
    notes.append("activeDeadlineSeconds bounded all tries together; timeout bounds each of them")
    if found.wishes.target is not None and int(job["activeDeadlineSeconds"]) > 300:
        notes.append("a call is bounded by 5m at most")
        return {"timeout": "5m"}
    return {"timeout": f"{job['activeDeadlineSeconds']}s"}


def _payload(job: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Image, command, arguments and plain environment of the first container."""
    pod = _mapping(_mapping(job, "template"), "spec")
    containers = [one for one in pod.get("containers") or [] if isinstance(one, Mapping)]
    first = containers[0] if containers else {}
    payload = {key: first[key] for key in ("image", "command", "args") if key in first}
    env = {str(one.get("name")): str(one["value"]) for one in first.get("env") or [] if "value" in one}
    payload |= {"env": env} if env else {}
    if any("valueFrom" in one for one in first.get("env") or []) or first.get("envFrom"):
        notes.append("environment from secrets, config maps and fields is not in the payload")
    if len(containers) > 1 or pod.get("initContainers"):
        notes.append("only the first container is in the payload")
    if job.get("parallelism", 1) != 1 or job.get("completions", 1) != 1:
        notes.append("parallelism and completions: a run is one run here")
    carried = ("volumes", "serviceAccountName", "nodeSelector", "tolerations", "affinity")
    if kept := [key for key in carried if key in pod]:
        notes.append(f"{', '.join(kept)} of the pod: not in the payload")
    return payload


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inside = value.get(key)
    return inside if isinstance(inside, Mapping) else {}
