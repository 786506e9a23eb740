"""KernelArc's judge: measures and checks solutions in processes of its own and decides the verdict.

Run as ``python -I -m kernelarc_guard``. Only the modules that name it in their header import torch;
the models, readers, policy and decision rule here are light and are also used by the server.
"""
