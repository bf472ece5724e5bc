"""A target in Django: it takes signed calls only, and makes each invoice once, however often it is called.

SCHEDKIT_SECRET_BILLING=… python django_target.py runserver 9000
"""

import os
import sys
from contextlib import closing

from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

from schedkit.target import CREATE_TABLE, InvalidSignature, StaleEpoch, remember, verify

DATABASE = {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("DATABASE", "invoices.db")}
SECRET = os.environ["SCHEDKIT_SECRET_BILLING"]

settings.configure(ALLOWED_HOSTS=["127.0.0.1"], DATABASES={"default": DATABASE}, ROOT_URLCONF=__name__)
application = get_wsgi_application()
with closing(connection), connection.cursor() as cursor:
    cursor.execute(CREATE_TABLE)
    cursor.execute("CREATE TABLE IF NOT EXISTS invoices (run TEXT, body BLOB)")


def invoices(request: HttpRequest) -> HttpResponse:
    try:
        call = verify(request.headers, request.body, SECRET)
        with transaction.atomic(), connection.cursor() as cursor:  # one transaction for the key and the work
            if remember(connection, call.idempotency_key, call.epoch):
                cursor.execute("INSERT INTO invoices VALUES (%s, %s)", (call.idempotency_key, request.body))  # the work
    except InvalidSignature:
        return HttpResponse("not signed by the scheduler", status=401)
    except StaleEpoch:
        return HttpResponse("a later call of this run was here before", status=409)
    return JsonResponse({"invoice": call.idempotency_key})  # a repeat gets the same answer


urlpatterns = [path("invoices", invoices)]

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
