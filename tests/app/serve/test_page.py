"""The page in a browser: drop an image, read the answer; on a desk and on a phone."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image
from tests.app.serve.test_app import address, folder, png  # noqa: F401  fixtures
from tests.support.chromium import CHROMIUM, Page
from tests.support.folders import images

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
