"""The NVIDIA backend: everything that calls CUDA, imported only where a device is `cuda:N`."""
