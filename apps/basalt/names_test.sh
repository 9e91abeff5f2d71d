#!/usr/bin/env bash
# Runs the program under each of its names and checks what it answers and how it exits.
set -euo pipefail
program="$(readlink -f "$1")"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
fail() { echo "names_test: $*" >&2; exit 1; }

[[ "$("$program" --version)" =~ ^basalt\ [0-9]+\.[0-9]+\.[0-9]+ ]] || fail "--version does not print the version"
"$program" --help | grep -q 'Usage: basalt' || fail "--help has no usage line"
ln -s "$program" "$folder/vcctl"
"$folder/vcctl" --help | grep -A1 '^Usage:$' | grep -qx '  vcctl \[command\]' || fail "vcctl --help is not vcctl's"
for name in vc-controller-manager vc-webhook-manager; do
  ln -s "$program" "$folder/$name"
  "$folder/$name" --help >"$folder/out" || fail "$name --help exits with $?"
  grep -q "Usage: $name" "$folder/out" || fail "$name --help does not call itself $name: $(cat "$folder/out")"
done
for name in vsub vjobs vqueues vcancel vsuspend vresume; do
  ln -s "$program" "$folder/$name"
  "$folder/$name" --help | grep -q "Usage: $name" || fail "$name --help does not call itself $name"
done
"$folder/vcctl" version | grep -q '^API Version: v1alpha1$' || fail "vcctl version has no API version"
if "$folder/vcctl" no-such-command 2>"$folder/err"; then fail "vcctl takes an unknown command"; fi
grep -q '^Error: unknown command "no-such-command" for "vcctl"$' "$folder/err" || fail "vcctl's words differ: $(cat "$folder/err")"
[[ "$("$folder/vcctl" job no-such-verb)" == *suspend* ]] || fail "vcctl job VERB does not list the verbs"
ln -s "$program" "$folder/basalt"
completed="$(PATH="$folder:$PATH" bash -c 'source <(basalt completion bash); COMP_WORDS=(basalt job su); COMP_CWORD=2
  _basalt_complete; echo "${COMPREPLY[*]}"')"
[[ "$completed" == suspend ]] || fail "bash completes 'job su' to '$completed'"
for shell in zsh fish; do "$program" completion "$shell" | grep -q __complete || fail "no completion for $shell"; done
if "$program" no-such-command 2>"$folder/err"; then fail "an unknown command is accepted"; fi
grep -q "no-such-command" "$folder/err" || fail "the error does not name the unknown command"
if "$program" verison 2>"$folder/err"; then fail "a misspelt command is accepted"; fi
grep -q "version" "$folder/err" || fail "no suggestion for a misspelt command: $(cat "$folder/err")"
echo "names_test: passed"
