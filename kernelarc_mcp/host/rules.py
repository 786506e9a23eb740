"""A campaign's rules in words, for `get_brief`."""

from kernelarc_mcp.host.envelope import MAX_BYTES, MAX_FILES
from kernelarc_mcp.host.gate import MAX_SIMILARITY
from kernelarc_mcp.host.settings import CampaignSettings


def rules_of(settings: CampaignSettings, weighted: bool) -> list[str]:
    """Return the rules; `weighted` where workloads do not count alike."""
    readable = {
        "always": "view_snapshot shows every submission at any time.",
        "drafting": "view_snapshot shows other agents' submissions only while you draft.",
        "never": "view_snapshot shows your own submissions and your branch only.",
    }[settings.snapshots]
    mean = "weighted by the workload's `weight`" if weighted else "each counting alike"
    band, delta = settings.parameters.band, settings.parameters.delta
    return [
        "Cost: what gets a ticket costs one attempt, whatever becomes of it, also with a wrong language"
        " or path; an error without a ticket, and the same request_id again, cost nothing. There is no"
        " free trial: compile and check on a machine of your own first, where you have one. What is"
        " judged is the text you send; `workspace` is never read.",
        "Verdicts: REJECT: refused before its values were looked at, r stays. KEEP: confirmed faster"
        f" than the record, r is 0. ACCEPT: shown no more than {band:g} % slower than the record, or"
        " a gain that was not proven; it becomes your branch, r + 1. REVERT: wrong, slower or not"
        " shown close, r + 1, and your branch stays.",
        "Faster: the mean over workloads of ln(record's time / candidate's time),"
        f" {mean}; both run side by side in fresh processes, caches cold. `record_us`, and"
        " `reference_us` as a line to beat, are medians, null until measured. KEEP: proven more than"
        f" {delta:g} % faster on the whole, and no workload shown more than {band:g} % slower."
        " `calibration` (measured before the first verdict, null until then) says which gain can be"
        " proven here, resolution_percent (make larger steps), and in `rulers` what the device reaches.",
        "REVERT, since every timed output is checked on new inputs: results kept from earlier calls,"
        " work left for later, answers for known inputs only, less precision than `correctness`"
        " allows.",
        "REJECT where the very first call shows it, REVERT where a later one does: writing to an input"
        " or beside a buffer, outputs that share memory, a limit passed. REVERT: a child alive after"
        " run, more than `limits.threads` computing. Every code: kernelarc://verdicts.",
        "REJECT policy_forbidden: network, other processes' memory, killing processes, timers and"
        " signals that wake a process, setting device clocks, raw system calls, walking frames,"
        " replacing parts of the guard, torch switched to less than float32. The sandbox shows the"
        " system, Python with torch, the compiler and a scratch folder.",
        f"r counts ACCEPT and REVERT since your last KEEP or draft. At r = {settings.r_draft} you must"
        " DRAFT: against your branch (`seed` until you have one) change the algorithm, DSL or layout,"
        f" say which, and share at most {MAX_SIMILARITY:.0%} of its runs of five tokens. A right draft"
        " becomes your branch whatever its speed. Right or wrong, it sets r to 0; after a REJECT it is"
        f" still due. {readable}",
        f"At most {MAX_FILES} files and {MAX_BYTES // 1024} KiB of sources. The same source again,"
        " also with other comments or formatting, is REJECT duplicate.",
    ]
