"""Beyond the paper: every method on one data set, with the task given and without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lockgate.reproduction.paper_table import (
    Line,
    Schedule,
    stored_svm,
    with_and_without_task,
    with_task,
)
from lockgate.reproduction.rows import (
    LOCKGATE,
    PRINTED,
    SVM,
    WITH_TASK,
    WITHOUT_TASK,
    equal,
    printed_row,
)
from lockgate.reproduction.tables_and_figures import episodic, generative, task_incremental

WITH, WITHOUT = ("task given",), ("no task given", "task given")
GENERATIVE = ", generative"
"""What a row of ours is called beside its name where it remembers by generators."""


@dataclass(frozen=True)
class EveryMethod:
    """All rows of the paper's tables, and the baselines that these lack, on one data set."""

    dataset: str
    stored: int
    """C, the images that an episodic memory keeps."""
    scenario: Mapping[str, Any] = field(default_factory=dict)
    """What of it is used, where that is not all."""
    generators: bool = True
    """Whether methods that remember by generators have rows too."""

    @property
    def given(self) -> str:
        """The group of rows that are told the task."""
        return self.dataset

    @property
    def not_given(self) -> str:
        """The group of rows that are not."""
        return f"{self.dataset}, no task given, C = {self.stored}"

    def lines(self, schedule: Schedule) -> list[Line]:
        """Every method, both settings; by the paper's schedule, which no other preset has here, as printed alone."""
        if schedule != "short":
            return self._printed(schedule)
        methods = dict(task_incremental.ROWS)
        own = methods.pop(LOCKGATE)
        made = [self._told(schedule, row, method) for row, method in methods.items()]
        made += [self._rival(row, schedule) for row in (*episodic.ROWS, *(generative.ROWS if self.generators else ()))]
        made += self._printed(schedule)
        made.append(self._told(schedule, LOCKGATE, own))
        for what, (method, options) in self._ours().items():
            experiment = equal(schedule, method, self.dataset, WITHOUT_TASK, options, self.scenario)
            made.append(self._untold(LOCKGATE + what, experiment))
        experiment = equal(schedule, episodic.OURS, self.dataset, WITHOUT_TASK, {"buffer": self.stored}, self.scenario)
        made.append(Line(self.not_given, SVM, WITHOUT[:1], (None,), experiment, stored_svm, judged=False))
        return made

    def _ours(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """What stands behind the name of a row of ours without the task."""
        episodic_: dict[str, tuple[str, dict[str, Any]]] = {"": (episodic.OURS, {"buffer": self.stored})}
        return episodic_ | ({GENERATIVE: (generative.OURS, {})} if self.generators else {})

    def _told(self, schedule: Schedule, row: str, method: str) -> Line:
        experiment = equal(schedule, method, self.dataset, WITH_TASK, None, self.scenario)
        return Line(self.given, row, WITH, (None,), experiment, with_task, judged=False)

    def _untold(self, row: str, experiment: Any, **how: Any) -> Line:
        return Line(self.not_given, row, WITHOUT, (None, None), experiment, with_and_without_task, judged=False, **how)

    def _rival(self, row: str, schedule: Schedule) -> Line:
        """A rival's line, without the task."""
        if row in episodic.ROWS:
            experiment = episodic.rival(schedule, row, self.dataset, self.stored, self.scenario)
        else:
            method, options = generative.ROWS[row]
            experiment = equal(schedule, method, self.dataset, WITHOUT_TASK, options, self.scenario)
        return self._untold(row, experiment)

    def _printed(self, schedule: Schedule) -> list[Line]:
        """Ours, as printed."""
        experiment = printed_row(schedule, "ccgn", self.dataset, None, self.scenario)
        how: dict[str, Any] = {"judged": False, "preset": "printed"}
        made = [Line(self.given, PRINTED, WITH, (None,), experiment, with_task, **how)]
        for what, (method, options) in self._ours().items():
            experiment = printed_row(schedule, method, self.dataset, options, self.scenario)
            made.append(self._untold(PRINTED + what, experiment, preset="printed"))
        return made
