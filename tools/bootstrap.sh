#!/bin/sh
# Bring a bare Debian or Ubuntu to where the project builds: system packages by apt-get, if any is
# missing, and a virtual environment in .venv with the build's tools and, as the arguments say,
# the package itself.
#
# Usage: tools/bootstrap.sh system|tools|package|encoder|bench
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.venv
cd "$root"

has() {
    command -v "$1" > /dev/null 2>&1
}

# Say which packages are missing, by what they are needed for.
missing_packages() {
    has cc || has gcc || echo gcc libc6-dev
    has make || echo make
    has nasm || echo nasm
    has patch || echo patch
    has pkg-config || echo pkg-config
    has ar || echo binutils
    has git || echo git
    has xz || echo xz-utils
    [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
    if has python3; then
        # ensurepip makes the environments, the headers are for the extension
        python3 -c 'import ensurepip, venv' 2> /dev/null || echo python3-venv
        python3 - << 'END' 2> /dev/null || echo python3-dev
import pathlib, sysconfig
assert pathlib.Path(sysconfig.get_path("include"), "Python.h").is_file()
END
    else
        echo python3 python3-venv python3-dev
    fi
    if has cc || has gcc; then
        compiler=$(command -v cc || command -v gcc)
        printf '#include <zlib.h>\n' | "$compiler" -E - > /dev/null 2>&1 || echo zlib1g-dev
        printf '#include <stdlib.h>\n' | "$compiler" -E - > /dev/null 2>&1 || echo libc6-dev
    else
        echo zlib1g-dev
    fi
}

# What the encoder program is built with besides.
missing_encoder_packages() {
    has cmake || echo cmake
    has c++ || has g++ || echo g++
    has pkg-config && pkg-config --exists SvtAv1Enc || echo libsvtav1enc-dev
    has pkg-config && pkg-config --exists dav1d || echo libdav1d-dev
}

system() {
    packages=$({
        missing_packages
        [ "${1:-}" != encoder ] || missing_encoder_packages
    } | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    if ! has apt-get; then
        echo "bootstrap: these are missing and there is no apt-get to install them: $packages" >&2
        exit 1
    fi
    become=
    if [ "$(id -u)" -ne 0 ]; then
        if ! has sudo; then
            echo "bootstrap: as root, run: apt-get install $packages" >&2
            exit 1
        fi
        become=sudo
    fi
    echo "bootstrap: installing $packages"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086  # the lists are to be split
    if ! { $become apt-get -qq update < /dev/null &&
        $become env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes \
            --no-install-recommends $packages < /dev/null; }; then
        echo "bootstrap: could not install $packages; install them and try again" >&2
        exit 1
    fi
}

# A hash of files' names and contents.
stamp() {
    # shellcheck disable=SC2016  # $0 is the inner shell's
    find "$@" -type f -not -path '*/__pycache__/*' -print0 | LC_ALL=C sort -z |
        xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1
}

# pip_install WHAT STAMP ARGUMENT...: install, unless the stamp says it was done.
pip_install() {
    what=$1
    wanted=$2
    shift 2
    if [ "$(cat "$venv/.stamp-$what" 2> /dev/null)" = "$wanted" ]; then
        return 0
    fi
    echo "bootstrap: installing $what into .venv"
    rm -f "$venv/.stamp-$what"
    PATH=$venv/bin:$PATH "$venv/bin/python" -m pip --quiet --disable-pip-version-check \
        install "$@" < /dev/null
    echo "$wanted" > "$venv/.stamp-$what"
}

tools() {
    system
    if ! "$venv/bin/python" -c 'import pip' 2> /dev/null; then
        rm -rf "$venv"
        python3 -m venv "$venv"
    fi
    # one list of requirements, in pyproject.toml
    requirements="pip>=23.1 "$("$venv/bin/python" tools/requirements.py build cli dev test)
    # shellcheck disable=SC2086  # one word a requirement
    pip_install tools "$requirements" $requirements
}

package() {
    tools
    # no build isolation: the tools are there, and a build folder that stays makes it quick
    pip_install package \
        "$(stamp python libsparse ffmpeg-patches tools meson.build meson_options.txt \
            pyproject.toml README.md)" \
        --no-build-isolation --no-deps --force-reinstall -Cbuild-dir=build-wheel .
}

encoder() {
    system encoder
}

bench() {
    package
    requirements=$("$venv/bin/python" tools/requirements.py bench)
    # shellcheck disable=SC2086  # one word a requirement
    pip_install bench "$requirements" $requirements
}

case ${1:-} in
system | tools | package | encoder | bench) "$1" ;;
*)
    echo "usage: tools/bootstrap.sh system|tools|package|encoder|bench" >&2
    exit 2
    ;;
esac
