"""Fine-tuning: each task in turn, nothing protected. The forgetting that everything else here cures."""

from __future__ import annotations

from lockgate.methods.base import Method


class Finetune(Method):
    """Cross-entropy on the current task, one head per task; the shared features drift and old heads go stale."""
