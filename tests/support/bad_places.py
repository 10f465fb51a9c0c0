"""Places for mistakes: models and runs that are damaged, folders that are no tasks, files that are no settings."""

from __future__ import annotations

import shutil
from pathlib import Path

from PIL import Image

from tests.support.folders import write


def make(root: Path, taught: Path, ccgn: Path, finetune: Path) -> dict[str, str]:
    """All places by the name they have in the table. ``NEW`` and ``NOWHERE`` are not there."""
    made = {"LONG": "x" * 101}
    for name, source in (("MODEL", taught / "model"), ("PETS", taught / "pets"), ("TOOLS", taught / "tools")):
        made[name] = str(shutil.copytree(source, root / name.lower()))
    for name, source in (("RUN", ccgn), ("FINETUNE", finetune)):
        made[name] = str(shutil.copytree(source, root / name.lower()))
    for name in ("NEW", "NOWHERE"):
        made[name] = str(root / name.lower())
    return made | _models(root, taught / "model") | _tasks(root) | _files(root)


def _models(root: Path, model: Path) -> dict[str, str]:
    """A model with a damaged network, one without and one with a broken description, one with records cut off."""
    made = {name: Path(shutil.copytree(model, root / name.lower())) for name in ("DAMAGED", "NOYAML", "BADYAML", "CUT")}
    with (max((made["DAMAGED"] / "checkpoints").glob("*-task")) / "learner.safetensors").open("ab") as file:
        file.write(b"x")
    (made["NOYAML"] / "model.yaml").unlink()
    (made["BADYAML"] / "model.yaml").write_text("method: [\n")
    records = made["CUT"] / "records.jsonl"
    records.write_bytes(records.read_bytes()[:100])
    return {name: str(path) for name, path in made.items()}


def _tasks(root: Path) -> dict[str, str]:
    """Folders that are no tasks, or not all by themselves."""
    write(root / "newtask", {"ferry": 4, "tug": 4})
    write(root / "copy", {"cat": 4, "yak": 4})
    write(root / "alone", {"ferry": 4})
    write(root / "few", {"ferry": 4, "tug": 2})
    write(root / "nested", {"ferry": 4, "tug": 4})
    (root / "nested" / "ferry" / "old").mkdir()
    write(root / "hollow", {"ferry": 4})
    (root / "hollow" / "tug").mkdir()
    (root / "empty").mkdir()
    shutil.copytree(root / "alone" / "ferry", root / "flat")
    for name in ("ferry", "tug"):
        (root / "texts" / name).mkdir(parents=True)
        (root / "deep" / name).mkdir(parents=True)
        for i in range(4):
            (root / "texts" / name / f"{i}.png").write_text("no picture")
            Image.new("I;16", (8, 8)).save(root / "deep" / name / f"{i}.png")
    names = ("NEWTASK", "COPY", "ALONE", "FEW", "NESTED", "HOLLOW", "EMPTY", "FLAT", "TEXTS", "DEEP")
    return {name: str(root / name.lower()) for name in names} | {"CAT": str(root / "pets" / "cat" / "000.png")}


def _files(root: Path) -> dict[str, str]:
    contents = {
        "FILE": ("file.txt", b"text\n"),
        "BLANK": ("blank", b"\n"),
        "YAML_BROKEN": ("broken.yaml", b"method: [\n"),
        "YAML_LIST": ("list.yaml", b"- 1\n"),
        "YAML_EMPTY": ("nothing.yaml", b""),
        "YAML_KEY": ("key.yaml", b"methood: er\n"),
        "YAML_PRESET": ("preset.yaml", b"preset: shorts\n"),
        "YAML_TWICE": ("twice.yaml", b"method: ccgn\noptim:\n  lr: 1\n  lr: 2\nmethod: er\n"),
        "YAML_LOOP": ("loop.yaml", b"optim: &a\n  lr: *a\n"),
        "YAML_BYTES": ("bytes.yaml", b"\xff\xfe"),
    }
    for name, content in contents.values():
        (root / name).write_bytes(content)
    return {key: str(root / name) for key, (name, _) in contents.items()}
