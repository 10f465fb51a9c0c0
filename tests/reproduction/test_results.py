"""Tables: numbers beside the paper's, verdicts, tables, figures and the page."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from html import unescape

import pytest
from tests.support.chromium import CHROMIUM

from lockgate.report.gate_figure import firing
from lockgate.report.load import parse_summary
from lockgate.report.schema import Summary
from lockgate.reproduction import paper_numbers
from lockgate.reproduction.cells import machines, ours
from lockgate.reproduction.figures import alone, by_buffer, by_memory
from lockgate.reproduction.markdown import csv_text, markdown, reproduction
from lockgate.reproduction.page import figures_of, page
from lockgate.reproduction.paper_table import chance_with_task, chance_without_task
from lockgate.reproduction.results import Number, Result, ResultRow


def row(name, **numbers) -> ResultRow:
    """``column=(paper, ours...)``; C500 stands for `C = 500`."""
    cells = {
        re.sub(r"^C(\d+)$", r"C = \1", c): Number(values[0], dict(enumerate(values[1:])))
        for c, values in numbers.items()
    }
    seeds = max(len(cell.ours) for cell in cells.values())
    ran = ("lockgate run short",) if seeds else ()
    return ResultRow("mnist", name, cells, ran, (8,) * seeds, ("a CPU",) * seeds)


def result(*rows, **changes) -> Result:
    values = {"unit": "accuracy", "lower_is_better": False, "ranked": True, "notes": {}}
    return Result("small", "A small table", "Figure 0", "short", **{**values, **changes}, rows=rows)


def test_verdicts():
    near, far = row("ours", C500=(0.94, 0.935)), row("ours", C500=(0.94, 0.90))
    baseline, strong = row("baseline", C500=(0.85, 0.80)), row("baseline", C500=(0.85, 0.92))
    absent = row("absent", C500=(0.5,))
    assert result(near).verdict("mnist") == "reproduced: 1 of 1 number within reach"
    assert result(near, absent).verdict("mnist").startswith("reproduced as far as run (1 row not run): 1 of 1 number")
    assert result(absent).verdict("mnist") == "not run here"
    half = row("ours", C500=(0.94, 0.935), C1000=(0.96,))
    missing = "(1 row not run, 1 number of others missing)"
    assert result(half, absent).verdict("mnist").startswith(f"reproduced as far as run {missing}: 1 of 1 number")
    assert result(far, baseline).verdict("mnist") == "trend holds: 0 of 2 numbers within reach, 1 of 1 pair in order"
    counted = "0 of 2 numbers within reach, 0 of 1 pair in order"
    assert result(far, strong).verdict("mnist") == f"differs: {counted}; not looked into"
    for group in ("mnist", ""):
        known = result(far, strong, notes={group: "trained longer"})
        assert known.verdict("mnist") == f"differs: {counted}; trained longer"
    beyond = ResultRow("digits", "ours", {"C = 500": Number(None, {0: 0.7})}, (), (), ())
    assert result(near, beyond).verdict("digits") == "beyond the paper"
    assert result(row("ours", C500=(None, 0.7))).verdict("mnist") == "shown; the paper prints no numbers"


def test_numbers_as_good_as_the_papers_reproduce_nothing_if_a_baseline_overtakes():
    near, strong = row("ours", C500=(0.94, 0.935)), row("baseline", C500=(0.85, 0.99))
    assert result(near, strong).verdict("mnist").startswith("differs: 1 of 2 numbers within reach, 0 of 1 pair")
    assert result(near, strong, ranked=False).verdict("mnist").startswith("differs: 1 of 2")


def test_what_is_stronger_than_in_the_paper_is_not_the_papers_and_a_lead_of_less_than_a_point_is_none():
    near, good = row("ours", C500=(0.94, 0.949)), row("ours", C500=(0.94, 0.96))
    assert result(near).verdict("mnist").startswith("reproduced")
    assert result(good).verdict("mnist").startswith("differs: 0 of 1 number within reach")
    strong = row("baseline", C500=(0.85, 0.955))
    assert result(near, strong).verdict("mnist").startswith("differs: 1 of 2 numbers within reach, 0 of 1 pair")


def test_a_cost_above_that_of_the_dense_network_is_not_the_papers_however_near():
    dense = replace(row("backbone", T1=(1.0, 0.9)), judged=False)
    for cost, verdict in ((0.89, "reproduced"), (0.91, "differs")):
        made = result(row("ours", T1=(0.8, cost)), dense, lower_is_better=True)
        assert made.verdict("mnist").startswith(verdict)


def test_order_counts_in_every_column():
    near = row("ours", C500=(0.94, 0.90), C2000=(0.96, 0.95))
    baseline = row("baseline", C500=(0.85, 0.91), C2000=(0.85, 0.80))
    assert result(near, baseline).order("mnist") == (1, 2)


def test_ours_are_no_baselines_of_each_other_and_the_backbone_is_only_a_scale():
    given, not_given = row("ours, task given", T1=(0.1, 0.5)), row("ours, no task given", T1=(0.4, 0.3))
    dense = replace(row("backbone", T1=(1.0, 0.2)), judged=False)
    assert result(given, not_given, dense, lower_is_better=True).order("mnist") == (0, 0)
    assert result(dense).verdict("mnist") == "not run here"


def test_what_a_memory_costs_is_not_judged():
    made = row("Gm1", accuracy=(0.83, 0.835), MiB=(33.0, 5.9))
    assert result(made, ranked=False).verdict("mnist") == "reproduced: 1 of 1 number within reach"


def test_where_there_is_an_average_it_is_what_counts_and_missing_seeds_are_named():
    made = row("ours", T1=(0.97, 0.90), avg=(0.95, 0.95))
    assert result(made).verdict("mnist").startswith("reproduced:")
    assert result(made, wanted=5).verdict("mnist").startswith("reproduced as far as run (1 of 5 seeds):")


def test_costs_are_judged_the_other_way_round():
    cheap, dear = row("ours", T1=(0.1, 0.11)), row("ours", T1=(0.1, 0.2))
    assert result(cheap, lower_is_better=True).verdict("mnist").startswith("reproduced:")
    assert result(dear, lower_is_better=True).verdict("mnist").startswith("differs")


def test_seeds_become_a_mean_and_a_deviation():
    number = Number(0.9, {0: 0.90, 1: 0.92, 2: 0.94})
    assert number.mean == pytest.approx(0.92)
    assert number.std == pytest.approx(0.02)
    assert "0.9200 ± 0.0200 (0.900)" in markdown(result(row("ours", C500=(0.9, 0.90, 0.92, 0.94))))


def test_markdown_says_what_was_not_run_and_csv_holds_every_seed():
    made = result(row("ours", C500=(0.94, 0.93, 0.95), C2000=(0.96,)), row("absent", C500=(0.5,)))
    assert "| absent | not run (0.500) |" in markdown(made)
    rows = list(csv.DictReader(io.StringIO(csv_text(made))))
    assert [(r["seed"], r["ours"]) for r in rows if r["row"] == "ours" and r["column"] == "C = 500"] == [
        ("0", "0.93"),
        ("1", "0.95"),
    ]
    assert [r["ours"] for r in rows if r["row"] == "absent"] == [""]


def test_a_number_keeps_the_seed_it_was_made_with():
    numbers = {"C = 500": Number(0.94, {0: 0.93, 2: 0.95}), "C = 2000": Number(0.96, {1: 0.97})}
    made = ResultRow("mnist", "ours", numbers, ("lockgate run short",), (8,), ("a CPU",))
    assert made.seeds == (0, 1, 2)
    rows = list(csv.DictReader(io.StringIO(csv_text(result(made)))))
    assert [(r["column"], r["seed"], r["ours"]) for r in rows] == [
        ("C = 500", "0", "0.93"),
        ("C = 500", "2", "0.95"),
        ("C = 2000", "1", "0.97"),
    ]


def test_reproduction_links_to_every_table_and_holds_its_table():
    text = reproduction([result(row("ours", C500=(0.94, 0.93)))], "short")
    links = re.findall(r"\]\(#([^)]+)\)", text)
    heading = next(line for line in text.splitlines() if line.startswith("## Figure 0"))
    anchor = re.sub(r"[^\w\- ]", "", heading.removeprefix("## ").lower()).replace(" ", "-")
    assert anchor in links
    assert "| ours | 0.9300 (0.940) |" in text


def test_reproduction_says_where_its_numbers_come_from():
    made = [result(row("ours", C500=(0.94, 0.93)))]
    short, paper_ = reproduction(made, "short", "results"), reproduction(made, "paper")
    assert "`lockgate reproduce all --schedule short --no-run --results results`" in short
    assert "kept in `results/`" in short
    assert "a few epochs a task" in short
    assert "`lockgate reproduce all --schedule paper --no-run`" in paper_
    assert "kept in" not in paper_
    assert "a few epochs a task" not in paper_


def test_every_row_of_the_paper_has_a_number_for_each_column():
    for published in paper_numbers.TASK_INCREMENTAL.values():
        for values in published.values():
            assert len(values) == 6
            assert sum(values[:5]) / 5 == pytest.approx(values[5], abs=1.1e-3)  # the average that the paper prints
    for published in paper_numbers.EPISODIC.values():
        assert {len(values) for values in published.values()} == {len(paper_numbers.BUFFERS)}
    for dataset, published in paper_numbers.BUDGET.items():
        for name, budget in published.items():
            if name.startswith("Em") and name != "Em5":
                assert budget.mebibytes == pytest.approx(
                    paper_numbers.BUFFERS[int(name[2]) - 1] * 3072 / 2**20, abs=0.006
                )
        assert (
            published["Gm1"].accuracy
            == paper_numbers.GENERATIVE[dataset]["ours"]
            == paper_numbers.CONDITIONAL[dataset]["ours"]
        )
    assert paper_numbers.BUDGET["svhn"]["Em4"].accuracy == paper_numbers.EPISODIC["svhn"]["ours"][-1]


def _points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", path)]


def test_a_higher_number_stands_higher_and_a_missing_one_lifts_the_pen():
    figure = by_buffer(result(row("ours", C500=(0.94, 0.90), C1000=(0.95,), C2000=(0.96, 0.95))), "mnist")
    assert figure is not None
    (line,) = re.findall(r'<path d="([^"]+)"', figure.svg)
    (x1, y1), (x2, y2) = _points(line)
    assert x1 < x2
    assert y1 > y2
    assert line.count("M") == 2
    assert figure.svg.count('class="hole') == 3  # the paper's
    assert figure.svg.count('class="dot') == 2  # ours, which would not be seen without a line
    assert by_buffer(result(row("absent", C500=(0.5,))), "mnist") is None


def test_memory_is_on_a_scale_of_powers():
    rows = (row("Em1", accuracy=(0.6, 0.7), MiB=(1.0, 1.0)), row("Em4", accuracy=(0.8, 0.9), MiB=(10.0, 10.0)))
    figure = by_memory(result(*rows), "mnist")
    assert figure is not None
    across = [float(x) for x in re.findall(r'cx="([\d.]+)"', figure.svg)]
    assert across[0] == across[1] < across[2] == across[3]
    assert [name for name, _ in figure.legend] == ["here", "paper"]


def test_the_figure_of_memory_names_the_paper_only_where_it_has_numbers():
    figure = by_memory(result(row("Em1", accuracy=(None, 0.7), MiB=(None, 1.0))), "mnist")
    assert figure is not None
    assert [name for name, _ in figure.legend] == ["here"]
    assert "paper" not in figure.caption + figure.svg


def test_gates_are_sorted_by_their_rate_over_all_tasks():
    figure = firing("conv1", [[0.0, 1.0, 0.25], [0.0, 0.5, 0.5]])
    assert "1 of 3 never do" in figure.caption
    heights = [float(h) for h in re.findall(r'<rect[^>]* height="([\d.]+)"', figure.svg)]
    assert heights[0] > heights[1]  # task 1: gate 1 before gate 2
    assert len(heights) == 4  # a gate that never fires has no bar


def test_a_figure_of_its_own_is_well_formed_and_has_its_legend():
    figure = by_buffer(result(row("ours & co", C500=(0.94, 0.90), C2000=(0.96, 0.95))), "mnist")
    assert figure is not None
    tree = ET.fromstring(alone(figure))
    words = "".join(tree.itertext())
    assert "ours & co" in words
    assert ".line" in words


@pytest.fixture
def small_page(tmp_path):
    made = result(
        row("ours", C500=(0.94, 0.931, 0.941), C2000=(0.96, 0.95)),
        row("<baseline>", C500=(0.85, 0.8), C2000=(0.9, 0.85)),
    )
    figures = figures_of("lines", made, {})
    path = tmp_path / "small.html"
    path.write_text(page(made, figures, {}), encoding="utf-8")
    return path


def test_the_page_holds_the_numbers_and_stands_alone(small_page):
    html = small_page.read_text(encoding="utf-8")
    text = " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())
    for wanted in ("0.9360 ± 0.0071", "0.94", "<baseline>", "0.8000", "lockgate reproduce small --schedule short"):
        assert wanted in text
    assert "<baseline>" not in html
    assert not re.search(r'(src|href)="(?!data:|#)', html)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_in_a_browser_without_complaint(small_page, tmp_path, width):
    log = tmp_path / "log"
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--window-size={width},900",
        "--enable-logging=stderr",
        "--v=0",
    ]
    with log.open("w") as stderr:
        done = subprocess.run(
            [CHROMIUM, *flags, "--dump-dom", small_page.as_uri()], capture_output=False, stdout=subprocess.PIPE,
            stderr=stderr, text=True, timeout=60, check=True,
        )  # fmt: skip
    assert "CONSOLE" not in log.read_text()
    assert done.stdout.count("<path") >= 2


def test_a_measurement_of_gates_is_drawn_from_the_run_folder(tmp_path):
    (tmp_path / "gates.json").write_text(json.dumps({"layer": "conv1", "gate": 0, "firing": {"conv1": [[0.5, 0.0]]}}))
    made = result(row("ours", share=(None, 0.5)), unit="share of gates")
    assert figures_of("gates", made, {"mnist": tmp_path})["mnist"][0].title == "Gates of conv1"
    assert figures_of("gates", made, {})["mnist"] == []


def test_what_cannot_differ_between_seeds_has_no_deviation():
    assert ours(Number(None, {0: 1.5, 1: 1.5})) == ("1.5000",)
    assert ours(Number(None, {0: 1.5, 1: 1.7})) == ("1.6000", "± 0.1414")


def test_a_machine_is_named_once_with_its_commits():
    made_on = [("A, torch 2 at abc", "A, torch 2 at def"), ("B, torch 2",), ("A, torch 2 at abc", "B, torch 2 at abc")]
    rows = [ResultRow("g", "r", {}, (), (), hardware) for hardware in made_on]
    assert machines(rows) == ["A, torch 2 at abc, def", "B, torch 2 at abc"]


def test_a_row_says_its_epochs_and_any_reduced_precision():
    def row(*precisions: str) -> tuple[str, ...]:
        return ResultRow("g", "r", {}, (), (8, 8), (), precisions=precisions).schedule

    assert row("32-true", "32-true") == ("8",)
    assert row("bf16-mixed", "bf16-mixed") == ("8", "bf16-mixed")
    assert row("32-true", "bf16-mixed") == ("8", "32-true and bf16-mixed")
    assert ResultRow("g", "r", {}, (), (), ()).schedule == ("–",)


def with_chance(row: ResultRow, chance: float) -> ResultRow:
    return replace(row, numbers={name: replace(number, chance=chance) for name, number in row.numbers.items()})


def test_a_baseline_near_chance_decides_nothing():
    near = row("ours, as printed", C500=(0.94, 0.935))
    guesses = with_chance(row("guesses", C500=(0.15, 0.149)), 0.1)  # the paper's number, and in its order
    assert result(near, guesses).order("mnist") == (0, 0)
    verdict = "reproduced: 1 of 1 number within reach; 1 baseline near chance decides nothing"
    assert result(near, guesses).verdict("mnist") == verdict
    learnt = with_chance(row("guesses", C500=(0.15, 0.151)), 0.1)
    assert result(near, learnt).verdict("mnist").startswith("reproduced: 2 of 2 numbers within reach, 1 of 1 pair")
    two = (guesses, with_chance(row("below", C500=(0.5, 0.05)), 0.1))
    assert result(near, *two).verdict("mnist").endswith("; 2 baselines near chance decide nothing")


def test_ours_near_chance_is_judged_all_the_same():
    failed = with_chance(row("ours, as printed", C500=(0.94, 0.1)), 0.1)
    assert result(failed).verdict("mnist").startswith("differs: 0 of 1 number within reach")


def test_baselines_without_ours_say_nothing_about_the_paper():
    baseline, absent = row("HAT", C500=(0.85, 0.85)), row("ours, as printed", C500=(0.94,))
    assert result(baseline, absent).verdict("mnist") == "not run here: ours is missing"


def test_lockgates_own_row_decides_nothing():
    own = replace(row("Lockgate", C500=(None, 0.99)), judged=False)
    near, baseline = row("ours, as printed", C500=(0.94, 0.935)), row("HAT", C500=(0.85, 0.85))
    assert result(near, baseline, own).verdict("mnist") == result(near, baseline).verdict("mnist")
    assert result(row("ours, as printed", C500=(0.94,)), own).verdict("mnist") == "not run here"
    assert result(own).verdict("mnist") == "beyond the paper"


def test_by_how_much_the_printed_method_forgets_stands_under_the_table():
    printed = replace(row("ours, as printed", C500=(0.94, 0.93)), forgetting=(0.01, 0.02))
    said = "Ours, as printed forgets 1.5 points (mean over 2 runs, the task given)."
    made = result(printed, row("HAT", C500=(0.85, 0.85)))
    assert made.remarks("mnist") == [said]
    assert said in markdown(made)
    assert said in unescape(page(made, {}, {}))


def test_chance_is_that_of_the_decision():
    def of(*tasks: int) -> Summary:
        names = [[f"{task}-{n}" for n in range(size)] for task, size in enumerate(tasks)]
        scores = {"matrix": [[0.5]], "average": 0.5}
        given = {"method": "er", "dataset": "x", "seed": 0, "tasks": len(tasks), "seconds": 1.0}
        return parse_summary({**given, "task_incremental": scores, "task_names": names})

    assert chance_with_task(of(2, 2, 2, 2, 2)) == 0.5
    assert chance_without_task(of(2, 2, 2, 2, 2)) == 0.1
    assert chance_with_task(of(10, 10, 10, 10, 10)) == pytest.approx(0.1)  # Imagenet-50
    assert chance_without_task(of(10, 10, 10, 10, 10)) == 0.02
    assert chance_with_task(of(2, 4)) == 0.375
    assert chance_with_task(of()) is None
    assert chance_without_task(of()) is None


def test_lines_beyond_the_colours_are_dotted():
    rows = [row(f"method {n}", C500=(None, 0.9), C2000=(None, 0.95)) for n in range(7)]
    figure = by_buffer(result(*rows), "mnist")
    assert figure is not None
    assert figure.svg.count('class="line s') == 6
    assert figure.svg.count('class="faint s0') == 1
    assert ("method 6 (dotted)", "s0") in figure.legend
