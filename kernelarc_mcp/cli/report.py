"""`report`: everything that happened in a campaign."""

from kernelarc_mcp.cli.console import out, print_json
from kernelarc_mcp.cli.options import CampaignDir, Json
from kernelarc_mcp.cli.summary import print_submissions, print_summary
from kernelarc_mcp.report import read_report


def report(folder: CampaignDir, as_json: Json = False) -> None:
    """Print a campaign's whole report: board, agents, every submission, what was spent."""
    found = read_report(folder)
    if as_json:
        print_json(found)
        return
    print_summary(found)
    print_submissions(found)
    if found.calibration is not None:
        noise = found.calibration
        out.print(
            f"Calibration of {noise.at}: {noise.pairs} pairs of the seed with itself, "
            f"mean {noise.mean:+.3f} %, a confirmation's pair below {noise.sd_confirm:.3f} %"
        )
    left = ", ".join(f"{name or 'pool'} {left:.4f}" for name, left in found.wealth.items())
    out.print(f"Error budget left: {left}", markup=False)
    out.print(
        f"Device time {found.device_seconds:.1f} s; reported by clients: {found.tokens} tokens, "
        f"{found.cost:.2f} USD"
    )
