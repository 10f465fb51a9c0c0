from __future__ import annotations

import dataclasses
import re
from xml.etree import ElementTree

import pytest

from lockgate.report import charts, load, svg

SVG = "{http://www.w3.org/2000/svg}"


def _all(run):
    return [
        charts.losses(run),
        charts.held_out(run),
        charts.open_gates(run),
        charts.accuracy(run.summary),
        charts.capacity(run.summary.capacity),
    ]


def test_every_figure_is_well_formed_and_named(make_run):
    for figure in _all(load.read(make_run())):
        assert figure is not None
        root = ElementTree.fromstring(figure.svg)
        assert root.tag == f"{SVG}svg"
        assert root.get("role") == "img"
        assert root.get("aria-label")
        assert root[0].tag == f"{SVG}title"
        assert root[0].text == figure.title


def test_names_are_escaped(make_run):
    hostile = '<script>&"'
    layers = [{"layer": hostile, "width": 4, "used_after": [1]}]
    epochs = [{"event": "epoch", "task": 0, "epoch": e, "losses": {hostile: 1.0}} for e in range(2)]
    run = load.read(make_run(epochs, capacity={"layers": layers}))
    for figure in (charts.losses(run), charts.capacity(run.summary.capacity)):
        assert figure is not None
        assert "<script" not in figure.svg
        assert any(hostile in (part.text or "") for part in ElementTree.fromstring(figure.svg).iter())


def test_nothing_to_draw_is_no_figure(make_run):
    once = {"matrix": [[0.9, 0.8]]}
    run = load.read(make_run([], capacity=None, task_incremental=once, class_incremental=None))
    assert _all(run) == [None] * 5


@pytest.mark.parametrize("epochs", [1, 2, 400])
def test_any_number_of_epochs_can_be_drawn(make_run, epochs):
    losses = {"class": 0.0, "other": None}
    events = [
        {"event": "epoch", "task": t, "epoch": e, "losses": losses, "val_accuracy": 1.0}
        for t in range(2)
        for e in range(epochs)
    ]
    run = load.read(make_run(events))
    for figure in (charts.losses(run), charts.held_out(run)):
        assert figure is not None
        numbers = map(float, re.findall(r'(?:[xy][12]?|c[xy])="(-?[\d.]+)"', figure.svg))
        assert all(0 <= number <= charts.WIDTH for number in numbers)


def test_the_bars_of_a_layer_are_what_each_task_added(make_run):
    figure = charts.capacity(load.read(make_run()).summary.capacity)
    assert figure is not None
    bars = [e for e in ElementTree.fromstring(figure.svg).iter(f"{SVG}rect") if "taken" in (e.get("class") or "")]
    # conv1 took 12, 13 and 12 of 100; conv2 took 10, none and 70 of 80.
    assert [(e.get("x"), e.get("width")) for e in bars] == [
        ("0.00%", "12.00%"),
        ("12.00%", "13.00%"),
        ("25.00%", "12.00%"),
        ("0.00%", "12.50%"),
        ("12.50%", "87.50%"),
    ]


def test_a_ring_marks_the_epoch_that_was_kept(make_run):
    figure = charts.held_out(load.read(make_run()))
    assert figure is not None
    titles = [e[0].text for e in ElementTree.fromstring(figure.svg).iter(f"{SVG}circle")]
    assert titles == [f"task {t}: epoch 3 kept, 0.900" for t in (1, 2, 3)]


def test_without_a_ring_it_was_the_last_epoch(make_run):
    run = load.read(make_run())
    stages = tuple(dataclasses.replace(stage, best_epoch=-1) for stage in run.stages)
    figure = charts.held_out(dataclasses.replace(run, stages=stages))
    assert figure is not None
    assert "<circle" not in figure.svg
    assert "The last epoch of each task was kept." in figure.caption


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (0.74, 1, [0.7, 0.8, 0.9, 1.0]), (0, 0, [0, 1]), (3, 3, [3, 4])],
)
def test_ticks_are_round_and_enclose(low, high, expected):
    assert svg.ticks(low, high) == pytest.approx(expected)


def test_a_missing_value_lifts_the_pen():
    assert svg.trace([(0, 1.0), (1, 2.0), (2, None), (3, 4.0)]) == "M0 1L1 2M3 4h0"
    assert svg.trace([]) == ""


def test_the_critic_is_drawn_for_each_generator_and_only_where_there_is_one(make_run, make_generative):
    assert charts.critic(load.read(make_run())) is None
    figure = charts.critic(load.read(make_generative()))
    assert figure is not None
    (path,) = [e for e in ElementTree.fromstring(figure.svg).iter(f"{SVG}path") if "line" in (e.get("class") or "")]
    assert (path.get("d") or "").count("M") == 3  # one stroke a task
    assert figure.legend == ()


def test_generators_leave_the_other_figures_alone(make_episodic, make_generative):
    expected = _all(load.read(make_episodic()))
    assert _all(load.read(make_generative())) == expected
