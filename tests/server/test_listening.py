"""The address a server listens on."""

import socket

from kernelarc_mcp.web.listening import _listen


def test_the_socket_is_told_to_be_tcps_so_that_no_answer_waits_for_an_acknowledgement() -> None:
    """Without it asyncio leaves Nagle's algorithm on, and every answer takes 40 ms longer."""
    with _listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
