"""Every table and figure of the paper: what is missing is run, what is finished is used again.

plan                which runs a table needs, and which of them a folder holds already
runners             run them in processes of this machine (local), or on a Ray cluster (ray)
rows                ours as printed, ours as Lockgate has it, rivals with the same means
measure             what has to be measured on trained models afterwards
write               results beside the paper's: tables, figures, a page, REPRODUCTION.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockgate.registry import Entry, Registry

if TYPE_CHECKING:
    from lockgate.reproduction.paper_table import PaperTable

TABLES: Registry[PaperTable] = Registry(
    "table",
    {
        "task-incremental": Entry(
            "lockgate.reproduction.tables_and_figures.task_incremental:TABLE", "Table 1: the task given."
        ),
        "episodic": Entry(
            "lockgate.reproduction.tables_and_figures.episodic:TABLE",
            "Figure 4: the task not given, by size of the buffer.",
        ),
        "generative": Entry(
            "lockgate.reproduction.tables_and_figures.generative:TABLE", "Table 2: rehearsed from generated images."
        ),
        "budget": Entry(
            "lockgate.reproduction.tables_and_figures.budget:TABLE", "Figure 5: accuracy by what the memory costs."
        ),
        "gates": Entry(
            "lockgate.reproduction.tables_and_figures.gates:TABLE", "Figure 6: which gates fire for which task."
        ),
        "macs": Entry(
            "lockgate.reproduction.tables_and_figures.macs:TABLE", "Table 3: multiply-accumulates, HAT and ours."
        ),
        "conditional": Entry(
            "lockgate.reproduction.tables_and_figures.conditional:TABLE", "Supplement: generators of classes, C-Gen."
        ),
        "confidence": Entry(
            "lockgate.reproduction.tables_and_figures.confidence:TABLE", "Supplement: five seeds of HAT and ours."
        ),
        "digits": Entry(
            "lockgate.reproduction.tables_and_figures.digits:TABLE", "Beyond the paper: every method on digits."
        ),
        "fashion": Entry(
            "lockgate.reproduction.tables_and_figures.fashion:TABLE",
            "Beyond the paper: every method on Fashion-MNIST, which came after the recipe.",
        ),
    },
)
