"""``trace``: inferences as a Chrome trace for ui.perfetto.dev."""

from __future__ import annotations

import argparse
import json

from delegate.cli.command import Command, options_from, print_json, warn_if_on_cpu
from delegate.cli.files import check_writable, write_file
from delegate.cli.table import print_pairs
from delegate.progress import progress


def _run(arguments: argparse.Namespace) -> int:
    from delegate.cli.files import sample_source
    from delegate.compile.compiler import compile_model
    from delegate.host.delegated import DelegatedModel
    from delegate.insight.inferences import run_inferences
    from delegate.insight.trace import chrome_trace

    check_writable(arguments.output)
    options = options_from(arguments, wants_all=True)
    result = compile_model(arguments.model, options)
    model = DelegatedModel.load(arguments.model, options)
    sample = sample_source(arguments)(model.inputs)
    count = arguments.warmup + arguments.runs
    with progress("running", count) as bar:
        inferences = run_inferences(model, result, sample, count, bar.advance)
    document = chrome_trace(
        inferences[arguments.warmup :], result, model.device, arguments.model.name
    )
    write_file(arguments.output, (json.dumps(document, allow_nan=False) + "\n").encode())
    facts = {
        "output": str(arguments.output),
        "device": model.device,
        "inferences": arguments.runs,
        "partitions": model.delegation.partitions,
        "events": len(document["traceEvents"]),
        "npu_times": document["otherData"]["npu_times"],
    }
    if arguments.json:
        print_json(facts)
    else:
        print_pairs(*((name.replace("_", " "), value) for name, value in facts.items()))
        print("open it at https://ui.perfetto.dev or chrome://tracing")
    warn_if_on_cpu(arguments.model, model.delegation.delegated_nodes)
    return 0


COMMAND = Command(
    _run,
    """
trace: Write a Chrome trace of inferences: partitions, jobs, layers, tasks, CPU operators.

model MODEL:path  a .tflite file
-o --output T.json:path!  where the trace goes
--runs N:positive=3  inferences in the trace (default 3)
--warmup N:natural=1  inferences before it (default 1)
--image FILE:path  the input: a picture
--seed N:natural=0  of random inputs (default 0)

trace mobilenet_v1_1.0_224_quant.tflite -o trace.json
trace model.tflite -o trace.json --runs 10 --image cat.jpg
""",
    takes_options=True,
)
