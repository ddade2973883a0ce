"""The published figures of the papers, and ours beside them: what `papers.py` and `peers.py` are made of."""
