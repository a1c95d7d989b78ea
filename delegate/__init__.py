"""TensorFlow Lite external delegate for the Rockchip RK3588 NPU.

``load_delegate(**options)`` gives a delegate for ``Interpreter(experimental_delegates=[...])`` of
whichever runtime is installed; ``library_path()`` the shared object for hosts that load it
themselves, ``litert_environment(**options)`` the same for LiteRT's ``CompiledModel``;
``compile_model(path, **options)`` what would run on the NPU, without running it;
``devices()`` and ``supported_ops()`` what there is to choose from; ``stats()`` what the delegate
did so far, ``prometheus_text()`` the same for Prometheus. ``Classifier(model)`` and
``Detector(model)`` take pictures and camera frames and stay loaded; ``classify`` and ``detect`` are
the same for one picture.
Importing this package imports neither NumPy nor a runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delegate.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from delegate.compile.compiler import CompileResult
    from delegate.host.library import DeviceInfo
    from delegate.host.statistics import Stats
    from delegate.partition.rules import SupportedOperator
    from rk3588_vision.class_ranking import Ranked
    from rk3588_vision.classification import Classifier, Labels
    from rk3588_vision.detection.objects import Detector, FoundObject
    from rk3588_vision.images import Picture

__all__ = [
    "Classifier",
    "Detector",
    "__version__",
    "classify",
    "compile_ahead_of_time",
    "compile_model",
    "detect",
    "devices",
    "library_path",
    "litert_environment",
    "litert_folder",
    "load_delegate",
    "prometheus_text",
    "share_tensor",
    "stats",
    "supported_ops",
]


def __getattr__(name: str) -> Any:
    """Return the classes, whose modules import NumPy, when they are asked for."""
    if name == "Classifier":
        from rk3588_vision.classification import Classifier

        return Classifier
    if name == "Detector":
        from rk3588_vision.detection.objects import Detector

        return Detector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def library_path() -> str:
    """The absolute path of the delegate's shared object, to give to any TensorFlow Lite runtime.

    The same file serves Python processes and C hosts. Raises DelegateError if the native part is
    not built.
    """
    from delegate.host import library

    return library.library_path()


def load_delegate(**options: object) -> Any:
    """The delegate, loaded by tflite_runtime, ai_edge_litert or tensorflow (see ``runtimes``).

    ``options`` are those of ``delegate.options``; a runtime's ``Delegate`` object comes back.
    Raises OptionError for a bad option, DeviceError if there is no such device (under ``strict``:
    no NPU, unless the simulator is named), DelegateError if no runtime is installed or loading
    fails.
    """
    from delegate._native import open_device_name
    from delegate.host.runtimes import find_runtime
    from delegate.options import Options

    chosen = Options.from_mapping(options)
    open_device_name(chosen.device, chosen.strict)  # a runtime would wrap its error in its words
    effective = chosen.to_strings()
    return find_runtime().load_delegate(library_path(), {key: effective[key] for key in options})


def share_tensor(interpreter: Any, loaded: Any, tensor: int, descriptor: int | None) -> None:
    """Gives an input or output of ``interpreter`` memory that others share: ``descriptor`` of a
    dma-buf, or of a memfd with F_SEAL_SHRINK; None takes it away. ``loaded``: its delegate.

    The tensor's values are read from there or written there by every inference from now on, by the
    NPU itself where the tensor's layout and the driver permit. Keep the descriptor open.
    Raises UsageError if the model has no such input or output, DelegateError if the runtime is not
    tflite-runtime. Memory that does not do is an error of the next inference.
    """
    from delegate.host.library import set_buffer_handle

    set_buffer_handle(interpreter, loaded, tensor, descriptor)


def litert_folder() -> str:
    """The folder of the libraries by which LiteRT's CompiledModel uses the NPU, to give to
    ``ai_edge_litert.environment.Environment.create`` as both of its paths.

    Raises DelegateError if the native part is not built.
    """
    from delegate.host import litert

    return litert.litert_folder()


def litert_environment(**options: object) -> Any:
    """An environment for ``CompiledModel.from_file(..., environment=...)`` of ai-edge-litert (2.3
    or later), whose models use the NPU with these options.

    Raises OptionError for a bad option, DelegateError without such an ai-edge-litert.
    """
    from delegate.host import litert

    return litert.litert_environment(options)


def classify(
    image: Picture,
    model: str | Path,
    *,
    labels: Labels | None = None,
    top: int = 5,
    **options: Any,
) -> tuple[Ranked, ...]:
    """Return the ``top`` classes of a picture by an image classifier, through the delegate.

    For more than one picture make a ``Classifier``, which this is for one. Raises ModelError if the
    model is no classifier, UsageError for a bad picture, label file or option, DelegateError if no
    runtime is installed.
    """
    from rk3588_vision.classification import Classifier
    from rk3588_vision.images import as_image

    classifier = Classifier(model, labels=labels, top=top, **options)
    picture = as_image(image)  # a bad one fails before the model is loaded
    with classifier:
        return classifier(picture)


def detect(
    image: Picture,
    model: str | Path,
    *,
    labels: Labels | None = None,
    threshold: float = 0.25,
    decoder: str | None = None,
    **options: Any,
) -> tuple[FoundObject, ...]:
    """Return the objects on a picture by a detector, through the delegate; best first.

    For more than one picture make a ``Detector``, which this is for one. ``labels``: a file with
    one line per class, or the names. ``threshold``: the least score. ``decoder``: how the outputs
    are read, where the model does not tell (names: ``rk3588-delegate detect --help``).
    Raises ModelError if the model is no detector or could be several, UsageError for a bad picture,
    label file, decoder or option, DelegateError if no runtime is installed.
    """
    from rk3588_vision.detection.objects import Detector
    from rk3588_vision.images import as_image

    detector = Detector(model, labels=labels, threshold=threshold, decoder=decoder, **options)
    picture = as_image(image)  # a bad one fails before the model is loaded
    with detector:
        return detector(picture)


def compile_model(path: str | Path, **options: object) -> CompileResult:
    """Compiles a .tflite file: partitions with their programs, and a reason for every node left
    out.

    Raises ModelError if the file cannot be read, OptionError for a bad option.
    """
    from delegate.compile.compiler import compile_model as compile_with_options
    from delegate.options import Options

    return compile_with_options(path, Options.from_mapping(options))


def compile_ahead_of_time(path: str | Path, *, litert: bool = False, **options: object) -> bytes:
    """Compiles a .tflite file to one that holds its programs (docs/ahead_of_time.md); ``litert``:
    for LiteRT's CompiledModel.

    Raises ModelError if the file cannot be read or copied, OptionError for a bad option.
    """
    from delegate.compile.aot.rewrite import compile_ahead_of_time as compile_with_options
    from delegate.options import Options

    return compile_with_options(path, Options.from_mapping(options), litert=litert).content


def devices() -> tuple[DeviceInfo, ...]:
    """The devices of this machine: nodes of NPUs, simulator, null."""
    from delegate.host.library import find_devices

    return find_devices()


def supported_ops() -> tuple[SupportedOperator, ...]:
    """The operators the NPU takes, each with the rules a node must meet."""
    from delegate.partition.rules import supported_operators

    return supported_operators()


def stats() -> Stats:
    """Return what the delegate did in this process so far: inferences, runs and their time by
    partition, errors. From any thread; delegates and interpreters that are gone count too.
    """
    from delegate.host.statistics import take_stats

    return take_stats()


def prometheus_text() -> str:
    """The counters of ``stats()`` in Prometheus' text format, version 0.0.4: metrics
    ``rk3588_delegate_...`` in base units, to serve as ``text/plain`` or to add to what the
    application serves.
    """
    from delegate import _native

    return _native.prometheus_text()
