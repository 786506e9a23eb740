"""E5: what NVML lets a process do that is root only in a user namespace of its own.

Asks to set the persistence mode to what it already is: nothing can change.
"""

import ctypes
import os
from ctypes import byref, c_int, c_void_p

NO_PERMISSION = 4


def main() -> None:
    """Print what the call returned."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlErrorString.restype = ctypes.c_char_p
    print("init", nvml.nvmlInit_v2(), end="; ")
    handle, mode = c_void_p(), c_int()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(handle))
    print("read", nvml.nvmlDeviceGetPersistenceMode(handle, byref(mode)), mode.value, end="; ")
    status = nvml.nvmlDeviceSetPersistenceMode(handle, mode)
    print(f"uid {os.geteuid()}: set to the same: {status} {nvml.nvmlErrorString(status).decode()}")


if __name__ == "__main__":
    main()
