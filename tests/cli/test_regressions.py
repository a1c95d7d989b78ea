"""Models that once were wrong or crashed, through ``compare --per-op``."""

import pytest

from tests.cli.conftest import Run
from tests.shared_folder import SHARED

INPUTS = {"coarse": "coarse.npy", "add_const_batch2": "add.npy"}
"""The inputs that showed a defect; other models showed theirs with any values."""

VERDICTS = {
    "coarse": "equal",
    "add_const_batch2": "equal",
    "dilated_neighbour": "equal",
    # Its nodes read what nobody has written.
    "cycle": "nothing was delegated: the runtime's own results differ from run to run",
}


LEFT_TO_THE_CPU = {"cycle", "rsqrt_large_multiplier", "hard_swish_coarse_output"}
"""Nodes whose results TensorFlow Lite's kernels leave undefined, but for the first."""


@pytest.mark.skipif(not (SHARED / "regressions").is_dir(), reason=f"{SHARED} has no regressions")
def test_no_old_defect_is_back(run: Run) -> None:
    files = sorted((SHARED / "regressions").glob("*.tflite"))
    assert {file.stem for file in files} >= VERDICTS.keys()
    for file in files:
        inputs = INPUTS.get(file.stem)
        values = ("--input", file.with_name(inputs)) if inputs else ("--random", 1)
        outcome = run("compare", file, "--per-op", *values, "--json")
        assert outcome.code == 0, file
        assert outcome.json["verdict"] in (VERDICTS.get(file.stem, "equal"), "equal"), file
        delegated = {op["op"] for op in outcome.json["ops"]}
        assert bool(delegated) == (file.stem not in LEFT_TO_THE_CPU), file
