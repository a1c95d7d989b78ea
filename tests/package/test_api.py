"""The public functions: what they give, and that their page is not stale."""

import re
import shutil
from pathlib import Path

import pytest

import delegate
from delegate.errors import ModelError, OptionError
from delegate.host.library import find_devices
from delegate.ops import OPERATORS

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "digits" / "digits_int8.tflite"


def test_every_public_name_exists_and_is_documented():
    for name in delegate.__all__:
        assert getattr(delegate, name) is not None
        if callable(getattr(delegate, name)):
            assert getattr(delegate, name).__doc__


def test_readme_classifies_in_three_lines(tmp_path, monkeypatch, capsys):
    pytest.importorskip("PIL")
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    code = block[1]
    assert len(code.splitlines()) == 3
    for name, file in (
        ("cat.jpg", "images/digit_4.png"),
        ("mobilenet_v1_1.0_224_quant.tflite", "digits_int8.tflite"),
        ("labels.txt", "labels.txt"),
    ):
        assert name in code
        shutil.copy(MODEL.parent / file, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[0].split()[1] == "4"


def test_compile_model_reports_every_node():
    result = delegate.compile_model(MODEL)
    delegated = [node for item in result.partitions for node in item.partition.delegated]
    rejected = [rejection.node for rejection in result.rejections]
    assert sorted(delegated + rejected) == list(range(result.total_nodes))
    assert result.delegated_nodes == len(delegated)


def test_compile_ahead_of_time_gives_a_model():
    content = delegate.compile_ahead_of_time(MODEL)
    assert content[4:8] == b"TFL3"
    assert b"rk3588-npu" in content


def test_bad_arguments_are_the_projects_errors(tmp_path):
    with pytest.raises(ModelError, match="no such file"):
        delegate.compile_model(tmp_path / "absent.tflite")
    with pytest.raises(OptionError, match="unknown option"):
        delegate.compile_ahead_of_time(MODEL, devise="null")


def test_simulator_and_null_are_always_there():
    names = [device.name for device in delegate.devices()]
    assert names[-2:] == ["simulator", "null"]
    assert all(device.is_usable for device in delegate.devices() if not device.is_npu)


def test_machine_without_a_driver_has_no_npu(tmp_path):
    assert not any(device.is_npu for device in find_devices(str(tmp_path)))


def test_supported_ops_are_those_of_the_constraints():
    assert {item.op for item in delegate.supported_ops()} == set(OPERATORS)
    assert all(item.rules for item in delegate.supported_ops())
