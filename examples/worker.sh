#!/usr/bin/env bash
# A worker without a library: poll, heartbeat, complete.  SCHEDKIT_URL=http://127.0.0.1:8700 bash worker.sh letters
set -uo pipefail
queue=$1 url=${SCHEDKIT_URL:-http://127.0.0.1:8700}/v1 me=$(hostname)-$$

post() { curl -sS --fail-with-body --max-time 30 -X POST "$url/$1" -H 'Content-Type: application/json' -d "$2"; }
field() { python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"; } # or: jq -r ".$1"

work() { # one task, as JSON; its key is the same at every try of the run
  echo "letter for $(field payload <<<"$1"), key $(field idempotency_key <<<"$1")"
}

beat() { # run, epoch, seconds, pid: stops the work where somebody cancelled it, or the run is not ours any more
  while sleep "$3"; do
    case $(post "runs/$1:heartbeat" "{\"epoch\": $2}") in
      *'"cancel_requested":true'* | *EPOCH_SUPERSEDED*) kill "$4" ;;
    esac
  done
}

while :; do
  task=$(post "task-queues/$queue/tasks:poll" "{\"worker_id\": \"$me\", \"wait_seconds\": 20}") || { sleep 5; continue; }
  [ -n "$task" ] || continue # nothing came in time
  run=$(field run_id <<<"$task") epoch=$(field epoch <<<"$task")
  work "$task" & working=$!
  beat "$run" "$epoch" "$(field heartbeat_every_seconds <<<"$task")" "$working" & beating=$!
  wait "$working"
  case $? in
    0) outcome='"SUCCEEDED"' ;;
    143) outcome='"CANCELLED"' ;; # by our own SIGTERM
    *) outcome='"FAILED", "error": "it ended badly"' ;;
  esac
  until post "runs/$run:complete" "{\"epoch\": $epoch, \"outcome\": $outcome}" >/dev/null || [ $? = 22 ]; do
    sleep 5 # no answer: say it again. 22 is a refusal, which stays one
  done
  kill "$beating"
done
