"""Who may open the live view: its own page, by every name of its machine, and no other."""

from __future__ import annotations

import http.client
import itertools
import socket

import pytest

import catena as ct
from catena.view.guard import allowed, guarded
from catena.view.stage import new_server, stop

PORT = 8080
OWN = ("localhost", "127.0.0.1", "[::1]", socket.gethostname())
STRANGERS = (
    "http://example.org", "http://example.org:8080", "http://127.0.0.1:3000", "http://localhost", "http://6.6.6.6:8080", "null", "",
    "file://", "http://localhost:8080@example.org", "http://localhost:8080.example.org", "http://localhost.example.org:8080", "http://[",
    "//:x",
)  # fmt: skip
NAMES = ("example.org", "example.org:8080", "localhost.example.org:8080", "", "a b", "localhost@example.org", "[", "x:y")


def test_the_page_itself_may_open_the_view_by_every_name_of_its_machine() -> None:
    for host, page in itertools.product(OWN, OWN):
        assert allowed([f"{host}:{PORT}"], [f"http://{page}:{PORT}"], PORT)
        assert allowed([f"{host}:{PORT}"], [], PORT)  # the first request of a page, and programs
    for host in ("localhost:9000", "192.168.1.4:8080", "[fd00::4]:8080", "localhost"):  # a port that leads here, and addresses
        assert allowed([host], [f"http://{host}"], PORT)
        assert allowed([host], [f"HTTP://{host.upper()}"], PORT)
    assert allowed(["view.example.org"], ["https://view.example.org"], PORT, "view.example.org") is False  # another port: not its page
    assert allowed(["view.example.org:443"], ["https://view.example.org"], PORT, "View.example.org")


@pytest.mark.parametrize("origin", STRANGERS)
def test_another_page_may_not_open_the_view(origin: str) -> None:
    assert not any(allowed([f"{host}:{PORT}"], [origin], PORT) for host in (*OWN, "192.168.1.4"))
    assert not allowed([f"localhost:{PORT}"], [f"http://localhost:{PORT}", origin], PORT)


@pytest.mark.parametrize("host", NAMES)
def test_a_name_of_strangers_that_leads_here_is_refused(host: str) -> None:
    assert not allowed([host], [f"http://{host}"], PORT)
    assert not allowed([host], [], PORT)
    assert not allowed(["localhost", host], [], PORT)
    assert not allowed([], [], PORT)


def test_the_server_answers_its_own_page_alone_and_gives_no_public_address() -> None:
    import viser
    from viser._messages import ShareUrlDisconnect, ShareUrlRequest
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    server = new_server(port=0)
    try:
        port = server.get_port()

        def opened(origin: str | None, name: str = "127.0.0.1") -> bool:
            try:
                with connect(f"ws://{name}:{port}", origin=origin, subprotocols=[f"viser-v{viser.__version__}"]) as client:  # type: ignore[arg-type]
                    return len(client.recv(timeout=30)) > 0
            except InvalidStatus as refused:
                if refused.response.status_code != 403:
                    raise
                return False

        assert opened(f"http://127.0.0.1:{port}")
        assert opened(f"http://localhost:{port}")
        assert opened(None)
        assert not opened("http://example.org")
        assert not opened(f"http://127.0.0.1:{port + 1}")
        for name, status in (("localhost", 200), ("example.org", 403)):
            page = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            page.request("GET", "/", headers={"Host": f"{name}:{port}"})
            assert page.getresponse().status == status
            page.close()
        assert not {ShareUrlRequest, ShareUrlDisconnect} & {*server._websock_server._incoming_handlers}
    finally:
        stop(server)


def test_a_viser_whose_server_cannot_be_guarded_is_an_error() -> None:
    with pytest.raises(ct.MissingPackageError, match="install viser"), guarded("localhost"):
        pass
