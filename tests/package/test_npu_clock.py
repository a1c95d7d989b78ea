"""The NPU's clock from whatever kernels show of it, and what doctor says of it."""

from pathlib import Path

import pytest

from delegate.host.host_facts import autosuspend_ms, npu_clock_hz
from delegate.insight import doctor
from delegate.options import Options

SCMI = "sys/kernel/debug/clk/scmi_clk_npu/clk_rate"
DEVFREQ = "sys/class/devfreq/fdab0000.npu/cur_freq"
SUMMARY = "sys/kernel/debug/clk/clk_summary"
TREE = """\
                                 enable  prepare  protect                                duty  hardware
   clock                          count    count    count        rate   accuracy phase  cycle    enable   consumer
------------------------------------------------------------------------------------------------------
 scmi_clk_gpu                        1       2        0   800000000          0     0  50000         Y   fb000000.gpu   core
    aclk_npu1                        1       2        0   400000000          0     0  50000         Y      fdac0000.npu   aclk
    hclk_npu1                        1       2        0   198000000          0     0  50000         Y      fdac0000.npu   hclk
 clk_of_the_npu                      2       3        0   600000000          0     0  50000         Y   fdab0000.npu   npu
"""  # noqa: E501


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({SCMI: "200000000\n"}, 200_000_000),
        ({DEVFREQ: "1000000000\n"}, 1_000_000_000),
        ({SUMMARY: TREE}, 600_000_000),
        ({SUMMARY: TREE.replace("fdab0000.npu", "deviceless  ")}, None),
        ({"sys/kernel/debug/rknpu/freq": "300000000\n"}, 300_000_000),
        ({SCMI: "off\n", DEVFREQ: "-1\n"}, None),
        ({SCMI: "0\n", DEVFREQ: "700000000\n"}, 700_000_000),
        ({SCMI: "200000000\n", DEVFREQ: "700000000\n", SUMMARY: TREE}, 200_000_000),
    ],
)
def test_the_clock_is_where_a_kernel_shows_it(
    tmp_path: Path, files: dict[str, str], expected: int | None
) -> None:
    for name, text in files.items():
        write(tmp_path, name, text)
    assert npu_clock_hz(tmp_path) == expected


def test_the_shortest_delay_of_the_cores_counts(tmp_path: Path) -> None:
    assert autosuspend_ms(tmp_path) is None
    for core, text in (("fdab0000", "2000\n"), ("fdac0000", "50\n"), ("fdad0000", "\n")):
        write(tmp_path, f"sys/bus/platform/devices/{core}.npu/power/autosuspend_delay_ms", text)
    assert autosuspend_ms(tmp_path) == 50


def findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return the findings about the clock of a board with rocket's node."""
    node = doctor.Node(
        "/dev/accel/accel0", "rocket", "1.0", "usable", True, "0o660", "render", True, None
    )
    monkeypatch.setattr(doctor, "find_nodes", lambda root: (node,))
    facts = doctor.examine(Options(), tmp_path)
    words = ("clock", "MHz", "idle")
    return [(f.level, f.text) for f in facts.findings if any(word in f.text for word in words)]


def test_doctor_tells_a_clock_after_boot_from_one_that_was_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (unknown,) = findings(tmp_path, monkeypatch)
    assert unknown == ("note", "the NPU's clock is unknown (debugfs needs root)")
    write(tmp_path, SCMI, "200000000\n")
    ((level, text),) = findings(tmp_path, monkeypatch)
    assert level == "note"
    assert "200 MHz now" in text
    write(tmp_path, SCMI, "600000000\n")
    assert findings(tmp_path, monkeypatch) == [("ok", "the NPU runs at 600 MHz now")]


def test_doctor_warns_of_cores_that_park_the_clock_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, SCMI, "600000000\n")
    delay = "sys/bus/platform/devices/fdab0000.npu/power/autosuspend_delay_ms"
    write(tmp_path, delay, "50\n")
    level, text = findings(tmp_path, monkeypatch)[1]
    assert level == "note"
    assert "idle for 50 ms" in text
    assert "all cores" in text
    write(tmp_path, delay, "2000\n")
    assert len(findings(tmp_path, monkeypatch)) == 1
