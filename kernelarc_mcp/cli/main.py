"""Entry point of the command line."""

import sys

import typer

from kernelarc_guard.problem import ProblemError
from kernelarc_guard.solution import SolutionError
from kernelarc_mcp import __version__
from kernelarc_mcp.cli.agent import agent_app
from kernelarc_mcp.cli.backup import backup, restore
from kernelarc_mcp.cli.calibrate import calibrate
from kernelarc_mcp.cli.connect import connect
from kernelarc_mcp.cli.console import USER_ERROR, UserError, err, one_line
from kernelarc_mcp.cli.convert import convert
from kernelarc_mcp.cli.dashboard import dashboard
from kernelarc_mcp.cli.demo import demo
from kernelarc_mcp.cli.doctor import doctor
from kernelarc_mcp.cli.evaluate import evaluate
from kernelarc_mcp.cli.experiment import experiment
from kernelarc_mcp.cli.export import export
from kernelarc_mcp.cli.new import new
from kernelarc_mcp.cli.problems import problems
from kernelarc_mcp.cli.profile import profile
from kernelarc_mcp.cli.report import report
from kernelarc_mcp.cli.reproduce import reproduce
from kernelarc_mcp.cli.score import score
from kernelarc_mcp.cli.serve import serve
from kernelarc_mcp.cli.status import status
from kernelarc_mcp.cli.token import token_app
from kernelarc_mcp.cli.usage import usage
from kernelarc_mcp.cli.verify import verify
from kernelarc_mcp.cli.worker import worker
from kernelarc_mcp.host.errors import HostError
from kernelarc_mcp.scores.bounds import BoundsError

_USER_ERRORS = (UserError, HostError, ProblemError, SolutionError, BoundsError)

app = typer.Typer(
    name="kernelarc-mcp",
    help="Many coding agents optimise one kernel together, judged by a guard.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(new)
app.command()(serve)
app.command(context_settings={"allow_extra_args": True})(worker)
app.command()(connect)
app.command()(status)
app.command()(dashboard)
app.command()(report)
app.command()(verify)
app.command()(backup)
app.command()(restore)
app.command()(evaluate)
app.command()(calibrate)
app.command()(score)
app.command()(profile)
app.add_typer(agent_app, name="agent")
app.add_typer(token_app, name="token")
app.command()(usage)
app.command()(problems)
app.command()(convert)
app.command()(export)
app.command()(reproduce)
app.command()(experiment)
app.command()(doctor)


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main() -> None:
    """Run the command line; a user's mistake is one line on standard error and status 2."""
    try:
        app()
    except _USER_ERRORS as error:
        err.print(f"kernelarc-mcp: {one_line(error)}", markup=False)
        sys.exit(USER_ERROR)
