#!/usr/bin/env bash
# Fixes a failing test in a copy of repo/ through a real model wire, with a scripted model server and no key. The
# model server plays the script that the prompt carries; everything else is what a real run does.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=examples/fix-failing-test
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT

CGO_ENABLED=0 go build -o bin/ ./cmd/harness
cp -r "$here/repo" "$work/repo"
git -C "$work/repo" init -q
git -C "$work/repo" add .
git -C "$work/repo" -c user.name=demo -c user.email=demo@example.test commit -qm "a failing test"

bin/harness model-server --addr 127.0.0.1:0 >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 100); do
  url=$(sed -n 's/^listening on //p' "$work/server.log")
  [ -n "$url" ] && break
  read -rt 0.1 <> <(:) || true
done
[ -n "$url" ] || { cat "$work/server.log"; exit 1; }

OPENAI_BASE_URL="$url/v1" OPENAI_API_KEY=none HARNESS_STATE_DIR="$work/state" \
  bin/harness run --workspace "$work/repo" --model scripted "$(cat "$here/prompt.txt")"

echo
echo "What changed:"
git -C "$work/repo" --no-pager diff
