"""verify=sample: a chip that computes something wrong is named while inferences go on."""

import json

from tests.kernel.board import Board
from tests.worse import everywhere

WORKER = """
import json, os, sys
from pathlib import Path
import numpy as np
from delegate.host.delegated import DelegatedModel
from delegate.options import Options
from tests.kernel.small_models import MODELS
from tests.kernel.standin_calls import take_violations
path = Path(sys.argv[1])
path.write_bytes(MODELS["residual"]())
options = {"device": sys.argv[2], "verify": "sample"}
model = DelegatedModel.load(path, Options.from_mapping(options))
arrays = [np.full(d["shape"], 7, d["dtype"]) for d in model.inputs]
model.run(arrays)  # the first inference is compared in any case
os.environ["RK3588_SIM_BREAK"] = sys.argv[3]  # the chip wears out
sums = {int(out.astype(np.int64).sum()) for _ in range(205) for out in model.run(arrays)}
del model
print(json.dumps({"sums": len(sums), "violations": take_violations()}))
"""


def run(board: Board, device: str, broken: str = "") -> tuple[dict[str, object], str]:
    done = board.python("-c", WORKER, str(board.root / "m.tflite"), device, broken)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_a_healthy_chip_is_never_named(board: Board):
    for device, add in (("rocket", board.add_rocket), ("rknpu", board.add_rknpu)):
        add()
        facts, log = run(board, device)
        assert facts == {"sums": 1, "violations": []}
        assert "verify=sample" not in log


def test_the_first_layer_that_differs_is_named_once(board: Board):
    board.add_rocket()
    facts, log = run(board, "rocket", everywhere("ew:addition_zeros"))
    assert facts == {"sums": 1, "violations": []}
    assert log.count("verify=sample") == 1
    assert "differ from the simulator, first in " in log
