"""Jobs as files: the format `schedkit: v1`, what an apply has to do, and other schedulers' entries turned into it.

text ──yamltext──► values with their lines ──jobfile──► documents as the API takes them ──plan──► what to do
crontab, EventBridge, CronJobs, Celery beat ──imports──► entries ──writing──► text

Pure: text and `now` in, values out. Whoever calls reads the files and talks to the server.
"""
