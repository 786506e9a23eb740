"""The deterministic host: ledger, budget, plateau, drafting and dispatch. Knows nothing of MCP."""
