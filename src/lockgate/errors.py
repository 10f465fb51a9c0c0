"""One small family of exceptions a user can catch.

Every message says three things: what was given, what was wanted, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence


class LockgateError(Exception):
    """Base of everything Lockgate raises on purpose; the command prints it without a traceback."""


class UnknownNameError(LockgateError):
    """A method, data set, backbone or preset that is not registered."""


class ConfigError(LockgateError):
    """A configuration with problems: all of them, not only the first."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__(f"The configuration has {count}:\n" + "\n".join(f"  - {p}" for p in self.problems))


class PluginError(LockgateError):
    """Code of one's own that cannot be imported, or that fails before training; says where in it that was."""


class DataError(LockgateError, ValueError):
    """A data file that is missing, truncated, mislabelled or of the wrong size. Nothing is ever deleted.

    A ``ValueError`` too, as which scikit-learn's tools and most people expect images or labels to be refused.
    """


class CheckpointError(LockgateError):
    """A checkpoint that is missing, damaged or written by another kind of run."""


class RunFolderError(LockgateError):
    """A run folder that cannot be used: it holds another experiment, or cannot be written."""


class TrainingError(LockgateError):
    """Training cannot go on (a loss that is not finite); the last good state is kept."""


class CallbackError(LockgateError):
    """A callback or logger has failed; the run was stopped and its newest checkpoint is kept."""


class ExactnessError(LockgateError):
    """An answer that was promised never to change has changed."""
