"""Faults of kernel and device: a clear error or right results, no leak, and life goes on."""

from tests.kernel.fault_table import MARK, PAGE, Result, measure, table

DEVICES = ("rocket", "rknpu")
# Repeated by the host until the driver takes the request.
TRANSIENT = ("EINTR", "EAGAIN", "slow:20")
# What a wait answers that is not done yet.
UNFINISHED = ("EBUSY",)
# The end of a life cannot fail: what the kernel refuses there it frees with the file.
RELEASING = ("GEM_CLOSE", "MEM_DESTROY")


def is_repeated(result: Result) -> bool:
    """rknpu answers EINVAL to a job that was reset with another one: on a core that ran jobs
    before, and on one that the part may not have, the run is repeated. Rocket has no such answer.
    """
    is_rknpu = "accel" not in result["text"]
    return is_rknpu and result["call"] == "SUBMIT" and result["action"] == "EINVAL"


def test_every_fault_ends_well_as_the_page_says(tmp_path, standin_library):
    measured = {device: measure(tmp_path, device) for device in DEVICES}
    for device, (results, _) in measured.items():
        ends_well(device, results)
        names_the_layer(results)
    page = PAGE.read_text(encoding="utf-8")
    _, mark, found = page.partition(MARK)
    assert mark
    assert found.strip() == table(measured).strip(), "python -m tests.kernel.fault_table"


def ends_well(device: str, results: list[Result]) -> None:
    assert len(results) > 300
    for result in results:
        place = f"{result['call']}@{result['site']}={result['action']}"
        is_unfinished = result["call"] == "PREP_BO" and result["action"] in UNFINISHED
        at_the_end = not result["met"]  # with all results in hand
        if is_repeated(result):
            assert result["outcome"] in ("right results", "error"), place
        elif (
            result["action"] in TRANSIENT
            or is_unfinished
            or at_the_end
            or (result["call"] in RELEASING)
        ):
            assert result["outcome"] == "right results", place
        else:
            assert result["outcome"] == "error", place
            text = result["text"]
            assert "\n" not in text, place
            assert device in text or "/dev/" in text, (place, text)
            assert "; " in text or "see dmesg" in text, (place, text)  # a remedy
        assert result["recovered"], (place, result["text"])
        assert result["live"] == [0, 0, 0], place
        allowed = result["call"] in RELEASING
        assert result["violations"] == [] or allowed, (place, result["violations"])


def names_the_layer(results: list[Result]) -> None:
    """Check what is told of time-outs and lost jobs."""
    for result in results:
        if result["action"].startswith(("hang", "lost")):
            assert "CONV_2D" in result["text"] or "ADD" in result["text"], result
    first = next(r for r in results if r["action"] == "hang:1" and r["site"] == 1)
    assert "first task without a result" in first["text"]
