"""The cloud's client: `client.py METHOD URL [JSON]`; exits 1 when the API refuses. Standard library only."""

import http.client
import sys
from urllib.parse import urlsplit

method, url, *body = sys.argv[1:]
parts = urlsplit(url)
connection = http.client.HTTPConnection(parts.netloc)
connection.request(method, parts.path, body[0] if body else None)
status = connection.getresponse().status
if status >= 300:
    sys.exit(f"cloud: {method} {parts.path} answered {status}")
