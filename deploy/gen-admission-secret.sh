#!/bin/sh
# What Volcano's chart runs in its init job, by this name in the image's working directory: makes the Secret with the
# admission server's certificates, or renews what is in it.
#   ./gen-admission-secret.sh --service NAME --namespace NAME --secret NAME
set -eu
service=volcano-admission-service
namespace=volcano-system
secret=volcano-admission-secret
while [ $# -gt 0 ]; do
  case "$1" in
    --service) service="$2"; shift 2 ;;
    --namespace) namespace="$2"; shift 2 ;;
    --secret) secret="$2"; shift 2 ;;
    *) echo "gen-admission-secret.sh: there is no flag $1; use --service, --namespace and --secret" >&2; exit 2 ;;
  esac
done
exec basalt webhooks --only-make-secret --webhook-service-name="$service" --webhook-namespace="$namespace" \
  --secret-name="$secret"
