"""A campaign's candidates taken out of it: as solutions, traces, folders and a git repository."""
