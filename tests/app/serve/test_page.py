"""The page in a browser: drop an image, read the answer; on a desk and on a phone."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from tests.app.serve.test_app import address, folder, png  # noqa: F401  fixtures
from tests.app.serve.test_service import served
from tests.support.chromium import CHROMIUM, Page
from tests.support.folders import QUICK, images, teach, write

from lockgate.app.trained import open_trained

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed here")


@pytest.mark.parametrize(("width", "height"), [(1100, 900), (390, 844)])
def test_a_dropped_image_is_answered(address: str, folder: Path, width: int, height: int) -> None:  # noqa: F811
    import torch

    image = images("dog", 1, 3)[0]
    best = open_trained(folder / "model").ask(torch.from_numpy(image)[None, None])[0][0]
    with Page(address, width, height) as page:
        page.wait("document.querySelectorAll('#known li').length === 2")
        page.drop("#drop", "dog.png", "image/png", png(image))
        page.wait("document.querySelector('#answer h2')")
        assert page.run("document.querySelector('#answer h2').textContent") == best.name
        assert f"task {best.task}, confidence {100 * best.confidence:.1f} %" in page.run("document.body.innerText")
        labels = page.run("[...document.querySelectorAll('.gates')].map(e => e.getAttribute('aria-label'))")
        assert [label.split(":")[0] for label in labels] == ["conv1", "conv2", "conv3"]
        assert page.run("[...document.images].every(image => image.alt)"), "every picture says what it is"
        assert page.run("document.documentElement.scrollWidth") <= width, "nothing sticks out"
        shot = Image.open(io.BytesIO(page.screenshot()))
        assert shot.width == width
        assert len(shot.convert("RGB").getcolors(2**24)) > 50, "there is something to see"
        page.drop("#drop", "notes.png", "image/png", b"no picture at all")
        page.wait("document.querySelector('#answer .refused')")
        assert "not an image" in page.run("document.querySelector('#answer').textContent")


LONG = "Donaudampfschifffahrtsgesellschaftskapitaenswitwenversicherung_ohne_ein_einziges_Leerzeichen"


def test_long_names_stick_out_nowhere_in_light_and_dark(tmp_path: Path) -> None:
    write(tmp_path / "images", {LONG: 6, "a name like a sentence, with blanks and commas in it": 6})
    teach(tmp_path / "model", tmp_path / "images", replace(QUICK, epochs=1), name="x" * 100)
    with served(tmp_path / "model") as (where, _), Page(where, 1280, 900) as page:
        page.wait("document.querySelectorAll('#known li').length === 1")
        shots = {}
        for width, theme in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]:
            page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
            metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600}
            page.call("Emulation.setDeviceMetricsOverride", **metrics)
            page.run("document.querySelector('#answer').replaceChildren()")
            page.drop("#drop", "ship.png", "image/png", png(images(LONG, 1, 3)[0]))
            page.wait("document.querySelectorAll('.bars tr').length === 2")
            page.wait("!document.querySelector('#gatesbox').hidden")
            assert page.run("document.documentElement.scrollWidth") <= width, (width, theme)
            shots[width, theme] = Image.open(io.BytesIO(page.screenshot())).convert("L").resize((1, 1)).getpixel((0, 0))
        assert all(shots[width, "light"] > 150 > shots[width, "dark"] for width in (1280, 390)), shots


def test_a_page_that_needs_a_token_asks_for_it(folder: Path) -> None:  # noqa: F811
    with served(folder / "model", token="sesame") as (where, _), Page(where, 390, 844) as page:
        page.wait("!document.querySelector('#locked').hidden")
        assert page.run("document.documentElement.scrollWidth") <= 390
        page.run("document.querySelector('#token').value = 'sesame'; document.querySelector('#locked button').click()")
        page.wait("document.querySelectorAll('#known li').length === 2")
        assert page.run("document.querySelector('#locked').hidden")
