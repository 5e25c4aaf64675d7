"""Settings, clock and records; see README.md."""
import os
import struct
import sys
import time
from urllib.parse import urlsplit

URL = os.environ.get("PEERS_URL", "redis://127.0.0.1:6379")
SERVER = {"host": urlsplit(URL).hostname, "port": urlsplit(URL).port}
now = time.monotonic_ns  # CLOCK_MONOTONIC, shared by all processes of the machine


def settings():
    return {key: int(value) for key, value in (word.split("=") for word in sys.argv[3:])}


_file = None


def write(*records):
    """Appends records of four numbers each."""
    global _file
    if _file is None:
        _file = os.open(os.path.join(os.environ.get("PEERS_OUT", "."), str(os.getpid())), os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(_file, b"".join(struct.pack("<4Q", *record) for record in records))
