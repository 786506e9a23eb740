"""`verify`: recompute a campaign from its rows."""
