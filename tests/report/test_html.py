from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from html import escape, unescape
from pathlib import Path

import pytest
from PIL import Image
from tests.support.chromium import CHROMIUM

from lockgate.errors import RunFolderError
from lockgate.report.html import render, write
from lockgate.report.load import read

OPTIONAL = [
    "backbone",
    "epochs",
    "task_names",
    "class_incremental",
    "capacity",
    "macs",
    "inference",
    "task_found",
    "memory",
    "audit",
    "environment",
    "command",
]


def test_the_numbers_of_the_summary_stand_in_the_page(make_run):
    folder = make_run()
    path = write(folder)
    assert path == folder / "report.html"
    html = path.read_text(encoding="utf-8")
    text = unescape(re.sub(r"<[^>]+>", " ", html))
    for wanted in (
        *("0.991", "0.972", "0.953", "0.812", "0.632", "0.754", "0.779", "0.287"),  # accuracy
        *("▼ 0.178", "▼ 0.358", "▼ 0.216"),  # lost: 0.99 - 0.812, 0.99 - 0.632, 0.97 - 0.754
        *("37 of 100", "80 of 80", "(17)", "65.0 %", "117 of 180"),  # capacity
        *("22,755,600", "926,100", "4,551,120", "133,333", "20.0 %"),  # computation
        *("123 locked tensors", "the logits of 3 tasks", "Audit passed"),
        *("lockgate run ccgn --dataset digits --seed 7", "A processor", "lr: 0.003", "12.3 s", "simple_cnn"),
    ):
        assert wanted in text, wanted
    assert "ccgn on digits, 3 tasks, seed 7: 0.972 average, nothing forgotten: audit passed" in html


def test_only_the_page_is_left_in_the_folder_and_it_is_the_same_each_time(make_run):
    folder = make_run()
    before = set(folder.iterdir())
    first = write(folder).read_bytes()
    assert set(folder.iterdir()) - before == {folder / "report.html"}
    assert write(folder).read_bytes() == first


def test_the_page_fetches_nothing(make_run):
    html = write(make_run()).read_text(encoding="utf-8")
    assert '<html lang="en">' in html
    assert "<script" not in html
    assert "@import" not in html
    assert "url(" not in html
    assert re.findall(r'(?:src|href)="([^"]*)"', html) == ["data:,"]
    assert set(re.findall(r"https?://[^\"' )]*", html)) == {"http://www.w3.org/2000/svg"}  # a name, not an address


def test_markup_in_names_is_escaped(make_run):
    evil = "<img src=x onerror=alert(1)>\"'&"
    folder = make_run(method=evil, dataset=evil, command=evil, task_names=[[evil]] * 3, environment={evil: evil})
    (folder / "config.yaml").write_text(evil)
    html = write(folder).read_text(encoding="utf-8")
    assert "<img" not in html
    assert "&lt;img" in html


@pytest.mark.parametrize("missing", OPTIONAL)
def test_an_optional_part_may_be_missing(make_run, missing):
    html = write(make_run(**{missing: None})).read_text(encoding="utf-8")
    assert "0.953" in html
    assert "None" not in html


def test_the_barest_run_has_a_page(make_run):
    bare = dict.fromkeys(OPTIONAL)
    scores = {"matrix": [[0.901, None, 0.703]], "average": None}
    folder = make_run([], **bare, task_incremental=scores)
    (folder / "records.jsonl").unlink()
    (folder / "config.yaml").unlink()
    html = write(folder).read_text(encoding="utf-8")
    assert "0.802 average, all tasks learnt together" in html
    assert "Not audited" in html
    assert "<svg" not in html
    assert "None" not in html


def test_a_failed_audit_is_loud(make_run):
    html = write(make_run(audit={"ok": False, "tensors": 2, "logits": 1})).read_text(encoding="utf-8")
    assert "audit FAILED" in html
    assert "Audit failed." in html
    assert "the logits of 1 task " in html
    assert "nothing forgotten" not in html


def test_a_broken_summary_leaves_the_old_page(make_run):
    folder = make_run()
    before = write(folder).read_bytes()
    (folder / "summary.json").write_text("{")
    with pytest.raises(RunFolderError, match="damaged"):
        write(folder)
    assert (folder / "report.html").read_bytes() == before


def test_a_page_that_cannot_be_written_is_an_error_of_ours(make_run):
    folder = make_run()
    (folder / "report.html").mkdir()
    with pytest.raises(RunFolderError, match=r"got.*Wanted.*Remedy"):
        write(folder)
    assert not list(folder.glob(".report.html*"))


def test_no_torch_is_imported(make_run):
    code = (
        "import sys, pathlib; from lockgate.report import html, terminal; assert 'jinja2' not in sys.modules;"
        "html.write(pathlib.Path(sys.argv[1])); print(sorted({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(make_run())], capture_output=True, text=True, check=True)
    assert "'jinja2'" in done.stdout
    assert not {"'torch'", "'numpy'"} & set(re.findall(r"'\w+'", done.stdout))


def _text(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def _section(html: str, name: str) -> str:
    (section,) = re.findall(rf'<section aria-labelledby="{name}">.*?</section>', html, re.DOTALL)
    return section


@pytest.mark.parametrize("missing", OPTIONAL)
def test_an_optional_part_of_a_generative_run_may_be_missing(make_generative, missing):
    html = write(make_generative(**{missing: None})).read_text(encoding="utf-8")
    assert "0.953" in html
    assert "None" not in html


def test_how_the_task_was_found_has_its_section(make_episodic):
    html = write(make_episodic()).read_text(encoding="utf-8")
    text = _text(_section(html, "knowing"))
    for wanted in (
        *("0.823", "0.981", "0.641", "0.762", "0.961", "▼ 0.359"),  # right task; 1 - 0.641
        "stage argmax joint right task after 1 0.990 0.990 1.000 after 2 0.891 0.891 0.902 after 3 0.779 0.788 0.788",
        "argmax 0.779 joint 0.788 at the end joint wins by 0.010",
        "numbers of this page are those of argmax.",
        "500 images, 0.37 MiB kept of past tasks: real images",
    ):
        assert wanted in text, wanted
    assert "Generated" not in text
    assert "<img" not in html
    assert "9 sets of stream features and the logits of 3 tasks" in html
    assert "it goes on learning" in html


def test_the_tiles_begin_with_what_a_method_is_for(make_run, make_episodic):
    def tiles(folder):
        html = write(folder).read_text(encoding="utf-8")
        return re.findall(r'<dt>([^<]*)</dt><dd class="value">([^<]*)</dd>', html)

    assert tiles(make_run())[:3] == [
        ("task-incremental", "0.972"),
        ("class-incremental", "0.779"),
        ("forgetting", "0.000"),
    ]
    assert tiles(make_episodic())[:5] == [
        ("class-incremental", "0.779"),
        ("task-incremental", "0.972"),
        ("right task", "0.788"),
        ("forgetting", "0.287"),
        ("memory", "0.37 MiB"),
    ]


def test_methods_that_are_given_the_task_have_no_such_section(make_run):
    html = write(make_run()).read_text(encoding="utf-8")
    assert "Knowing the task" not in html
    assert "it goes on learning" not in html
    assert write(make_run(task_found=[[1.0], [0.8, 0.9], [0.6, 0.7, 0.9]])).read_text(encoding="utf-8") == html


def test_generated_images_are_in_the_page_and_called_so(make_generative):
    folder = make_generative()
    html = write(folder).read_text(encoding="utf-8")
    images = re.findall(r'<img src="data:image/png;base64,([^"]*)" width="(\d+)" height="(\d+)" alt="([^"]*)">', html)
    assert [base64.b64decode(data) for data, *_ in images] == [
        (folder / "pictures" / f"generator-{task}.png").read_bytes() for task in range(3)
    ]
    assert [rest for _, *rest in images][1] == ["65", "32", "Grid of images made by the generator of task 2 (2, 3)"]
    text = _text(_section(html, "knowing"))
    assert "Task 2: 2, 3. Generated images: none of them is real. Trained for 5 epochs, 2 min." in text
    assert text.count("Generated images") == 3
    assert "generators, 33.00 MiB kept of past tasks: no real image" in text
    assert "The critic's loss" in unescape(html)
    sources = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert all(source.startswith("data:") for source in sources)
    assert set(re.findall(r"https?://[^\"' )]*", html)) == {"http://www.w3.org/2000/svg"}


def test_pictures_of_tasks_without_names_are_shown(make_generative):
    folder = make_generative(task_names=None)
    (folder / "records.jsonl").unlink()
    text = _text(_section(write(folder).read_text(encoding="utf-8"), "knowing"))
    assert "Task 3. Generated images: none of them is real." in text
    assert "Trained" not in text


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to render the page with")
def test_a_phone_never_scrolls_sideways(make_generative, tmp_path: Path):
    wide = [[0.9] * (i + 1) for i in range(10)]
    scores = {"matrix": wide, "average": 0.9}
    long = ["a-name-that-does-not-break" * 4, "y" * 120]
    folder = make_generative(
        tasks=10,
        task_incremental=scores,
        class_incremental=scores,
        inference={"argmax": scores, "joint": scores},
        task_found=wide,
        command="lockgate run " + "x" * 200,
        task_names=[long] * 10,
    )
    inner = write(folder).read_text(encoding="utf-8")
    # A browser window has a least width of its own; a frame can be as narrow as a phone.
    outer = tmp_path / "outer.html"
    outer.write_text(
        f'<iframe width="390" height="800" style="border: 0" srcdoc="{escape(inner)}"></iframe><p>waiting</p>'
        "<script>onload = () => { const root = document.querySelector('iframe').contentDocument.documentElement;"
        " document.querySelector('p').textContent = `widths ${root.clientWidth} ${root.scrollWidth}`; }</script>",
        encoding="utf-8",
    )
    options = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    more = ["--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    command = [str(CHROMIUM), *options.split(), *more, outer.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r"<p>widths (\d+) (\d+)</p>", shown)
    assert found is not None
    visible, needed = map(int, found.groups())
    assert 350 < visible <= 390
    assert needed <= visible


@pytest.mark.parametrize("grown", [False, True])
def test_of_a_network_that_has_grown_it_is_said_what_dense_means(make_run, grown):
    macs = json.loads((make_run() / "summary.json").read_text())["macs"]
    by_task = [{"dense": macs["dense"] + n * grown, "dense_paper": 1} for n in (0, 1000, 3000)]
    text = _text(write(make_run(macs={**macs, "by_task": by_task})).read_text(encoding="utf-8"))
    assert ("dense network's MACs before it grew" in text) == grown
    assert ("at its last it would be 22,758,600" in text) == grown


def test_gates_and_kept_images_are_shown(make_episodic):
    gates = {"conv1": [[0.5, 0.0], [1.0, 0.0], [0.2, 0.0]], "conv2": [[0.1], [0.1], [0.1]], "conv3": [[1.0], [0], [0]]}
    folder = make_episodic(gates=gates)
    (folder / "pictures").mkdir()
    kept = folder / "pictures" / "memory.png"
    Image.new("L", (8, 4)).save(kept)
    html = write(folder).read_text(encoding="utf-8")
    assert "Gates of conv1" in html
    assert "Gates of conv2" not in html
    assert "Gates of conv3" in html
    assert "1 of 2 never do" in html
    assert 'alt="Some of the images kept, a row for each task"' in html
    kept.write_bytes(kept.read_bytes()[:-3])
    assert "Some of the images kept" not in write(folder).read_text(encoding="utf-8")


def test_what_the_stored_images_are_worth_stands_beside_the_class_incremental_number(make_run, make_episodic):
    classes = {"matrix": [[0.9], [0.7, 0.8]], "average": 0.75, "average_incremental": 0.825, "forgetting": 0.2}
    for make in (make_run, make_episodic):
        page = render(read(make(class_incremental=classes, svm=0.6543)))
        at = page.index("<dt>class-incremental</dt>")
        assert 0 < page.index("<dt>SVM on the stored images</dt>") - at < 200
        assert page.count("0.654") == 2
        assert "<dt>average incremental</dt><dd>0.825</dd>" in page
        assert "SVM" not in render(read(make()))
