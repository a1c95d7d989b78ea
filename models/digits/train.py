"""Trains the digits model of this folder: a small MobileNet, quantised to int8 per channel.

In: the handwritten digits that scikit-learn ships (8x8 pixels, 1797 of them; nothing is
downloaded). Out: digits_int8.tflite, labels.txt, images/ (a held-out digit of each class) and
accuracy.json, beside this file or in the folder given.

    python -m venv /tmp/train && /tmp/train/bin/pip install -r models/digits/requirements.txt
    /tmp/train/bin/python models/digits/train.py [FOLDER]

Deterministic: the split, the initial weights, the order of the samples and their augmentation
follow from SEED, and TensorFlow runs its deterministic kernels on one thread. With the versions in
requirements.txt on the same kind of CPU the same bytes come out; another CPU may round differently
while training.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # before TensorFlow loads: its results depend on the CPU
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

SEED = 20
SIZE = 32  # pixels; 8x8 digits are enlarged bilinearly
CLASSES = 10
HELD_OUT = 360  # of 1797, equally many of each class
EPOCHS = 40
BATCH = 64
LEARNING_RATE = 3e-3
MAX_SHIFT = 3  # pixels, each direction
CALIBRATION = 200  # training samples that fix the activation ranges


def enlarge(digits: np.ndarray) -> np.ndarray:
    """[n, 8, 8] of 0..16 to uint8 [n, SIZE, SIZE]."""
    pixels = np.clip(digits * (255.0 / 16.0), 0, 255).astype(np.uint8)
    resize = Image.Resampling.BILINEAR
    return np.stack([np.asarray(Image.fromarray(p).resize((SIZE, SIZE), resize)) for p in pixels])


def shifted(images: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Each image moved by up to MAX_SHIFT pixels, zeros moving in."""
    padded = np.pad(images, ((0, 0), (MAX_SHIFT, MAX_SHIFT), (MAX_SHIFT, MAX_SHIFT)))
    corners = generator.integers(0, 2 * MAX_SHIFT + 1, (len(images), 2))
    return np.stack(
        [p[y : y + SIZE, x : x + SIZE] for p, (y, x) in zip(padded, corners, strict=True)]
    )


def to_input(images: np.ndarray) -> np.ndarray:
    """uint8 [n, h, w] to float32 [n, h, w, 1] in 0..1."""
    return images.astype(np.float32)[..., np.newaxis] / np.float32(255.0)


def build_model() -> tf.keras.Model:
    """Convolution, four depthwise-separable blocks (one residual), average pool, classifier."""
    layers = tf.keras.layers

    def convolution(x, filters: int, kernel: int, stride: int, activation: bool = True):
        x = layers.Conv2D(filters, kernel, stride, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        return layers.ReLU(6.0)(x) if activation else x

    def depthwise(x, stride: int):
        x = layers.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        return layers.ReLU(6.0)(x)

    inputs = layers.Input((SIZE, SIZE, 1))
    x = convolution(inputs, 16, 3, 2)
    x = convolution(depthwise(x, 1), 32, 1, 1)
    x = convolution(depthwise(x, 2), 64, 1, 1, activation=False)
    x = layers.Add()([x, convolution(depthwise(x, 1), 64, 1, 1, activation=False)])
    x = convolution(depthwise(x, 2), 96, 1, 1)
    x = layers.AveragePooling2D(SIZE // 8)(x)
    x = layers.Flatten()(x)
    x = layers.Dense(CLASSES)(x)
    return tf.keras.Model(inputs, x)


def train(images: np.ndarray, classes: np.ndarray) -> tf.keras.Model:
    model = build_model()
    steps = EPOCHS * (len(images) // BATCH)
    schedule = tf.keras.optimizers.schedules.CosineDecay(LEARNING_RATE, steps)
    optimizer = tf.keras.optimizers.Adam(schedule)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    generator = np.random.default_rng(SEED)

    @tf.function(reduce_retracing=True)
    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value

    for epoch in range(EPOCHS):
        order = generator.permutation(len(images))
        total = 0.0
        for start in range(0, len(images) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            total += float(step(to_input(shifted(images[chosen], generator)), classes[chosen]))
        print(f"epoch {epoch + 1:2d} of {EPOCHS}: loss {total / (len(images) // BATCH):.4f}")
    return model


def quantise(model: tf.keras.Model, calibration: np.ndarray) -> bytes:
    """int8 in, int8 out, weights per channel, with a softmax at the end."""

    @tf.function(input_signature=[tf.TensorSpec((1, SIZE, SIZE, 1), tf.float32, name="digit")])
    def classify(digit):
        return tf.nn.softmax(model(digit, training=False))

    frozen = convert_variables_to_constants_v2(classify.get_concrete_function())
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([x[np.newaxis]] for x in calibration)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = tf.int8
    converter.inference_output_type = tf.int8
    # Older runtimes (tflite-runtime 2.14) know only per-tensor weights in FULLY_CONNECTED.
    converter._experimental_disable_per_channel_quantization_for_dense_layers = True
    return converter.convert()


def predict(model: bytes, images: np.ndarray) -> np.ndarray:
    """The classes that the .tflite model gives with TensorFlow Lite's reference kernels."""
    interpreter = tf.lite.Interpreter(
        model_content=model,
        experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_REF,
    )
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    assert source["quantization"][1] == -128, source["quantization"]
    assert abs(source["quantization"][0] * 255.0 - 1.0) < 1e-3, source["quantization"]
    classes = []
    for image in images:
        pixels = (image.astype(np.int16) - 128).astype(np.int8)[np.newaxis, ..., np.newaxis]
        interpreter.set_tensor(source["index"], pixels)
        interpreter.invoke()
        classes.append(int(np.argmax(interpreter.get_tensor(target["index"]))))
    return np.array(classes)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    tf.keras.utils.set_random_seed(SEED)

    digits = load_digits()
    train_images, test_images, train_classes, test_classes = train_test_split(
        enlarge(digits.images), digits.target, test_size=HELD_OUT, random_state=SEED,
        stratify=digits.target,
    )  # fmt: skip
    model = train(train_images, train_classes)
    content = quantise(model, to_input(train_images[:CALIBRATION]))

    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / "digits_int8.tflite").write_bytes(content)
    (folder / "labels.txt").write_text("".join(f"{digit}\n" for digit in range(CLASSES)))
    recognised = predict(content, test_images) == test_classes
    for digit in range(CLASSES):  # the first held-out one of each class that is recognised
        first = int(np.argmax(recognised & (test_classes == digit)))
        Image.fromarray(test_images[first]).save(folder / "images" / f"digit_{digit}.png")
    correct = int(recognised.sum())
    accuracy = {"held_out": HELD_OUT, "correct": correct, "accuracy": correct / HELD_OUT}
    (folder / "accuracy.json").write_text(json.dumps(accuracy) + "\n")
    print(f"{len(content)} bytes, {correct} of {HELD_OUT} held-out digits right")


if __name__ == "__main__":
    main()
