"""arrays to tasks."""

from lockgate.scenario.incremental import grow
from lockgate.scenario.split import Scenario, join, split

__all__ = ["Scenario", "grow", "join", "split"]
