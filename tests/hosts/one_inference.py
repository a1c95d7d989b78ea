"""One inference through the installed runtime and the delegate, as a line that can be compared.

``python -m tests.hosts.one_inference``; used by tools/aarch64.sh on two architectures.
"""

import hashlib
from pathlib import Path

from tests.aot.models import rich_model, two_programs_model
from tests.hosts.conftest import compiled, run_in_python

DIGITS = Path(__file__).resolve().parents[2] / "models" / "digits" / "digits_int8.tflite"


def main() -> None:
    for name, model in (
        ("rich model", rich_model()),
        ("rich model, compiled", compiled(rich_model())),
        ("two programs", two_programs_model()),
        ("digits", DIGITS.read_bytes()),
    ):
        _, output = run_in_python(model)
        print(name, len(output), hashlib.sha256(output).hexdigest()[:16], flush=True)
    # Compiling is part of the comparison: the programs themselves must be the same bytes.
    print("compiled file", hashlib.sha256(compiled(rich_model())).hexdigest()[:16])


if __name__ == "__main__":
    main()
