"""A timeline as text: what it comes to first, then what ran, in few lines."""

from typing import Final

from kernelarc_guard.kernel_names import short_name
from kernelarc_guard.timeline_model import Dimensions, Part, Timeline

_NAME: Final = 44
_GAP_US: Final = 1.0
"""A gap before an activity that is shorter, or a small part of the span, is in the largest one's number alone."""
_GAP_SHARE: Final = 0.1


def timeline_lines(timeline: Timeline, most: int) -> list[str]:
    """Return a timeline's lines, with at most `most` for what ran; what they leave out is said."""
    lines = [f"timeline (CUPTI, in the solution's own process: decides nothing): {timeline.said}"]
    if not timeline.parts:
        return lines
    lines.append(f"  {_shape(timeline)}")
    shown = timeline.parts
    if len(shown) > most:
        longest = sorted(shown, key=lambda one: -one.us)[:most]
        shown = sorted(longest, key=lambda one: one.at_us)
    lines += [f"  {_part(one, timeline)}" for one in shown]
    whole = timeline.kernels + timeline.copies + timeline.fills
    if missing := whole - sum(one.count for one in shown):
        lines.append(f"  and {missing} more of its kernels, copies and fills")
    if timeline.left_out:
        lines.append(f"  {timeline.left_out} more were recorded and are in no number here")
    return lines


def _shape(timeline: Timeline) -> str:
    launches = "1 launch" if timeline.launches == 1 else f"{timeline.launches} launches"
    said = f"busy {timeline.busy_us:.1f} of {timeline.span_us:.1f} us, {launches}"
    if timeline.streams > 1:
        said += f" on {timeline.streams} streams"
    if timeline.largest_gap_us > 0:
        said += f", largest gap {timeline.largest_gap_us:.1f} us"
    if not timeline.queued:
        said += "; not launched ahead: it waits for the device, or launches too much"
    elif timeline.plain_span_us is not None:
        said += f"; launched ahead, as when timed (without that {timeline.plain_span_us:.1f} us)"
    if timeline.overhead_us is not None:
        said += (
            f"; {timeline.overhead_us:.1f} us from the first launch to its work, on an idle device"
        )
    return said


def _part(one: Part, timeline: Timeline) -> str:
    times = "" if one.count == 1 else f" in {one.count}"
    said = f"+{one.at_us:.1f}: {one.us:.1f} us{times} {short_name(one.name, _NAME)}"
    if one.grid is not None and one.block is not None:
        said += f" {_dimensions(one.grid)} of {_dimensions(one.block)}"
    if one.gap_us >= max(_GAP_US, _GAP_SHARE * timeline.span_us):
        said += f", after a gap of {one.gap_us:.1f}"
    if timeline.streams > 1:
        said += f", stream {one.stream}"
    return said


def _dimensions(sizes: Dimensions) -> str:
    """Return a grid or block without the ones at its end: `64x2`."""
    kept = list(sizes)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(map(str, kept))
