"""Reports as pages: one frame, one way to write them, for whatever a report is of."""
