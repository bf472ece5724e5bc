"""The command line: one file per noun, loaded only when it is named. Sees nothing but the HTTP client and offline cron.

front      the table of commands and the page of a bare `schedkit`   (no imports)
app        the root of the tree, and how every outcome becomes an exit code
frame      commands, their shared flags, their help
settings   flag › environment › project file › user file › system file › built-in
output     table, wide, json, jsonl, yaml, csv, name; pipes and terminals
values     times, durations and payloads in      show     the same out
"""
