"""Several campaigns in one server process, each below a path of its own and with its own tokens."""
