#!/usr/bin/env bash
# Runs tests on aarch64, which qemu emulates: tests/aarch64.sh ROOT PYTHON TESTS..., or `make aarch64`.
#
# ROOT is a folder for a Debian of aarch64 with Python, NumPy, SciPy and llvmlite, which is filled once: 0.7 GB, two minutes. Its packages are
# unpacked and nothing in it is set up, for only Python runs there. PYTHON downloads wheels of aarch64 with its pip. Needs Linux, root, and
# Debian's packages qemu-user-static and debootstrap. How binaries of aarch64 are run is entered in a namespace of its own (Linux 6.7), or is
# what the system has. On a processor of this kind, `make test` does all that.
set -euo pipefail
ROOT=$(mkdir -p "$1" && realpath "$1"); PYTHON=$2; shift 2
SOURCE=$(realpath "$(dirname "$0")/..")
EMULATOR=/usr/lib/binfmt.d/qemu-aarch64.conf

[ "$(id -u)" = 0 ] && command -v debootstrap unshare >/dev/null && [ -e $EMULATOR ] ||
    { echo "this needs root, and Debian's packages debootstrap and qemu-user-static" >&2; exit 1; }

if [ ! -e "$ROOT/ready" ]; then
    rm -rf "$ROOT"
    mkdir -p "$ROOT"
    debootstrap --foreign --arch=arm64 --variant=minbase --include=python3,libpython3-stdlib,libstdc++6 trixie "$ROOT/debian" >"$ROOT/log"
    for package in "$ROOT"/debian/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$ROOT/debian"; done
    "$PYTHON" -m pip wheel --quiet --no-deps --wheel-dir "$ROOT/wheels" "$SOURCE"
    "$PYTHON" -m pip install --quiet --disable-pip-version-check --no-compile --target "$ROOT/debian/opt/packages" \
        --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_17_aarch64 \
        --platform manylinux2014_aarch64 --implementation cp --python-version 3.13 --only-binary :all: \
        "$(echo "$ROOT"/wheels/catena-*.whl)[plot,files]" pytest hypothesis
    mkdir -p "$ROOT/debian/work"
    touch "$ROOT/ready"
fi

export ROOT SOURCE EMULATOR
exec unshare --user --map-root-user --mount --fork bash -euc '
    if mount -t binfmt_misc none /proc/sys/fs/binfmt_misc 2>/dev/null; then cat $EMULATOR >/proc/sys/fs/binfmt_misc/register; fi
    [ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] || { echo "the system does not run binaries of aarch64" >&2; exit 1; }
    mount --rbind /proc "$ROOT/debian/proc"
    mount --rbind /dev "$ROOT/debian/dev"
    mount --bind "$SOURCE" "$ROOT/debian/work"
    exec chroot "$ROOT/debian" /usr/bin/env -i HOME=/root PATH=/usr/bin LANG=C.UTF-8 OPENBLAS_NUM_THREADS=1 \
        PYTHONPATH=/work/src:/work:/opt/packages PYTHONPYCACHEPREFIX=/var/cache/python \
        sh -c "cd /work && exec python3 -m pytest -p no:cacheprovider \"\$@\"" pytest "$@"
' aarch64 "$@"
