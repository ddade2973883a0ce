"""The published figures of the papers, and ours beside them."""
