"""A name is one of Lockgate's, a registered one, an entry point, or package.module:Attribute."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lockgate
from lockgate.data import DATASETS
from lockgate.errors import ConfigError, PluginError, UnknownNameError
from lockgate.methods import METHODS
from lockgate.methods.finetune import Finetune
from lockgate.plugins import register_backbone, register_dataset, register_method
from lockgate.runs.build import experiment_from
from lockgate.runs.run import run
from lockgate.testing import tiny_experiment

MINE = '''
    from lockgate.methods.finetune import Finetune

    class Mine(Finetune):
        """Forgets, and is mine.

        More about it.
        """
'''
READER = """
    import dataclasses
    from lockgate.data.synthetic import read as synthetic

    def read(data_dir, config):
        return dataclasses.replace(synthetic(data_dir, config), name="mine")
"""


def message(name, registry=METHODS):
    with pytest.raises(UnknownNameError) as caught:
        registry[name]
    return str(caught.value)


# -- package.module:Attribute ------------------------------------------------------------------------------------------


def test_a_module_in_the_current_folder_is_found_when_it_is_named_and_not_before(outside, write):
    write("mine.py", MINE)
    list(METHODS)
    assert "mine" not in sys.modules
    assert METHODS["mine:Mine"].__doc__.startswith("Forgets")
    assert "mine:Mine" in METHODS
    assert METHODS.summary("mine:Mine") == "Forgets, and is mine."


def test_modules_in_packages_and_attributes_of_classes_are_found(outside, write):
    write("pack/__init__.py", "")
    write("pack/deep/mine.py", MINE + "\n    class Box:\n        Inner = Mine\n")
    assert METHODS["pack.deep.mine:Mine"].__name__ == "Mine"
    assert METHODS["pack.deep.mine:Box.Inner"] is METHODS["pack.deep.mine:Mine"]


def test_methods_data_and_networks_are_taken_by_name_from_plain_values(outside, write, tmp_path):
    write("mine.py", MINE + READER)
    write("net.py", "from torch import nn\n\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(768, 5))\n")
    values = {"method": "mine:Mine", "dataset": "mine:read", "backbone": "net:make", "epochs": 1}
    experiment = experiment_from({**tiny_experiment().to_dict(), **values})
    summary = run(experiment, tmp_path / "run")
    assert (summary["method"], summary["dataset"], summary["backbone"]) == ("mine:Mine", "mine:read", "net:make")


def test_a_module_that_is_not_there_says_where_it_was_looked_for(outside, write):
    write("mine.py", MINE)
    told = message("mien:Mine")
    assert f"no module 'mien' in {outside}" in told
    assert "Did you mean 'mine'?" in told
    assert "PYTHONPATH" in told


def test_an_attribute_that_is_not_there_says_which_are(outside, write):
    file = write("mine.py", MINE)
    told = message("mine:Mien")
    assert f"({file}) has no 'Mien'" in told
    assert "'Mine'" in told


@pytest.mark.parametrize("name", ["mine.py:Mine", ":Mine", "mine:", "my-own:Mine", "a/b:Mine"])
def test_a_name_of_another_form_says_which_is_wanted(name, outside):
    assert "must be package.module:Attribute" in message(name)


@pytest.mark.parametrize(
    ("text", "line", "kind"),
    [
        ("x = 1\nimport nowhere_at_all\n", 2, "ModuleNotFoundError"),
        ("def f():\n    return 1 / 0\nf()\n", 2, "ZeroDivisionError"),
        ("x = (\n", 1, "SyntaxError"),
        ("raise SystemExit(3)\n", 1, "SystemExit"),
    ],
)
def test_an_error_inside_the_users_module_is_shown_with_its_place_and_none_of_ours(text, line, kind, outside, write):
    file = write("mine.py", text)
    with pytest.raises(PluginError, match="Importing method 'mine:Mine' failed") as caught:
        METHODS["mine:Mine"]
    told = str(caught.value)
    assert f'File "{file}", line {line}' in told
    assert kind in told
    assert "lockgate/" not in told
    assert "importlib" not in told


def test_several_wrong_names_are_listed_at_once(outside):
    with pytest.raises(ConfigError) as caught:
        experiment_from({"method": "nope:A", "dataset": "digts", "backbone": "nope:B", "epochs": 0})
    assert len(caught.value.problems) == 4


def test_presets_cannot_be_plugged_in(outside):
    from lockgate.presets import PRESETS

    assert "Unknown preset 'mine:Mine'" in message("mine:Mine", PRESETS)


# -- registering -------------------------------------------------------------------------------------------------------


def test_what_is_registered_is_there_by_its_name_with_its_docstring():
    @register_method("mine")
    class Mine(Finetune):
        """Forgets, and is mine."""

    @register_dataset("my-images", summary="Mine too.")
    def read(data_dir, config):
        raise NotImplementedError

    assert METHODS["mine"] is Mine
    assert "mine" in list(METHODS)
    assert METHODS.summary("mine").startswith("Forgets, and is mine.")
    assert DATASETS.summary("my-images").startswith("Mine too.")
    METHODS.unregister("mine")
    assert "mine" not in METHODS


def test_a_name_is_given_once_and_the_same_object_may_take_it_again():
    class Mine(Finetune):
        pass

    class Other(Finetune):
        pass

    register_method("mine")(Mine)
    register_method("mine")(Mine)
    with pytest.raises(ConfigError, match=r"'mine' is taken by .*Mine; register .*Other as another"):
        register_method("mine")(Other)
    with pytest.raises(ConfigError, match="'ccgn' is taken by Lockgate itself"):
        register_method("ccgn")(Mine)
    assert METHODS["mine"] is Mine


def test_two_functions_without_a_name_of_their_own_are_not_taken_for_one():
    readers = [lambda data_dir, config: None for _ in range(2)]
    register_dataset("mine")(readers[0])
    with pytest.raises(ConfigError, match="'mine' is taken by"):
        register_dataset("mine")(readers[1])


def test_a_module_that_is_reloaded_registers_its_new_class(outside, write):
    write(
        "mine.py",
        """
        from lockgate.methods.finetune import Finetune
        from lockgate.plugins import register_method

        @register_method("mine")
        class Mine(Finetune):
            "First."
        """,
    )
    first = METHODS["mine:Mine"]
    assert METHODS["mine"] is first
    second = importlib.reload(sys.modules["mine"]).Mine
    assert second is not first
    assert METHODS["mine"] is second


@pytest.mark.parametrize("name", ["", "a:b", "with space", "../up"])
def test_a_name_that_no_folder_or_flag_could_have_is_refused(name):
    with pytest.raises(ConfigError, match="must be named by letters"):
        register_method(name)(Finetune)


def test_what_is_registered_is_checked_first():
    with pytest.raises(ConfigError, match="'mine' is a int"):
        register_backbone("mine")(3)


# -- entry points ------------------------------------------------------------------------------------------------------


def test_entry_points_are_listed_with_their_package_and_imported_when_named(install):
    install("tiny-pack", "[lockgate.methods]\nmine = tiny_mine:Mine\n", {"tiny_mine.py": MINE})
    assert "mine" in list(METHODS)
    assert METHODS.summary("mine") == "From tiny-pack 1.0: tiny_mine:Mine"
    assert "tiny_mine" not in sys.modules
    assert METHODS["mine"].__doc__.startswith("Forgets")


def test_broken_entry_points_are_named_with_their_package_and_the_rest_is_listed(install):
    points = (
        "[lockgate.methods]\ngone = not_there_at_all:X\nhalf = tiny_mine\nraises = tiny_bad:X\nwrong = tiny_mine:x\n"
    )
    install("tiny-pack", points, {"tiny_mine.py": "x = 1\n", "tiny_bad.py": "import nowhere_at_all\n"})
    listed = {name: METHODS.summary(name) for name in METHODS}
    assert "ccgn" in listed
    assert listed["gone"] == (
        "Broken: tiny-pack 1.0 names the module 'not_there_at_all', which is not there. Reinstall the package."
    )
    assert "Broken: the entry point of tiny-pack 1.0 must be module:Attribute" in listed["half"]
    for name in ("gone", "half"):
        assert "tiny-pack 1.0" in message(name)
    with pytest.raises(PluginError, match=r"method 'raises' of the package tiny-pack 1\.0(.|\n)*nowhere_at_all"):
        METHODS["raises"]
    with pytest.raises(ConfigError, match="method 'wrong' is a int"):
        METHODS["wrong"]


def test_two_packages_with_one_name_and_a_name_of_ours_are_told_apart(install):
    install("pack-a", "[lockgate.methods]\nmine = pack_a:Mine\nccgn = pack_a:Mine\n", {"pack_a.py": MINE})
    install("pack-b", "[lockgate.methods]\nmine = pack_b:Mine\n", {"pack_b.py": MINE})
    told = message("mine")
    assert "pack-a 1.0: pack_a:Mine" in told
    assert "pack-b 1.0: pack_b:Mine" in told
    assert METHODS["pack_b:Mine"].__module__ == "pack_b"
    assert METHODS["ccgn"].__module__.startswith("lockgate.")
    assert METHODS.shadowed() == ["pack-a 1.0 offers another 'ccgn': name it pack_a:Mine"]
    with pytest.raises(ConfigError, match=r"is taken by pack-"):
        register_method("mine")(Finetune)


def test_the_command_lists_plug_ins_and_explains_their_options(install, write, command):
    site = install("tiny-pack", "[lockgate.methods]\nmine = tiny_mine:Mine\n", {"tiny_mine.py": MINE})
    listed = command("list", "methods", path=str(site))
    assert listed.returncode == 0
    assert "  mine             From tiny-pack 1.0: tiny_mine:Mine" in listed.stdout.splitlines()
    assert command("list", "mine", path=str(site)).stdout == "mine has no options of its own.\n"


def test_the_command_lists_names_without_importing_torch(install):
    site = install("tiny-pack", "[lockgate.methods]\nmine = tiny_mine:Mine\n", {"tiny_mine.py": MINE})
    path = os.pathsep.join([str(site), str(Path(lockgate.__file__).parents[1])])
    code = (
        "import sys; from lockgate.cli.main import main; main(['list', 'methods']); assert 'torch' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "tiny-pack 1.0" in done.stdout


def test_data_of_ones_own_are_learnt_from_the_command_line_with_a_preset(write, command):
    write("mine.py", READER)
    done = command("run", "--method", "finetune", "--dataset", "mine:read", "--epochs", "1", "--out", "out")
    assert done.returncode == 0, done.stderr
    refused = command("run", "paper", "--dataset", "mine:read", "--out", "other")
    assert refused.returncode == 2
    assert "The preset 'paper' has no schedule for 'mine:read'" in refused.stderr
