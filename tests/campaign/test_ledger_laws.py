"""The ledger's laws under any interleaving of clients, servers, restarts and clock jumps."""

from itertools import accumulate

from ledger_machine import machines

STEPS = 10_000


def test_the_laws_hold_for_ten_thousand_steps_of_several_servers_on_one_campaign() -> None:
    made = accumulate(steps for _, steps in machines(seed=1))
    assert next(steps for steps in made if steps >= STEPS)
