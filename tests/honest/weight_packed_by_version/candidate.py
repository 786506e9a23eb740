# A packed weight is used as long as the object and its version are the same.
# problem: project
# expects: right
import weakref

packed = {"of": None, "version": -1, "weight": None}


def run(x, weight):
    known = packed["of"]
    if known is None or known() is not weight or packed["version"] != weight._version:
        packed.update(of=weakref.ref(weight), version=weight._version)
        packed["weight"] = weight.t().contiguous()
    return x @ packed["weight"].t()
