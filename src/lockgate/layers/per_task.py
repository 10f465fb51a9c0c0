"""Modules of which there is one for each task, and the part of a network's state that training can still change.

Past modules are constants. Whatever a run does again and again (switching modes, keeping the best epoch, checkpoints
inside a task) passes them by, so that it costs the same at the hundredth task as at the second.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn


class TaskModules(nn.ModuleList):
    """One module per task, of which only the newest ever trains: the others stay in eval mode, whatever is asked."""

    def train(self, mode: bool = True) -> TaskModules:
        """Set the newest module's mode."""
        self.training = mode
        if len(self):
            self[-1].train(mode)
        return self

    def freeze_past(self) -> None:
        """No gradient for any but the newest; called after each addition, so there is one to freeze at most."""
        if len(self) > 1:
            self[-2].requires_grad_(False).eval()


def task_modules(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, TaskModules]]:
    """Every TaskModules in ``module`` by name; what is inside them is not looked at."""
    for name, child in module.named_children():
        if isinstance(child, TaskModules):
            yield f"{prefix}{name}", child
        else:
            yield from task_modules(child, f"{prefix}{name}.")


def shared_modules(module: nn.Module) -> Iterator[nn.Module]:
    """``module`` and all within it that is not of one task: as many at the hundredth task as at the first."""
    yield module
    for child in module.children():
        if not isinstance(child, TaskModules):
            yield from shared_modules(child)


def live_state(module: nn.Module) -> dict[str, Tensor]:
    """The entries of ``module.state_dict()`` that the current task can change: all but those of past TaskModules."""
    state: dict[str, Tensor] = {}
    _collect(module, "", state)
    return state


def load_live_state(module: nn.Module, state: dict[str, Tensor]) -> None:
    """Load what ``live_state`` gave, or a whole state."""
    missing = [name for name in live_state(module) if name not in state]
    _, unknown = module.load_state_dict(state, strict=False)
    if missing or unknown:
        raise RuntimeError(f"missing: {', '.join(missing) or 'nothing'}; unknown: {', '.join(unknown) or 'nothing'}")


def _collect(module: nn.Module, prefix: str, state: dict[str, Tensor]) -> None:
    module._save_to_state_dict(state, prefix, keep_vars=False)
    children = list(module.named_children())
    for name, child in children[-1:] if isinstance(module, TaskModules) else children:
        _collect(child, f"{prefix}{name}.", state)
