"""`connect`: every client's form, files that keep what was in them, and the try afterwards."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Run
from server_campaigns import Place
from server_process import http_server

from kernelarc_mcp.connecting.address import remember, remembered, stopped
from kernelarc_mcp.connecting.changes import CannotChange, JsonEntry, TomlTable
from kernelarc_mcp.connecting.door import Door, HttpDoor, StdioDoor, http_door, stdio_door
from kernelarc_mcp.connecting.files import printed, written
from kernelarc_mcp.connecting.forms import CLIENTS, PROMPT, Client, form_for

STDIO = StdioDoor("/venv/bin/python", ["-m", "kernelarc_mcp"], {"KERNELARC_AGENT": "ada"})
HTTP = HttpDoor("http://127.0.0.1:8765/mcp", "rms-ada-0a1b2c")
SERVED = {"command": STDIO.command, "args": STDIO.args, "env": STDIO.env}


def reached(reference: str) -> dict[str, Any]:
    return {"url": HTTP.url, "headers": {"Authorization": f"Bearer {reference}"}}


FORMS: dict[Client, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # Claude Code: variables as ${NAME}; the type is needed, a timeout is in milliseconds.
    "claude": (
        ".mcp.json",
        {
            "mcpServers": {
                "kernelarc": {
                    "type": "stdio",
                    **SERVED,
                    "timeout": 600_000,
                    "alwaysLoad": True,
                }
            }
        },
        {
            "mcpServers": {
                "kernelarc": {
                    "type": "http",
                    **reached("${KERNELARC_TOKEN}"),
                    "timeout": 600_000,
                    "alwaysLoad": True,
                }
            }
        },
    ),
    # Codex: the variable's name instead of a header; timeouts in seconds.
    "codex": (
        ".codex/config.toml",
        {
            "mcp_servers": {
                "kernelarc": {
                    **SERVED,
                    "required": True,
                    "startup_timeout_sec": 60,
                    "tool_timeout_sec": 600,
                }
            }
        },
        {
            "mcp_servers": {
                "kernelarc": {
                    "url": HTTP.url,
                    "bearer_token_env_var": "KERNELARC_TOKEN",
                    "required": True,
                    "startup_timeout_sec": 60,
                    "tool_timeout_sec": 600,
                }
            }
        },
    ),
    # Gemini CLI: `url` would mean server-sent events; variables as $NAME; milliseconds.
    "gemini": (
        ".gemini/settings.json",
        {"mcpServers": {"kernelarc": {**SERVED, "timeout": 600_000}}},
        {
            "mcpServers": {
                "kernelarc": {
                    "httpUrl": HTTP.url,
                    "headers": {"Authorization": "Bearer $KERNELARC_TOKEN"},
                    "timeout": 600_000,
                }
            }
        },
    ),
    # Cursor: `type` is required for stdio; ${env:NAME} in url, headers, command, args and env.
    "cursor": (
        ".cursor/mcp.json",
        {"mcpServers": {"kernelarc": {"type": "stdio", **SERVED}}},
        {"mcpServers": {"kernelarc": reached("${env:KERNELARC_TOKEN}")}},
    ),
    # VS Code: `servers`, a required `type`, secrets through `inputs` of type promptString.
    "vscode": (
        ".vscode/mcp.json",
        {"servers": {"kernelarc": {"type": "stdio", **SERVED}}},
        {
            "servers": {
                "kernelarc": {"type": "http", **reached("${input:kernelarc-token-rms-ada-0a1b2c}")}
            },
            "inputs": [
                {
                    "type": "promptString",
                    "id": "kernelarc-token-rms-ada-0a1b2c",
                    "description": "KernelArc token of rms-ada-0a1b2c",
                    "password": True,
                }
            ],
        },
    ),
    "json": (
        "mcp.json",
        {"mcpServers": {"kernelarc": {"type": "stdio", **SERVED}}},
        {"mcpServers": {"kernelarc": {"type": "http", **reached("${KERNELARC_TOKEN}")}}},
    ),
}


WITHOUT: dict[Client, str] = {
    "claude": "Without it Claude Code warns `Missing environment variables: KERNELARC_TOKEN`.",
    "codex": "Without it Codex refuses to start: `required MCP servers failed to initialize: ",
    "gemini": "Without it Gemini CLI says only `Disconnected` of the server.",
}
"""What each client does without a token, as it was seen; of the others only the server is known."""


def read(path: str, text: str) -> Any:
    return tomllib.loads(text) if path.endswith(".toml") else json.loads(text)


@pytest.fixture
def served(place: Place, silent_guard: str) -> Iterator[str]:
    """Return the URL of a server of `place`."""
    with http_server(place.folder, silent_guard) as (_, url):
        yield url


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_is_told_in_its_documented_form(client: Client, tmp_path: Path) -> None:
    path, over_stdio, over_http = FORMS[client]
    for door, expected in ((STDIO, over_stdio), (HTTP, over_http)):
        form = form_for(client, door)
        shown_path, shown = printed(form)
        assert (shown_path, read(path, shown)) == (path, expected)
        project = tmp_path / type(door).__name__
        project.mkdir()
        states = written(form, project)
        assert {state for _, state in states} == {"written"}
        assert (project / path).read_text() == shown
        assert {state for _, state in written(form, project)} == {"unchanged"}


@pytest.mark.parametrize("client", CLIENTS)
def test_the_skill_lies_where_the_client_looks(client: Client, tmp_path: Path) -> None:
    written(form_for(client, STDIO), tmp_path)
    place = {
        "claude": ".claude/skills/kernelarc/SKILL.md",
        "json": "AGENTS.md",
    }.get(client, ".agents/skills/kernelarc/SKILL.md")
    assert "`get_brief`" in (tmp_path / place).read_text()


def test_codex_is_told_on_its_command_line_what_its_file_says() -> None:
    _, over_stdio, over_http = FORMS["codex"]
    doors: list[tuple[Door, dict[str, Any]]] = [(STDIO, over_stdio), (HTTP, over_http)]
    for door, table in doors:
        (note,) = [note for note in form_for("codex", door).notes if " -c " in note]
        words = shlex.split(note.partition("Headless, trusted or not: ")[2])
        assert tomllib.loads(words[words.index("-c") + 1]) == table


def test_claude_waits_for_a_server_that_it_must_start(tmp_path: Path) -> None:
    for door, waits in ((STDIO, True), (HTTP, False)):
        written(form_for("claude", door), tmp_path)
        path = tmp_path / ".claude/settings.local.json"
        settings = json.loads(path.read_text())
        assert settings["enabledMcpjsonServers"] == ["kernelarc"]
        assert (settings.get("env") == {"MCP_CONNECT_TIMEOUT_MS": "60000"}) == waits
        path.unlink()


def test_a_server_is_started_by_absolute_paths_from_any_folder(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.folder.parent)
    monkeypatch.setenv("KERNELARC_GUARD_PYTHON", "/guard/python")
    monkeypatch.delenv("CXX", raising=False)
    door = stdio_door(Path(place.folder.name), "ada")
    assert Path(door.command).is_absolute() and door.args[-1] == str(place.folder.resolve())
    # A folder of kernels may hold a numpy.py of its own.
    assert door.args[:3] == ["-P", "-m", "kernelarc_mcp"]
    assert door.env["KERNELARC_AGENT"] == "ada"
    assert door.env["KERNELARC_GUARD_PYTHON"] == "/guard/python"
    assert "CXX" not in door.env


def test_what_a_file_held_before_stays(tmp_path: Path) -> None:
    files = {
        ".vscode/mcp.json": {
            "servers": {"other": {"url": "x"}, "kernelarc": {"old": True}},
            "inputs": [{"id": "kernelarc-token", "old": True}, {"id": "another"}],
        },
        ".mcp.json": {"mcpServers": {"other": {"command": "x"}}, "more": [1]},
        ".claude/settings.local.json": {"enabledMcpjsonServers": ["other"], "model": "m"},
    }
    for path, held in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(json.dumps(held))
    for client in ("vscode", "claude"):
        written(form_for(client, HTTP), tmp_path)
    now = {path: json.loads((tmp_path / path).read_text()) for path in files}
    code = now[".vscode/mcp.json"]
    assert code["servers"]["other"] == {"url": "x"} and code["servers"]["kernelarc"]["url"]
    assert [row["id"] for row in code["inputs"]] == ["another", "kernelarc-token-rms-ada-0a1b2c"]
    assert now[".mcp.json"]["mcpServers"]["other"] and now[".mcp.json"]["more"] == [1]
    assert now[".claude/settings.local.json"] == {
        "enabledMcpjsonServers": ["other", "kernelarc"],
        "model": "m",
    }


def test_codex_settings_keep_their_order_and_comments(tmp_path: Path) -> None:
    before = (
        'model = "m"  # mine\n\n[mcp_servers.kernelarc]\ncommand = "old"\n'
        '[mcp_servers."kernelarc".env]\nOLD = "1"\n\n# also mine\n[mcp_servers.kernelarc2]\nurl = "x"\n'
    )
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text(before)
    written(form_for("codex", STDIO), tmp_path)
    text = (tmp_path / ".codex/config.toml").read_text()
    assert text.startswith('model = "m"  # mine\n')
    assert "\n# also mine\n[mcp_servers.kernelarc2]\n" in text
    servers = tomllib.loads(text)["mcp_servers"]
    assert servers["kernelarc2"] == {"url": "x"}
    assert servers["kernelarc"]["env"] == {"KERNELARC_AGENT": "ada"}
    assert servers["kernelarc"]["command"] == "/venv/bin/python"


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { kernelarc = { url = "x" } }\n',
        '[mcp_servers]\nkernelarc.url = "x"\n',
        'text = """\n[mcp_servers.kernelarc]\n"""\nlast = 1\n',
        "not toml",
    ],
)
def test_codex_settings_that_cannot_be_changed_safely_are_left(text: str) -> None:
    table = TomlTable("config.toml", ("mcp_servers", "kernelarc"), {"url": "y"})
    with pytest.raises(CannotChange, match=r"config\.toml"):
        table.apply(text)


@pytest.mark.parametrize(
    "odd", ['a "quoted" \\path', "tab\tand\nline", "\x7f\x01", "日本 \U0001f600"]
)
def test_odd_values_survive_toml(odd: str) -> None:
    table = TomlTable("c", ("s", "k"), {"command": odd, "args": [odd], "env": {"A": odd}})
    assert tomllib.loads(table.apply(""))["s"]["k"] == {
        "command": odd,
        "args": [odd],
        "env": {"A": odd},
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [('{"a": 1} // mine', "comments"), ("[1]", "object"), ('{"servers": 3}', "servers")],
)
def test_a_json_file_that_would_lose_something_is_refused_and_nothing_is_written(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode/mcp.json").write_text(text)
    with pytest.raises(CannotChange, match=said):
        written(form_for("vscode", HTTP), tmp_path)
    assert (tmp_path / ".vscode/mcp.json").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == [".vscode"]


def test_a_users_own_agents_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("mine\n")
    states = {path.name: state for path, state in written(form_for("json", STDIO), tmp_path)}
    assert states["AGENTS.md"] == "left alone"
    assert (tmp_path / "AGENTS.md").read_text() == "mine\n"


def test_an_entry_goes_into_a_new_document() -> None:
    assert json.loads(JsonEntry("f", ("a", "b"), 1).apply("")) == {"a": {"b": 1}}


def test_over_stdio_the_command_that_was_written_is_tried(
    run: Run, place: Place, silent_guard: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELARC_GUARD_PYTHON", silent_guard)
    project = ("--project", str(tmp_path))
    arguments = ("connect", str(place.folder), "--client", "codex", "--agent", "bob", "--write")
    status, out, err = run(*arguments, *project)
    assert status == 0, err
    assert ".codex/config.toml" in out and ".agents/skills/kernelarc/SKILL.md" in out
    assert re.search(
        r"protocol 2025-11-25 \(this client begins with .*\), \d+ tools \(get_brief, get_strategy_lens",
        err,
    )
    assert "get_brief: bob on doubling (cpu)" in err and "4 attempts left" in err


def test_over_http_the_address_is_tried_and_the_token_is_written_nowhere(
    run: Run, place: Place, served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELARC_TOKEN", place.tokens["ada"])
    project = tmp_path / "project"
    project.mkdir()
    for client in CLIENTS:
        status, out, err = run(
            *("connect", str(place.folder), "--client", client, "--url", served),
            *("--write", "--project", str(project)),
        )
        assert status == 0, err
        assert "get_brief: ada on doubling (cpu)" in err
        assert place.tokens["ada"] not in out + err
    for path in project.rglob("*"):
        assert path.is_dir() or place.tokens["ada"] not in path.read_text()


def test_connect_finds_a_campaign_wherever_it_is_served_and_says_when_it_no_longer_is(
    run: Run, place: Place, silent_guard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = ("connect", str(place.folder), "--client", "json", "--http")
    monkeypatch.delenv("KERNELARC_TOKEN", raising=False)
    status, _, err = run(*base)
    assert status == 0 and "No server of this campaign has noted the address" in err, err
    with http_server(place.folder, silent_guard) as (_, url):
        monkeypatch.setenv("KERNELARC_TOKEN", place.tokens["ada"])
        status, out, err = run(*base)
        assert status == 0 and "get_brief: ada on doubling" in err, err
        assert json.loads(out)["mcpServers"]["kernelarc"]["url"] == url
    again = f"serve {place.folder} --http {url.removeprefix('http://').removesuffix('/mcp')}`"
    status, _, err = run(*base)
    assert status == 1 and "it was last served there: start it again with" in err, err
    assert again in err
    monkeypatch.delenv("KERNELARC_TOKEN")
    status, _, err = run(*base)
    assert status == 0 and f"The server at {url} has stopped" in err and again in err
    # One that was killed has said nothing; the address is still the best there is.
    remember(place.folder, "http://0.0.0.0:9/mcp")
    status, out, err = run(*base)
    assert status == 0 and "http://127.0.0.1:9/mcp" in out and "stopped" not in err
    stopped(place.folder, "http://127.0.0.1:8/mcp")
    noted = remembered(place.folder)
    assert noted is not None and not noted.stopped, "another server's note"


def test_a_second_server_that_ends_or_dies_leaves_the_address_of_the_first(
    run: Run, place: Place, silent_guard: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELARC_TOKEN", place.tokens["ada"])
    base = ("connect", str(place.folder), "--client", "json", "--http")

    def reached_at() -> str:
        status, out, err = run(*base)
        assert status == 0 and "get_brief: ada on doubling" in err, err
        return str(json.loads(out)["mcpServers"]["kernelarc"]["url"])

    with http_server(place.folder, silent_guard) as (_, first):
        with http_server(place.folder, silent_guard) as (_, second):
            assert reached_at() == second
        assert reached_at() == first
        with http_server(place.folder, silent_guard) as (process, _):
            process.kill()
            process.wait()
        assert reached_at() == first
        remember(place.folder, "http://127.0.0.1:9/mcp")
        stopped(place.folder, first)
        noted = remembered(place.folder)
        assert noted is not None and (noted.url, noted.stopped) == ("http://127.0.0.1:9/mcp", False)
        stopped(place.folder, noted.url)
    write = ("--write", "--project", str(tmp_path))
    status, _, err = run(*base, *write)
    assert status == 1 and "not connected: nobody answers at http://127.0.0.1:9/mcp" in err
    assert f"{tmp_path / 'mcp.json'} names this address all the same." in err
    monkeypatch.delenv("KERNELARC_TOKEN")
    status, _, err = run(*base, *write)
    assert status == 0 and "has stopped" in err and "names this address all the same." in err
    assert "all the same" not in run(*base)[2]


def test_two_campaigns_never_share_an_input_of_vs_code(place: Place, tmp_path: Path) -> None:
    doors = [
        http_door("http://127.0.0.1:1", folder, "rms", agent)
        for folder, agent in ((tmp_path / "a", "ada"), (tmp_path / "b", "ada"), (tmp_path, "bob"))
    ]
    assert {door.url for door in doors} == {"http://127.0.0.1:1/mcp"}, "a path was added"
    for door in doors:
        written(form_for("vscode", door), tmp_path)
    (asked,) = json.loads((tmp_path / ".vscode/mcp.json").read_text())["inputs"]
    assert asked["id"] == f"kernelarc-token-{doors[-1].holder}"
    assert len({door.holder for door in doors}) == 3


def test_the_first_prompt_is_told_and_gemini_may_be_trusted(
    run: Run, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERNELARC_TOKEN", raising=False)
    base = ("connect", str(place.folder), "--http", "--agent", "ada", "--client")
    stdio = ("connect", str(place.folder), "--agent", "ada", "--no-check", "--client")
    for client in CLIENTS:
        status, out, err = run(*base, client)
        assert status == 0 and f"First prompt for the agent: {PROMPT}" in err
        assert '"…"' not in err and "trust" not in out
        if client != "vscode":
            assert "from a shell in which KERNELARC_TOKEN is set" in err
            assert WITHOUT.get(client, "Without it the server answers with status 401.") in err
        status, _, err = run(*stdio, client)
        assert status == 0 and "TOKEN" not in err, err
    status, out, _ = run(*base, "gemini", "--trust")
    assert status == 0 and json.loads(out)["mcpServers"]["kernelarc"]["trust"] is True
    assert run(*base, "claude", "--trust")[0] == 2


def test_a_connection_that_does_not_work_is_explained(
    run: Run, place: Place, served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(place.folder)
    base = ("connect", folder, "--client", "claude", "--project", str(tmp_path))
    monkeypatch.delenv("KERNELARC_TOKEN", raising=False)
    status, out, err = run(*base, "--url", served)
    assert status == 0 and json.loads(out) and "KERNELARC_TOKEN is not set" in err
    code = ("connect", folder, "--client", "vscode", "--http")
    status, out, err = run(*code)
    assert (status, out) == (2, "") and "say which agent the client is (ada, bob)" in err
    assert run(*base, "--url", served, "--check")[0] == 1, "nothing was tried, and it was asked for"
    monkeypatch.setenv("KERNELARC_TOKEN", place.tokens["bob"])
    for url, said in (
        ("http://127.0.0.1:9/mcp", f"serve {folder} --http 127.0.0.1:9`, or give its address"),
        (served.replace("/mcp", "/elsewhere"), "its path is /mcp"),
    ):
        status, _, err = run(*base, "--url", url)
        assert status == 1 and said in err, err
    for arguments, said in (
        (("--http", "--agent", "ada"), "is bob's token, not ada's"),
        (("--stdio",), "say which agent the client is (ada, bob)"),
        (("--agent", "eve"), "there is no agent 'eve' (ada, bob)"),
        (("--agent", "bob", "--project", str(tmp_path / "gone")), "is no folder"),
    ):
        status, out, err = run(*base, *arguments)
        assert (status, out) == (2, "")
        assert said in err.strip().splitlines()[-1]
    monkeypatch.setenv("KERNELARC_TOKEN", "ka_wrong")
    status, _, err = run(*base, "--http")
    assert status == 2 and "is no token of the campaign" in err
