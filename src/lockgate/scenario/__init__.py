"""Room 2: arrays to tasks."""

from lockgate.scenario.split import Scenario, join, split

__all__ = ["Scenario", "join", "split"]
