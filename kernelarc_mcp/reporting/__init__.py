"""A campaign as a document that can be handed on."""
