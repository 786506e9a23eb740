"""Long lessons: the memory is shown in pages short enough for every client."""

from pathlib import Path

from host_places import kernel, opened


def test_lessons_that_do_not_fit_one_answer_are_on_the_pages_after_it(folder: Path) -> None:
    with opened(folder) as host:
        for number in range(10):
            ticket = host.submit("ada", source=kernel(number), language="fortran").ticket
            host.conclude("ada", "trap", f"{number}", f"{number} {'why ' * 299}", ticket)
        page = host.memory("ada")
        seen = [conclusion.summary for conclusion in page.conclusions]
        pages = 1
        while page.next_offset is not None:
            assert len(page.model_dump_json()) < 10_000
            page = host.memory("ada", offset=page.next_offset)
            seen += [conclusion.summary for conclusion in page.conclusions]
            pages += 1
    assert pages > 1 and seen == [str(number) for number in reversed(range(10))]
