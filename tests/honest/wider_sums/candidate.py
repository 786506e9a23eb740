# 16 bits are declared; sums are wider.
# problem: project_narrow
# expects: right
def run(x, weight):
    return (x.float() @ weight.float()).bfloat16()
