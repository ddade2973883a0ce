//! Slow, obvious versions of what the engine does fast. Imports nothing of ours.
