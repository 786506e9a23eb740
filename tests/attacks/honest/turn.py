# An honest kernel for turn.
def run(x):
    return x.t().contiguous()
