#!/usr/bin/env bash
# Runs the program under each of its names and checks what it answers and how it exits.
set -euo pipefail
program="$(readlink -f "$1")"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
fail() { echo "names_test: $*" >&2; exit 1; }

[[ "$("$program" --version)" =~ ^basalt\ [0-9]+\.[0-9]+\.[0-9]+ ]] || fail "--version does not print the version"
"$program" --help | grep -q 'Usage: basalt' || fail "--help has no usage line"
for name in vcctl vc-controller-manager vc-webhook-manager; do
  ln -s "$program" "$folder/$name"
  "$folder/$name" --help >"$folder/out" || fail "$name --help exits with $?"
  grep -q "Usage: $name" "$folder/out" || fail "$name --help does not call itself $name: $(cat "$folder/out")"
done
if "$program" no-such-command 2>"$folder/err"; then fail "an unknown command is accepted"; fi
grep -q "no-such-command" "$folder/err" || fail "the error does not name the unknown command"
if "$program" verison 2>"$folder/err"; then fail "a misspelt command is accepted"; fi
grep -q "version" "$folder/err" || fail "no suggestion for a misspelt command: $(cat "$folder/err")"
echo "names_test: passed"
