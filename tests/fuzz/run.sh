#!/bin/sh
# Fuzz each target in turn with libFuzzer, AddressSanitizer and UBSan.
#
# Usage: tests/fuzz/run.sh [SECONDS]      for all targets together; 300 by default
#
# Needs clang. The corpus grows in build-fuzz/corpus; what is found lies in build-fuzz/found, and the
# exit status is then 1. FUZZ_TARGETS names some of the targets.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-300}
targets=${FUZZ_TARGETS:-open frames io}
build=$root/build-fuzz
clang=${CLANG:-clang}
python=$root/.venv/bin/python

command -v "$clang" > /dev/null || {
    echo "fuzz: there is no clang; on Debian and Ubuntu: apt-get install clang" >&2
    exit 2
}
mkdir -p "$build/corpus" "$build/found"
PATH=$root/.venv/bin:$PATH
ffmpeg=$(CC=$clang "$python" "$root/tools/build_ffmpeg.py" --sanitize) # its last line
ffmpeg=${ffmpeg##*
}
sanitizers=address,undefined
dav1d=
[ ! -e "$ffmpeg/lib/libdav1d.a" ] || dav1d=-ldav1d
for target in $targets; do
    "$clang" -std=c11 -g -O1 -fsanitize=fuzzer,$sanitizers -fno-omit-frame-pointer \
        -D_GNU_SOURCE "-DSPARSE_PATCH_SERIES=\"fuzz\"" \
        -I"$root/libsparse/include" -I"$root/libsparse/src" -I"$ffmpeg/include" \
        "$root"/libsparse/src/*.c "$root/tests/fuzz/fuzz_$target.c" \
        -L"$ffmpeg/lib" -lavformat -lavcodec -lswscale -lavutil $dav1d \
        -lm -lz -ldl -lpthread -o "$build/fuzz_$target"
done
PYTHONPATH=$root/tests "$python" -m synthetic --small "$build/corpus"
export UBSAN_OPTIONS="suppressions=$root/tests/fuzz/ubsan.supp:print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
count=$(echo "$targets" | wc -w)
status=0
for target in $targets; do
    echo "fuzz: $target for $((seconds / count)) s"
    "$build/fuzz_$target" -max_total_time=$((seconds / count)) -timeout=25 -rss_limit_mb=3000 \
        -max_len=65536 -artifact_prefix="$build/found/$target-" -print_final_stats=1 \
        -verbosity=0 -detect_leaks=1 "$build/corpus" || status=1
done
exit $status
