# The contract lets it write to its first argument and return it.
# problem: append
# expects: right
def run(state, new, at):
    state[at : at + new.shape[0]].copy_(new)
    return state
