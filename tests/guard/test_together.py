"""Calls that several runners make at once, which nothing times."""

from pathlib import Path

from laboratory import Laboratory

from kernelarc_guard import control

RIGHT = "def run(x, scale):\n    return x * scale\n"
ENDS = "import os\ndef run(x, scale):\n    os._exit(3)\n"
LEAVES_A_CHILD = (
    "import os, time\ndef run(x, scale):\n    if os.fork() == 0:\n        time.sleep(60)\n"
    "    return x * scale\n"
)


def test_each_runner_has_its_own_answer_and_goes_on(tmp_path: Path) -> None:
    with Laboratory(tmp_path) as lab:
        sources = (RIGHT, ENDS, LEAVES_A_CHILD, RIGHT)
        arms = [lab.start(source, slot=slot) for slot, source in enumerate(sources)]
        for arm in arms:
            arm._page.order(control.Order(1, control.RUN, 0))
        runners = [arm._runner for arm in arms]
        lab.nursery.begin_together(runners, 20.0)
        right, ended, child, other = lab.nursery.finish_together(runners)
        assert right["ns"] > 0 and other["ns"] > 0
        assert not {"fault", "strangers", "early"} & (right.keys() | other.keys())
        assert ended["fault"] == "ended" and "status 3" in ended["how"]
        assert child["strangers"] == 1
        for arm in (arms[0], arms[3]):
            assert arm._page.read_report()[:2] == (1, control.DONE)
            lab.call(arm)
        for arm in arms:
            arm.close()
        assert lab.notes == ["left_behind: 1 processes it started were killed at its end"]


def test_nothing_else_is_answered_while_runners_are_at_work_together(tmp_path: Path) -> None:
    slow = "import time\ndef run(x, scale):\n    time.sleep(0.3)\n    return x * scale\n"
    with Laboratory(tmp_path) as lab:
        arms = [lab.start(slow, slot=slot) for slot in range(2)]
        for arm in arms:
            arm._page.order(control.Order(1, control.RUN, 0))
        lab.nursery.begin_together([arm._runner for arm in arms], 20.0)
        arms[0].close()  # whose question waits for the answer that nobody fetched
        lab.call(arms[1])
        arms[1].close()
