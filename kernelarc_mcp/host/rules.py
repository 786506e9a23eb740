"""A campaign's rules in words, for `get_brief`."""

from kernelarc_mcp.host.envelope import MAX_BYTES, MAX_FILES
from kernelarc_mcp.host.gate import MAX_SIMILARITY
from kernelarc_mcp.host.settings import CampaignSettings
from kernelarc_memory import LESSON_CAP, SUMMARY_CAP


def rules_of(settings: CampaignSettings, weighted: bool) -> list[str]:
    """Return the rules; `weighted` where workloads do not count alike."""
    readable = {
        "always": "view_snapshot shows every submission at any time.",
        "drafting": "view_snapshot shows other agents' submissions only while you draft.",
        "never": "view_snapshot shows your own submissions and your branch only.",
    }[settings.snapshots]
    mean = "weighted by `weight`" if weighted else "each counting alike"
    return [
        "Every well-formed submission costs one attempt, whatever becomes of it; the same"
        " request_id again costs nothing. There is no free trial: compile and check on a machine of"
        " your own first, where you have one. What is judged is the text you send; nothing is read"
        " from `workspace`.",
        "REJECT: refused before it was measured, r stays. KEEP: confirmed faster than the record,"
        " r is 0. ACCEPT: close to the record, it becomes your branch, r + 1. REVERT: wrong, or"
        " not shown close, r + 1, and your workspace goes back to your branch.",
        "Faster means: the mean over workloads of ln(record's time / candidate's time),"
        f" {mean}; both run side by side in fresh processes, caches cold. KEEP: more than"
        f" {settings.parameters.delta:g} % faster on the whole, and no workload shown more than"
        f" {settings.parameters.band:g} % slower, proven by fresh measurements. `calibration` says"
        " which gain can be proven here (resolution_percent; null until measured): make larger"
        " steps than that.",
        "Every timed output is checked, on new inputs, some of them unannounced and of other kinds."
        " Results kept from earlier calls, work left for later, answers for known inputs only and"
        " lower precision than `correctness` allows end as REVERT.",
        "Not allowed (REJECT policy_forbidden): network, other processes' memory, killing processes,"
        " timers and signals that wake a process, setting device clocks, raw system calls, walking"
        " frames, replacing parts of the evaluator, torch switched to less than float32. The sandbox"
        " shows the system, Python with torch, the compiler and a scratch folder. Subprocesses must"
        " be gone and threads idle when run returns; at most `limits.threads` may compute.",
        f"r counts ACCEPT and REVERT since your last KEEP or draft. At r = {settings.r_draft} you must"
        " DRAFT: change the algorithm, DSL or layout, say which, and share at most"
        f" {MAX_SIMILARITY:.0%} of your branch's text. {readable}",
        f"At most {MAX_FILES} files and {MAX_BYTES // 1024} KiB of sources. The same source again,"
        " also with other comments or formatting, is REJECT duplicate.",
        f"Conclusions: summary up to {SUMMARY_CAP} characters, lesson up to {LESSON_CAP}; a win"
        " cites a KEEP or ACCEPT of yours, a trap a REJECT or REVERT of yours.",
    ]
