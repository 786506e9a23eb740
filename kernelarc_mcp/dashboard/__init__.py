"""A page that shows a running campaign; it only reads."""
