"""The paper's claims: judged by numbers that are there, for the printed method and for Lockgate's apart."""

from __future__ import annotations

from lockgate.reproduction import TABLES
from lockgate.reproduction.claims import CLAIMS, cells_table, claims_table, verdict
from lockgate.reproduction.results import Number, Result, ResultRow

OURS = "ours, as printed"
FORGET, HAT, HARDER, AHEAD, DGM, BYTES, COST = CLAIMS


def row(group: str, name: str, forgetting: tuple[float, ...] = (), **numbers: float | None) -> ResultRow:
    cells = {
        column.replace("C", "C = "): Number(None, {} if mean is None else {0: mean}) for column, mean in numbers.items()
    }
    return ResultRow(group, name, cells, (), (), (), forgetting=forgetting)


def table(name: str, *rows: ResultRow) -> dict[str, Result]:
    return {name: Result(name, name, "Table 0", "short", "accuracy", False, True, rows, {})}


def test_every_claim_has_a_table_that_exists_and_none_is_judged_by_nothing():
    assert len(CLAIMS) == 7
    assert all(claim.table in TABLES for claim in CLAIMS)
    empty = {name: result for claim in CLAIMS for name, result in table(claim.table).items()}
    assert {
        verdict(claim, tables, side) for claim in CLAIMS for tables in (empty, {}) for side in (OURS, "Lockgate")
    } == {"not run here"}


def test_what_is_forgotten_is_judged_by_a_point():
    tables = table(
        "task-incremental", row("mnist", OURS, (0.02, 0.01), avg=0.9), row("mnist", "Lockgate", (0.0,), avg=1)
    )
    assert verdict(FORGET, tables, OURS) == "**does not hold**: mnist 1.5 points lost (no)"
    assert verdict(FORGET, tables, "Lockgate") == "**holds**: mnist 0.0 points lost"


def test_a_data_set_of_which_nothing_was_run_is_said_to_be_missing():
    tables = table("task-incremental", row("mnist", OURS, (0.0,), avg=0.9), row("svhn", "HAT", avg=0.9))
    assert verdict(FORGET, tables, OURS) == "**holds as far as run**: mnist 0.0 points lost"
    spared = table("generative", row("svhn", OURS, accuracy=0.5), row("svhn", "DGMa", accuracy=0.4), row("mnist", OURS))
    assert verdict(DGM, spared, OURS).startswith("**holds**"), "the paper is behind DGM on MNIST, and says so"


def test_level_with_hat_within_a_point_and_only_where_both_were_run():
    tables = table(
        "task-incremental",
        row("mnist", OURS, avg=0.991),
        row("mnist", "HAT", avg=1.0),
        row("svhn", OURS, avg=0.90),
        row("svhn", "HAT", avg=0.95),
        row("cifar10", OURS, avg=0.9),
        row("cifar10", "HAT", avg=None),
    )
    assert verdict(HAT, tables, OURS) == "**in part**: mnist 0.991 against 1.000; svhn 0.900 against 0.950 (no)"


def test_rivals_fall_behind_only_if_the_distance_grows():
    rows = [row(group, OURS, avg=0.9) for group in ("mnist", "svhn")]
    rows += [row("mnist", "LwF", avg=0.89), row("svhn", "LwF", avg=0.80)]
    rows += [row("mnist", "EWC-On", avg=0.8), row("svhn", "EWC-On", avg=0.85)]
    said = verdict(HARDER, table("task-incremental", *rows), OURS)
    assert said.startswith(
        "**in part**: LwF +1.0 on mnist, +10.0 on svhn (points); EWC-On +10.0 on mnist, +5.0 on svhn"
    )
    one = table("task-incremental", rows[0], row("mnist", "LwF", avg=0.8))
    assert verdict(HARDER, one, OURS) == "not run here"


def test_ahead_at_every_size_is_lost_by_one_size():
    rows = [row("mnist", OURS, C500=0.9, C1000=0.93), row("mnist", "iCaRL-mean", C500=0.8, C1000=0.94)]
    tables = table(
        "episodic", *rows, row("mnist", "A-GEM", C500=0.2, C1000=0.2), row("mnist", "ER", C500=0.99, C1000=1)
    )
    assert verdict(AHEAD, tables, OURS) == (
        "**does not hold**: mnist by -1.0 points at least (C = 1000; 2 of 2 sizes) (no)"
    )


def test_a_size_or_a_rival_that_was_not_run_is_said():
    ours, rand, agem = (
        row("mnist", OURS, C500=0.9),
        row("mnist", "iCaRL-rand", C500=0.7),
        row("mnist", "A-GEM", C500=0.2),
    )
    mean = row("mnist", "iCaRL-mean", C500=0.8)
    assert verdict(AHEAD, table("episodic", ours, rand, agem, mean), OURS).startswith(
        "**holds**: mnist by +10.0 points"
    )
    assert verdict(AHEAD, table("episodic", ours, mean), OURS).startswith("**holds as far as run**: mnist by +10.0")


def test_generators_against_dgm_and_stored_images():
    tables = table("generative", row("mnist", OURS, accuracy=0.5), row("mnist", "DGMa", accuracy=0.9))
    assert verdict(DGM, tables, OURS) == "not run here"  # the paper claims nothing of MNIST
    tables = table("generative", row("svhn", OURS, accuracy=0.5), row("svhn", "DGMw", accuracy=0.4))
    assert verdict(DGM, tables, OURS) == "**holds**: svhn 0.500 against 0.400"
    tables = table("budget", row("svhn", "Lockgate, Em1", accuracy=0.7), row("svhn", "Lockgate, Gm1", accuracy=0.6))
    assert verdict(BYTES, tables, "Lockgate") == "**holds**: svhn Em1 0.700, Gm1 0.600"
    assert verdict(BYTES, tables, OURS) == "not run here"


def test_cost_is_the_worst_stage_s():
    rows = [row("mnist", "backbone", T1=1.0, T2=1.0), row("mnist", f"{OURS}, task given", T1=0.2, T2=0.4)]
    rows += [row("mnist", f"{OURS}, no task given", T1=0.5, T2=1.2)]
    assert verdict(COST, table("macs", *rows), OURS) == (
        "**in part**: mnist, task given 0.40 of the dense cost at most; "
        "mnist, no task given 1.20 of the dense cost at most (no)"
    )


def test_a_cost_that_was_not_run_is_said_to_be_missing():
    rows = [row("mnist", "backbone", T1=1.0), row("mnist", f"{OURS}, task given", T1=0.2)]
    said = "**holds as far as run**: mnist, task given 0.20 of the dense cost at most"
    assert verdict(COST, table("macs", *rows), OURS) == said, "not without the task"
    rows += [row("mnist", f"{OURS}, no task given", T1=0.5), row("cifar10", "backbone", T1=None)]
    assert verdict(COST, table("macs", *rows), OURS).startswith("**holds as far as run**"), "nor on other data"
    assert verdict(COST, table("macs", *rows[:3]), OURS).startswith("**holds**")


def test_pages_hold_all_claims_and_count_the_cells():
    result = table("task-incremental", row("mnist", OURS, (0.0,), avg=1.0), row("mnist", "HAT", avg=None))
    page = claims_table(list(result.values()))
    assert page.count("\n") == 1 + len(CLAIMS)
    assert "| **holds**: mnist 0.0 points lost | not run here |" in page
    assert cells_table(list(result.values())).endswith("| Table 0: task-incremental | 1 | 2 | 1 |")
