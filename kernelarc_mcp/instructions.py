"""What a client shows its model when it connects."""

INSTRUCTIONS = """\
KernelArc optimises one kernel. You write candidates; the server's guard judges them and alone \
decides.
Order: get_brief (first, always), get_strategy_lens, read_memory, then repeat submit_candidate -> \
wait_submission (while state is not "done") -> obey state_after.directive; profile_candidate where \
you must know what holds a right one up; write_conclusion after a lesson; view_leaderboard and \
view_snapshot (sources; at first the seed's) when you need them.
Every answer has next_step: in doubt, do that.

The brief says what to write, in which languages, how it is judged and what is not allowed. \
Resources: kernelarc://verdicts is how to read an answer, with every reason code; kernelarc://guide \
is how to make it fast, with courses and short templates that compile.

Directives, after every verdict:
- CONTINUE: improve on your branch.
- RESTORE: your last try was reverted; start again from your branch (view_snapshot pages it).
- DRAFT: you are on a plateau. Take your new lens and submit something that differs in algorithm, \
DSL or layout from your branch (declare which) and shares at most 80 % of its text.
- STOP: your attempts are spent. Reading and conclusions stay allowed.

Verdicts: REJECT (refused before its values were looked at), REVERT (wrong, slower, or not shown \
close to the record), ACCEPT (correct and close: your branch now), KEEP (proven faster: the record \
now). Each costs one attempt; only ACCEPT and REVERT bring the plateau nearer (r). A call that gets \
no ticket costs nothing, nor does a repeated request_id; the same source again is a REJECT.
Timing is done by the guard on fresh inputs, in processes of its own, and every timed output is \
checked: returning early, caching results or special-casing inputs does not pay.
"""
"""Under 2,000 characters (clients cut), the order of tools within the first 500."""
