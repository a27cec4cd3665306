"""Protection against cross-site request forgery (CSRF).

Without asking the server first, a browser lets any web page send GET requests, and POST requests
with text or a form, to any address. This includes loopback addresses. A server that accepts
requests without a token must therefore check that they do not come from a page of another site:

    Origin, Sec-Fetch-Site   Browsers send these headers to identify the page's site; other clients
                             send neither.
    Content-Type             A page may send JSON only with the server's permission (CORS), which
                             labkit never grants.
    Host                     On loopback, the host name must be this broker's own: with DNS
                             rebinding, an attacker's name resolves to this machine's address, so
                             the browser treats the attacker's page as one of this server's.

Pulsar has no such protection, except that most of its admin paths accept only JSON.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPServerRequest, split_host_and_port

_SAME_SITE = ("same-origin", "none")
"""`none` means that the user typed the address."""


def cross_site_reason(request: HTTPServerRequest, advertised_url: str) -> str:
    """Return why the request may have been sent by a page of another site, or "" if it was not.

    `advertised_url` is this broker's HTTP address.
    """
    host = request.headers.get("Host", "").lower()
    origin = request.headers.get("Origin")
    site = request.headers.get("Sec-Fetch-Site", "none")
    if origin is not None and (_netloc(origin) != host or not host):
        return f"requests from web pages of {origin} are not allowed"
    if site not in _SAME_SITE:
        return "requests from web pages of other sites are not allowed"
    name = split_host_and_port(host)[0].strip("[]")
    if not name or name in ("localhost", urlsplit(advertised_url).hostname) or _is_loopback(name):
        return ""
    connection = request.connection
    assert isinstance(connection, HTTP1Connection)
    # Check the request even if the client has closed the connection, because the request may still
    # have an effect.
    if connection.stream.closed() or _is_loopback(connection.stream.socket.getsockname()[0]):
        return f"{name!r} is not a host name of this broker: use localhost or set advertisedAddress"
    return ""


def is_json(request: HTTPServerRequest) -> bool:
    """Return whether the content type is JSON or a JSON-based type.

    For example, pulsar-admin sends `application/vnd.partitioned-topic-metadata+json`.
    """
    content_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    kind, _, subtype = content_type.partition("/")
    return kind == "application" and (subtype == "json" or subtype.endswith("+json"))


def _netloc(url: str) -> str:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def _is_loopback(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
