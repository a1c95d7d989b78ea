"""Tests how the product meets what the vendor's driver was seen to do."""

import errno
import json
import time

import pytest

from delegate.host.npu_presence import Cores as FoundCores
from delegate.host.npu_presence import Node, presence_findings
from tests.kernel.board import RKNPU_CARD, RKNPU_DELAY, RKNPU_NODE, Board
from tests.kernel.test_commands import CLASSIFY, command, facts_of
from tests.kernel.test_life import alive, running

HANG = "no result after 300 ms"
RESET = "because another one passed its time-out and the NPU was reset"


def test_a_hang_hurts_nobody_else(board: Board):
    """Four streams on three cores: one hangs, two are reset with it (one returns before it, one
    after), one waits. More come while the driver resets and while the NPU must rest.
    """
    board.add_rknpu(rest_ms=200, reset_ms=200, hang_ms=60_000)
    answer = board.work(
        "rknpu", what="streams", timeouts_ms=[300, 20_000, 20_000, 20_000], others=2,
        faults="SUBMIT@1=hang:0 SUBMIT@2=long:400 SUBMIT@3=long:800",
    )  # fmt: skip
    first, *others = answer["outcomes"]
    assert HANG in first
    assert others == ["right"] * 3
    assert answer["others"] == ["right"]
    assert set(answer["masks"]) == {"1", "2", "4"}


def test_nothing_is_submitted_between_a_time_out_and_its_return(board: Board):
    """The second stream comes when the first is past its time-out; two cores are free."""
    board.add_rknpu(reset_ms=1500, hang_ms=60_000)
    answer = board.work(
        "rknpu", what="streams", timeouts_ms=[300, 20_000], pause_s=0.6, faults="SUBMIT@1=hang:0"
    )
    assert HANG in answer["outcomes"][0]
    assert answer["outcomes"][1] == "right"


def test_a_stream_that_is_reset_twice_says_why(board: Board):
    board.add_rknpu()
    answer = board.work("rknpu", what="runs", faults="SUBMIT@2=EINVAL*2", runs=3)
    first, second, third = answer["outcomes"]
    assert first == third == "right"
    assert RESET in second


def test_a_reset_that_nobody_saw_is_tried_once_again(board: Board):
    answer = board.add_rknpu().work("rknpu", what="runs", faults="SUBMIT@2=EINVAL", runs=2)
    assert answer["outcomes"] == ["right", "right"]


def test_without_the_drivers_own_figure_the_rest_is_three_seconds(board: Board):
    board.add_rknpu(rest_ms=3000, reset_ms=10, hang_ms=60_000)
    (board.root / RKNPU_DELAY).unlink()
    faults = "SUBMIT@1=hang:0 SUBMIT@2=long:400"
    answer = board.work("rknpu", what="streams", timeouts_ms=[300, 20_000], faults=faults)
    assert HANG in answer["outcomes"][0]
    assert answer["outcomes"][1] == "right"
    assert 3 < answer["seconds"] < 60


def test_repeats_after_a_reset_are_counted(board: Board):
    board.add_rknpu(rest_ms=200, reset_ms=10)
    answer = board.work("rknpu", what="counted", faults="SUBMIT@2=EINVAL", runs=3)
    assert (answer["runs"], answer["errors"], answer["repeats"]) == (3, 0, 1)
    assert all(name.startswith("rknpu") for name in answer["devices"])


def test_whoever_opens_the_device_after_a_reset_finds_it_rested(board: Board):
    board.add_rknpu(rest_ms=1000, reset_ms=10, hang_ms=60_000)
    answer = board.work("rknpu", what="reopened")
    assert HANG in answer["outcomes"][0]
    assert answer["outcomes"][1] == "right"


def test_a_program_that_exits_after_a_reset_keeps_the_device_until_the_npu_has_rested(board: Board):
    board.add_rknpu(rest_ms=4000, reset_ms=10, hang_ms=60_000)
    start = time.monotonic()
    given = json.dumps({"what": "reopened", "exits": True})
    done = board.python("-m", "tests.kernel.work", "rknpu", given)
    assert HANG in done.stdout
    assert time.monotonic() - start > 5


def test_the_rest_lasts_until_the_system_says_that_the_power_is_off(board: Board):
    """The driver's work that takes it away comes late, or never."""
    board.add_rknpu(rest_ms=1000, reset_ms=10, hang_ms=60_000)
    status = board.root / "sys/class/drm/renderD128/device/power/runtime_status"
    status.parent.mkdir(parents=True, exist_ok=True)
    for off_after_s, least_s, most_s in ((0, 0.9, 2), (1.8, 1.8, 2.4), (60, 2.4, 5)):
        status.write_text("active\n")
        answer = board.work("rknpu", what="powered", status=str(status), off_after_s=off_after_s)
        assert HANG in answer["outcomes"][0]
        assert answer["outcomes"][1] == "right"
        assert least_s < answer["rested_s"] < most_s, off_after_s


def test_a_core_that_is_never_free_is_an_error(board: Board):
    """Another job never returns."""
    board.add_rknpu()
    answer = board.work(
        "rknpu", what="streams", timeouts_ms=[60_000, 50], cores="0", warm_up=False,
        faults="SUBMIT@1=long:2000",
    )  # fmt: skip
    assert answer["outcomes"][0] == "right"
    assert "no core was free in three times 50 ms" in answer["outcomes"][1]


def test_a_part_with_two_cores(board: Board):
    board.add_rknpu(cores=2)
    for cores in ("auto", "all", "1,2"):
        answer = board.work(
            "threads", device="rknpu", cores=cores, threads=4, invokes=6, timeout=600,
            models=["conv", "residual", "digits"],
        )  # fmt: skip
        assert answer["failures"] == []


def test_a_core_that_the_part_lacks_is_named(board: Board):
    answer = board.add_rknpu(cores=2).work("rknpu", what="runs", cores="2", runs=2)
    for text in answer["outcomes"]:
        assert "this part has none of the cores asked for" in text


def test_incomplete_synchronisation_is_found_and_avoided(board: Board):
    board.add_rknpu(sync_bytes=1024)
    answer = board.work("models", device="rknpu", models=["tiled conv", "digits"])
    for name, facts in answer["models"].items():
        assert facts["equal"], name
        assert "MEM_SYNC" not in facts["requests"][1], name


@pytest.mark.parametrize("fault", ["MEM_CREATE@1=ENOMEM", "mmap@1=ENOMEM", "MEM_SYNC@1=EIO",
                                   "MEM_SYNC@2=EIO", "MEM_MAP@1=EINVAL"])  # fmt: skip
def test_a_check_at_the_start_that_fails_is_an_error(board: Board, fault: str):
    done = command(board.add_rknpu(), *CLASSIFY, faults=fault)
    assert done.returncode != 0
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "/dev/dri/renderD128" in done.stderr


def add_misc_node(board: Board) -> None:
    node = board.root / "dev/rknpu"
    node.parent.mkdir(parents=True)
    node.write_text("driver=rknpu-misc\n")


@pytest.mark.parametrize("device", ["auto", "rknpu", "/dev/rknpu"])
def test_a_kernel_built_for_dma_heaps_is_explained(board: Board, device: str):
    add_misc_node(board)
    done = command(board, *CLASSIFY, "--device", device, RK3588_STANDIN_VERBOSE="1")
    assert done.returncode != 0
    assert "built for DMA heaps" in done.stderr
    assert "CONFIG_ROCKCHIP_RKNPU_DRM_GEM" in done.stderr
    assert "stand-in kernel" not in done.stderr  # nothing was asked of it


def test_doctor_explains_a_kernel_built_for_dma_heaps(board: Board):
    add_misc_node(board)
    facts = facts_of(board, "doctor", "--no-self-test")
    assert "built for DMA heaps" in facts["verdict"]
    assert "CONFIG_ROCKCHIP_RKNPU_DRM_GEM" in facts["next_step"]


def test_memory_is_looked_at_before_it_is_asked_for(board: Board):
    board.add_rknpu()
    (board.root / "proc").mkdir()
    (board.root / "proc/meminfo").write_text("MemTotal: 99 kB\nMemAvailable:   61440 kB\n")
    done = command(board, *CLASSIFY)
    assert done.returncode != 0
    assert "only 60 MiB of memory are available" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_an_address_space_that_is_full_is_named(board: Board):
    done = command(board.add_rknpu(address_space_bytes=4 << 20), *CLASSIFY)
    assert done.returncode != 0
    assert "device address space that is full" in done.stderr


def test_both_nodes_of_the_device_are_one(board: Board):
    answer = board.add_rknpu().work("rknpu", what="nodes")
    assert answer["runs"] == ["right", "right"]
    assert answer["files"] == 1
    with alive(board, "/dev/dri/card0", "hold"):
        assert "another process uses the NPU" in running(board, "rknpu").stderr


def test_shared_memory_is_read_and_written_by_the_npu_itself(board: Board):
    """Two interpreters with three memories on one side and two on the other. Nothing that the
    driver gave for them is left once they are taken away.
    """
    answer = board.add_rknpu().work("rknpu", what="shared")
    assert answer["in_place"] == [14, 14]
    assert answer["imports"] == 2 * 6 * 2  # six pairs of memories take turns
    assert answer["right"]
    assert answer["grown"] == [0, 0, 0]


def test_memory_that_the_driver_refuses_is_converted(board: Board):
    """The first pair of memories, of two of seven runs, cannot be imported; asked for once."""
    faults = "PRIME_FD_TO_HANDLE@1=EINVAL PRIME_FD_TO_HANDLE@12=ENOMEM"
    answer = board.add_rknpu().work("rknpu", what="shared", faults=faults)
    assert answer["in_place"] == [10, 10]
    assert answer["imports"] == 2 * (1 + 5 * 2)
    assert answer["right"]
    assert answer["grown"] == [0, 0, 0]


def test_rocket_converts_what_is_in_shared_memory(board: Board):
    """It has no way to an address but for buffers of its own."""
    answer = board.add_rocket().work("rknpu", what="shared", device="rocket")
    assert answer["in_place"] == [0, 0]
    assert answer["right"]
    assert answer["grown"] == [0, 0, 0]


def test_doctor_lists_the_device_once(board: Board):
    board.add_rknpu()
    facts = facts_of(board, "doctor", "--no-self-test")
    assert [node["path"] for node in facts["nodes"]] == ["/" + RKNPU_NODE]
    (board.root / RKNPU_NODE).unlink()
    facts = facts_of(board, "doctor", "--no-self-test")
    assert [node["path"] for node in facts["nodes"]] == ["/" + RKNPU_CARD]


def test_the_udev_rule_is_of_the_npu_only():
    node = Node(
        "/dev/dri/renderD128", "rknpu", "0.9.8", "usable", True, "0o600", "root", True, None
    )
    _, note = presence_findings((node,), FoundCores("rknpu", 1, 1, False), "auto")
    assert 'DRIVERS=="RKNPU"' in note.remedy


def test_the_stand_in_answers_as_the_driver_does(board: Board):
    answer = board.add_rknpu(address_space_bytes=1 << 24).work("rknpu", what="answers")
    expected = {
        "unknown request": errno.EINVAL,
        "create of no bytes": errno.EINVAL,
        "create of an old handle": True,
        "create with unknown flags": 0,
        "create in SRAM": 0,
        "map of no handle": errno.ENOENT,
        "map with reserved set": 0,
        "sync outside": 0,
        "sync of no bytes": 0,
        "sync in no direction": 0,
        "sync in both": 0,
        "sync without cache": errno.EINVAL,
        "sync of no object": errno.EINVAL,
        "destroy of no handle": errno.EINVAL,
        "actions": [0, 0, 0],
        "unknown action": errno.EINVAL,
        "private mapping": 0,
        "freed handle again": True,
        "address space full": errno.EFAULT,
    }
    assert {question: answer[question] for question in expected} == expected
