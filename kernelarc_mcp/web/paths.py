"""Which path of an application a request asks for, wherever the application is mounted."""

from starlette.types import Scope


def path_in(scope: Scope) -> str:
    """Return a request's path below the place where its application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))
