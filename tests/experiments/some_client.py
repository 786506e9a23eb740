"""A client for experiments of tests: submits its attempts one by one, and can be told to stop short.

With a mark it waits for good once it has submitted once, unless the mark is there already.
"""

import os
import sys
from pathlib import Path

import anyio

clients, url, agent, seed, attempts, mark = sys.argv[1:]
sys.path.insert(0, clients)

from tuning.connection import over_http  # noqa: E402


async def main() -> None:
    async with over_http(url, os.environ["KERNELARC_TOKEN"]) as campaign:
        state = (await campaign.call("get_brief"))["state"]
        for number in range(state["attempts_used"], int(attempts)):
            plan = f"gain:{10 + int(seed) % 7}" if number == 0 else "wrong"
            source = f"import torch\n\n\ndef run(x, weight):\n    return x * {number}\n\n\n"
            view = await campaign.call(
                "submit_candidate",
                source=source + f"PLAN = {plan!r}\n",
                filename="kernel.py",
                language="python",
                summary=f"attempt {number}",
                request_id=f"{agent}-{number}",
            )
            await campaign.judged(view)
            if mark and not Path(mark).exists():
                Path(mark).touch()
                await anyio.sleep_forever()


anyio.run(main)
