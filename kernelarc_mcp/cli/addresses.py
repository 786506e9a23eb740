"""Addresses to listen on, as options give them."""

from kernelarc_mcp.cli.console import UserError


def address_and_port(given: str, example: str) -> tuple[str, int]:
    """Return where to listen, on loopback where only a port is given; UserError for no place."""
    address, _, port = given.rpartition(":")
    address = address.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise UserError(f"--http: {given!r}: expected HOST:PORT, such as {example}")
    return address, int(port)
