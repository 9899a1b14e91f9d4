#!/bin/sh
# Write the patch series from a git tree: one patch for each commit after the first, which holds
# upstream's release. The same commits give the same files, byte for byte.
#
# Usage: tools/export_patches.sh TREE [NAME]     NAME is a folder of ffmpeg-patches, by default ffmpeg
set -eu

tree=${1:?usage: tools/export_patches.sh TREE [NAME]}
name=${2:-ffmpeg}
target=$(cd "$(dirname "$0")/.." && pwd)/ffmpeg-patches/$name

# the checkout may belong to another user
git_tree() {
    git -c safe.directory='*' -C "$tree" "$@"
}

base=$(git_tree rev-list --max-parents=0 HEAD)
if [ "$(printf '%s\n' "$base" | wc -l)" -ne 1 ]; then
    echo "$tree has more than one root commit" >&2
    exit 1
fi
if [ -n "$(git_tree status --porcelain --untracked-files=no)" ]; then
    echo "warning: $tree has changes that are not committed; they are left out" >&2
fi

mkdir -p "$target"
temporary=$(mktemp -d "$target/.export-XXXXXX")
trap 'rm -rf "$temporary"' EXIT

# every setting that could come from the user's own configuration is given here
git_tree -c core.quotepath=true -c core.abbrev=12 -c diff.algorithm=myers \
    -c diff.noprefix=false -c diff.mnemonicPrefix=false -c diff.renames=true \
    -c diff.context=3 -c diff.interHunkContext=0 -c diff.indentHeuristic=true \
    -c diff.suppressBlankEmpty=false -c diff.statGraphWidth=40 -c diff.orderFile=/dev/null \
    -c format.signOff=false \
    format-patch --quiet --zero-commit --no-signature --no-numbered --no-encode-email-headers \
    --no-attach --no-to --no-cc --no-thread --no-base --no-notes --no-ext-diff --no-color --full-index --binary \
    --no-cover-letter --subject-prefix=PATCH --stat=80 --output-directory "$temporary" \
    "$base..HEAD"

rm -f "$target"/*.patch
: > "$temporary/series"
for patch in "$temporary"/*.patch; do
    [ -e "$patch" ] || continue
    basename "$patch" >> "$temporary/series"
    mv "$patch" "$target/"
done
mv "$temporary/series" "$target/series"
echo "$(wc -l < "$target/series") patches in $target"
