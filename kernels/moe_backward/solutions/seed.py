"""Expert by expert, each found by a search through all routes; its weights' gradients are written once."""

import torch


def run(
    grad_output,
    hidden_states,
    expert_ids,
    routing_weights,
    gate_weight,
    up_weight,
    down_weight,
    grad_hidden,
    grad_routing,
    grad_gate,
    grad_up,
    grad_down,
):
    grad_hidden.zero_()
    for expert in range(len(gate_weight)):
        tokens, choices = torch.where(expert_ids == expert)
        if not len(tokens):
            for one in (grad_gate, grad_up, grad_down):
                one[expert].zero_()
            continue
        x, dy = hidden_states[tokens], grad_output[tokens]
        share = routing_weights[tokens, choices].unsqueeze(-1)
        gate = torch.mm(x, gate_weight[expert].t())
        up = torch.mm(x, up_weight[expert].t())
        opened = torch.sigmoid(gate)
        act = gate * opened
        inner = act * up
        d_inner = torch.mm(dy, down_weight[expert])
        grad_routing[tokens, choices] = (d_inner * inner).sum(-1)
        torch.mm((share * dy).t(), inner, out=grad_down[expert])
        d_inner *= share
        d_up = d_inner * act
        d_gate = d_inner * up * (opened + act * (1.0 - opened))
        torch.mm(d_gate.t(), x, out=grad_gate[expert])
        torch.mm(d_up.t(), x, out=grad_up[expert])
        dx = torch.mm(d_gate, gate_weight[expert]).addmm_(d_up, up_weight[expert])
        grad_hidden.index_add_(0, tokens, dx)
