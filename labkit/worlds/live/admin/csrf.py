"""Refuses HTTP requests that a web page of another site makes a user's browser send.

A browser lets any page send some requests to any address, loopback too, without asking that server:
a GET, or a POST of text or of a form.  So a server that its machine's users reach without a token
must see that a request does not come from such a page:

    Origin, Sec-Fetch-Site   browsers name the page's site in them; other clients send neither
    Content-Type             a page needs the server's leave to send JSON, and never gets it
    Host                     on loopback: a stranger's name that leads to this machine's address
                             (DNS rebinding) makes a page from there one of this server's

Pulsar has no such rule; its administration takes JSON alone for most paths.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPServerRequest, split_host_and_port

from labkit.worlds.live.net import LOOPBACK

_SAME_SITE = ("same-origin", "none")
"""`none`: the user typed the address."""


def foreign_page(request: HTTPServerRequest, advertised_url: str) -> str:
    """Why the request may come from a page of another site; empty if it does not.

    `advertised_url` is the server's own HTTP address.
    """
    host = request.headers.get("Host", "").lower()
    origin = request.headers.get("Origin")
    site = request.headers.get("Sec-Fetch-Site", "none")
    if origin is not None and (_netloc(origin) != host or not host):
        return f"a page of {origin} asks for it, and only this broker's own may"
    if site not in _SAME_SITE:
        return "a page of another site asks for it, and only this broker's own may"
    name = split_host_and_port(host)[0].strip("[]")
    if not name or name in ("localhost", urlsplit(advertised_url).hostname) or _is_loopback(name):
        return ""
    if _is_loopback(_local_address(request)):
        return f"{name!r} is not a name of this broker: use localhost, or set advertisedAddress"
    return ""


def is_json(request: HTTPServerRequest) -> bool:
    """Whether the body is declared as JSON, perhaps of a special kind, as pulsar-admin does for
    partitions: `application/vnd.partitioned-topic-metadata+json`.
    """
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    of_kind, _, name = kind.partition("/")
    return of_kind == "application" and (name == "json" or name.endswith("+json"))


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


def _local_address(request: HTTPServerRequest) -> str:
    """The address at which the client found this server."""
    connection = request.connection
    assert isinstance(connection, HTTP1Connection)
    if connection.stream.closed():
        return LOOPBACK  # The strictest: the request may still have an effect.
    address: str = connection.stream.socket.getsockname()[0]
    return address
