"""What a device's clock needs: the rule's parameters to start from."""

from kernelarc_guard.decide import Parameters


def default_parameters(device: str) -> Parameters:
    """Return the rule's parameters for a device.

    A block costs about half a second on a CPU, nearly all of it inputs, eviction and checks, and a
    fresh pair a tenth: fewer blocks in more pairs resolve more per second there.
    """
    if device == "cpu":
        return Parameters(blocks_screen=2, blocks_confirm=3)
    return Parameters()
