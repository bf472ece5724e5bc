"""What every test stands on."""

from __future__ import annotations

import signal

# A shell that starts the tests in the background makes them ignore ctrl+c, and their child processes inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
