"""What each client must be told, in the form its documentation gives, and where it looks for it."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from kernelarc_mcp.connecting.changes import (
    Change,
    FirstText,
    JsonEntry,
    JsonMember,
    TomlTable,
    toml_value,
)
from kernelarc_mcp.connecting.changes import WholeFile as Whole
from kernelarc_mcp.connecting.door import SERVER, TOKEN_VARIABLE, Door, HttpDoor, StdioDoor
from kernelarc_mcp.skill import loop_text, skill_text

Client = Literal["claude", "codex", "gemini", "cursor", "vscode", "json"]
Era = Literal["auto", "legacy"]
CLIENTS: tuple[Client, ...] = get_args(Client)

CALL_SECONDS = 600
"""No call takes longer than 50 s; a client that gives up earlier for another reason loses nothing."""
START_SECONDS = 60
"""Until a server process answers on a loaded machine."""
SHARED_SKILL = f".agents/skills/{SERVER}/SKILL.md"
"""Where Codex, Gemini CLI, Cursor and VS Code all look for a project's skills."""
TOKEN_INPUT = "kernelarc-token"
"""Of VS Code's input; whose token it is follows, so that no campaign gets another one's."""
PROMPT = (
    "Optimise the kernel of this campaign with the kernelarc tools: call get_brief, then do what the "
    "next_step of each answer says, until the directive is STOP."
)
"""What starts an agent, in every client; a shell needs it quoted, and nothing in it."""
_REFUSED = "the server answers with status 401"


@dataclass(frozen=True)
class Form:
    """Everything one client needs."""

    changes: list[Change]
    """The first one's file holds the server's entry and is what is printed."""
    notes: list[str]
    """What its user still does, or should know."""
    era: Era = "legacy"
    """How the client connects: `auto` tries the protocol of 2026 first, `legacy` shakes hands."""

    @property
    def greeting(self) -> str:
        """Say in half a sentence why the client speaks the protocol that it speaks."""
        if self.era == "auto":
            return "this client asks for the newest first"
        return "this client begins with the handshake of those before 2026"


def form_for(client: Client, door: Door, *, trust: bool = False) -> Form:
    """Return what `client` needs in order to reach a campaign through `door`.

    `trust` lets Gemini CLI call the tools without asking anybody; the others know no such entry.
    """
    return _gemini(door, trust=trust) if client == "gemini" else _FORMS[client](door)


def _claude(door: Door) -> Form:
    # Without `alwaysLoad` a session does not wait for the server, and its first turn has no tools.
    entry = _plain(door, "${%s}") | {"timeout": CALL_SECONDS * 1000, "alwaysLoad": True}
    # A url without its type is taken for a server to be started.
    entry = {"type": "stdio" if isinstance(door, StdioDoor) else "http"} | entry
    settings = ".claude/settings.local.json"
    patience: list[Change] = []
    if isinstance(door, StdioDoor):
        # Even so it waits 5 s only, which is little for a process on a busy machine.
        milliseconds = str(START_SECONDS * 1000)
        patience = [JsonEntry(settings, ("env", "MCP_CONNECT_TIMEOUT_MS"), milliseconds)]
    return Form(
        [
            JsonEntry(".mcp.json", ("mcpServers", SERVER), entry),
            JsonMember(settings, "enabledMcpjsonServers", SERVER),
            *patience,
            Whole(f".claude/skills/{SERVER}/SKILL.md", skill_text()),
        ],
        [
            *_token_note(
                door,
                "Claude Code",
                f"Claude Code warns `Missing environment variables: {TOKEN_VARIABLE}`",
            ),
            "Claude Code shows the server as pending until you have trusted the folder: start "
            "`claude` there once. `claude -p` needs no trust.",
            f'Headless: claude -p "{PROMPT}" --allowedTools mcp__{SERVER}',
        ],
        era="auto",
    )


def _codex(door: Door) -> Form:
    values: dict[str, Any]
    if isinstance(door, StdioDoor):
        values = {"command": door.command, "args": door.args}
    else:
        values = {"url": door.url, "bearer_token_env_var": TOKEN_VARIABLE}
    # Required: else a session begins without a server that is slow to start, and without a word.
    values |= {
        "required": True,
        "startup_timeout_sec": START_SECONDS,
        "tool_timeout_sec": CALL_SECONDS,
    }
    if isinstance(door, StdioDoor):
        values["env"] = door.env
    return Form(
        [
            TomlTable(".codex/config.toml", ("mcp_servers", SERVER), values),
            Whole(SHARED_SKILL, skill_text()),
        ],
        [
            *_token_note(
                door,
                "Codex",
                "Codex refuses to start: `required MCP servers failed to initialize: ... Environment "
                f"variable {TOKEN_VARIABLE} ... is not set`",
            ),
            "Codex ignores this file without a word until you have trusted the folder: start `codex` "
            "there once, or put the table into config.toml in your own .codex directory.",
            "Headless, trusted or not: codex exec --skip-git-repo-check -c "
            + shlex.quote(f"mcp_servers.{SERVER}={toml_value(values)}")
            + f' "{PROMPT}"',
        ],
    )


def _gemini(door: Door, *, trust: bool = False) -> Form:
    if isinstance(door, StdioDoor):
        entry = _plain(door, "")
    else:
        entry = {"httpUrl": door.url, "headers": _bearer(f"${TOKEN_VARIABLE}")}
    return Form(
        [
            JsonEntry(
                ".gemini/settings.json",
                ("mcpServers", SERVER),
                entry | {"timeout": CALL_SECONDS * 1000} | ({"trust": True} if trust else {}),
            ),
            Whole(SHARED_SKILL, skill_text()),
        ],
        [
            *_token_note(door, "Gemini CLI", "Gemini CLI says only `Disconnected` of the server"),
            "Gemini CLI connects to no server in a folder you have not trusted: start `gemini` there "
            "once, or set GEMINI_CLI_TRUST_WORKSPACE=true (--skip-trust does not connect it).",
            f'Headless: GEMINI_CLI_TRUST_WORKSPACE=true gemini -p "{PROMPT}"'
            + (
                ""
                if trust
                else ". Nobody is there to allow a call: `connect --trust` writes that these "
            )
            + (
                ""
                if trust
                else "tools may be called (--approval-mode yolo would allow every command)."
            ),
        ],
    )


def _cursor(door: Door) -> Form:
    entry = _plain(door, "${env:%s}")
    if isinstance(door, StdioDoor):
        entry = {"type": "stdio"} | entry
    return Form(
        [
            JsonEntry(".cursor/mcp.json", ("mcpServers", SERVER), entry),
            Whole(SHARED_SKILL, skill_text()),
        ],
        [
            *_token_note(door, "Cursor", _REFUSED, " (`cursor FOLDER`), not from the desktop"),
            "Cursor has no setting for how long a call may take; no call here takes a minute.",
        ],
    )


def _vscode(door: Door) -> Form:
    path = ".vscode/mcp.json"
    holder = door.holder if isinstance(door, HttpDoor) else ""
    name = "-".join(part for part in (TOKEN_INPUT, holder) if part)
    entry = _plain(door, "${input:%s}", name)
    entry = {"type": "stdio" if isinstance(door, StdioDoor) else "http"} | entry
    changes: list[Change] = [JsonEntry(path, ("servers", SERVER), entry)]
    if isinstance(door, HttpDoor):
        asked = {
            "type": "promptString",
            "id": name,
            "description": f"KernelArc token of {holder or 'this agent'}",
            "password": True,
        }
        changes.append(JsonMember(path, "inputs", asked, instead_of=TOKEN_INPUT))
    return Form(
        [*changes, Whole(SHARED_SKILL, skill_text())],
        [
            f"VS Code asks for the token once and keeps it in its own store under {name}; with another "
            "name there, and in the entry, it asks again."
        ]
        if isinstance(door, HttpDoor)
        else ["VS Code asks whether you trust the server when it first starts it."],
    )


def _json(door: Door) -> Form:
    entry = {"type": "stdio" if isinstance(door, StdioDoor) else "http"} | _plain(door, "${%s}")
    return Form(
        [
            JsonEntry("mcp.json", ("mcpServers", SERVER), entry),
            FirstText("AGENTS.md", loop_text()),
        ],
        [
            *_token_note(door, "your client", _REFUSED),
            "The form most clients read. Give a call at least 60 s"
            + (
                f"; where your client does not fill in ${{{TOKEN_VARIABLE}}}, name the variable in its"
                " own way."
                if isinstance(door, HttpDoor)
                else "."
            ),
        ],
    )


def _token_note(door: Door, name: str, without: str, more: str = "") -> list[str]:
    """Say where a client's token must be set and what it does without; over stdio there is none."""
    if isinstance(door, StdioDoor):
        return []
    return [
        f"Start {name} from a shell in which {TOKEN_VARIABLE} is set{more}: it takes the token from "
        f"there. Without it {without}."
    ]


def _plain(door: Door, reference: str, name: str = TOKEN_VARIABLE) -> dict[str, Any]:
    """Return the fields all JSON forms share; `reference` is how the client names a variable."""
    if isinstance(door, StdioDoor):
        return {"command": door.command, "args": door.args, "env": door.env}
    return {"url": door.url, "headers": _bearer(reference % name)}


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


_FORMS: dict[Client, Callable[[Door], Form]] = {
    "claude": _claude,
    "codex": _codex,
    "cursor": _cursor,
    "vscode": _vscode,
    "json": _json,
}
