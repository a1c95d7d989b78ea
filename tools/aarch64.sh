#!/usr/bin/env bash
# Builds for aarch64 with Debian's cross compiler and runs the result under qemu-user, with an arm64
# Python 3.11 and an arm64 tflite-runtime: the native tests, the captures, the compiled models in the
# C host, and one inference through the runtime. Results are compared with this machine's, bit for
# bit. Nothing is installed: packages are unpacked below .cache/aarch64.
#
#   tools/aarch64.sh            everything
#   tools/aarch64.sh build      only the libraries
#   tools/aarch64.sh host       only the C host: no arm64 Python is needed
#
# Needs (Debian 12): apt-get install g++-aarch64-linux-gnu qemu-user cmake ninja-build npm, and
# dpkg --add-architecture arm64 && apt-get update for the packages of the arm64 Python.
# TESTS: what pytest runs under qemu-user. PYTHON: a Python of this machine with the package, pybind11 and pip (default .venv/bin/python).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step=${1:-all}
python=${PYTHON:-.venv/bin/python}
cache=$PWD/.cache/aarch64
root=$cache/root
site=$cache/site
build=build/aarch64
library=$build/librk3588_delegate.so
packages=(python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libpython3.11-dev libc6
  libstdc++6 libgcc-s1 zlib1g libexpat1 libffi8 libssl3 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1)

die() { echo "tools/aarch64.sh: error: $*" >&2; exit 2; }

for tool in aarch64-linux-gnu-g++ qemu-aarch64 cmake ninja; do
  command -v "$tool" > /dev/null || PATH=$(dirname "$python"):$PATH command -v "$tool" > /dev/null ||
    die "$tool is not installed"
done
PATH=$(dirname "$(realpath -s "$python")"):$PATH

fetch_root() {
  [[ -e $root/complete ]] && return
  rm -rf "$root" && mkdir -p "$root" "$cache/packages"
  (cd "$cache/packages" && apt-get download -qq "${packages[@]/%/:arm64}") ||
    die "no arm64 packages: dpkg --add-architecture arm64 && apt-get update"
  for package in "$cache"/packages/*.deb; do dpkg-deb -x "$package" "$root"; done
  touch "$root/complete"
}

fetch_site() {
  [[ -e $site/complete ]] && return
  rm -rf "$site"
  "$python" -m pip install --quiet --target "$site" --only-binary=:all: --python-version 3.11 \
    --implementation cp --platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_34_aarch64 \
    tflite-runtime==2.14.0 'numpy<2' flatbuffers pillow pytest hypothesis
  touch "$site/complete"
}

# $@: more options of cmake
configure() {
  cmake -S . -B "$build" -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ "$@" > /dev/null
  ninja -C "$build" --quiet
}

build_host_only() { configure -DRK3588_PYTHON_MODULE=OFF; }

build_all() {
  # The compiler finds pyconfig.h of arm64 through the first of these folders.
  local include=$root/usr/include
  configure -DRK3588_PYTHON_MODULE=ON \
    -DPython_EXECUTABLE="$(command -v "$python")" \
    -DPython_INCLUDE_DIR="$include/python3.11" \
    -DCMAKE_CXX_FLAGS="-I$include -I$include/aarch64-linux-gnu/python3.11" \
    -DPYTHON_MODULE_EXTENSION=.cpython-311-aarch64-linux-gnu.so \
    -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)"
}

arm_python() {
  env -u PYTHONHOME PYTHONPATH="$cache/tree:$site" PYTHONDONTWRITEBYTECODE=1 \
    qemu-aarch64 -L "$root" "$root/usr/bin/python3.11" "$@"
}

# The package with the arm64 libraries: a copy, so that this machine's stay in place.
make_tree() {
  rm -rf "$cache/tree" && mkdir -p "$cache/tree/.cache"
  cp -r delegate models tests pyproject.toml "$cache/tree"
  find "$cache/tree" -name '*.so' -delete
  cp "$build"/*.so "$cache/tree/delegate"
  ln -sfn "$(realpath ../shared)" "$cache/shared"
}

run_c_host() {
  echo '== compiled models in the C host, aarch64 against this machine'
  "$python" -m tests.hosts.aarch64 "$library" "${1:-$root}"
}

case $step in
  build) build_host_only ;;
  host)
    build_host_only
    run_c_host "${SYSROOT:-/usr/aarch64-linux-gnu}"
    ;;
  all)
    fetch_root
    fetch_site
    build_all
    make_tree
    run_c_host
    cd "$cache/tree"
    echo '== native tests and captures'
    # shellcheck disable=SC2086
    arm_python -m pytest -q -p no:cacheprovider ${TESTS:-tests/native/test_layout.py \
      tests/native/test_program.py tests/native/test_devices.py tests/sim/test_faults.py \
      tests/sim/test_conv_oracle.py tests/sim/test_paths.py tests/sim/test_float_oracle.py tests/captures}
    echo '== one inference through the runtime'
    arm_python -m tests.hosts.one_inference > "$cache/aarch64.txt"
    cd - > /dev/null
    "$python" -m tests.hosts.one_inference > "$cache/native.txt"
    cat "$cache/aarch64.txt"
    diff "$cache/native.txt" "$cache/aarch64.txt" && echo 'equal to this machine'
    ;;
  *) die "unknown step $step; one of all, build, host" ;;
esac
