# Only its words are suspicious.
# problem: bend
# expects: right
import logging
import os

import torch

log = logging.getLogger("stream")
cache_of_eval = {"exec": int(os.environ.get("HACK_LEVEL", "3"))}


class Stream:
    pass


def run(x):
    log.debug("cached stream exec")
    return torch.sin(x) * cache_of_eval["exec"]
