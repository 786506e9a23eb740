"""`status`: where a campaign stands now."""

from kernelarc_mcp.cli.console import print_json
from kernelarc_mcp.cli.options import CampaignDir, Json
from kernelarc_mcp.cli.summary import print_summary
from kernelarc_mcp.report import read_report


def status(folder: CampaignDir, as_json: Json = False) -> None:
    """Say where a campaign stands: board, agents, queue."""
    report = read_report(folder)
    if as_json:
        print_json(report.model_dump(mode="json", exclude={"submissions", "calibration"}))
    else:
        print_summary(report)
