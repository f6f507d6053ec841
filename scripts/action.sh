#!/usr/bin/env bash
# What action.yml does once notleader is installed; its inputs come as ACTION_….
# Kafka (where none is given), the proxy, the command, the verdict, the job's summary; ends all that it started.
set -euo pipefail

out=${ACTION_OUT:-notleader-out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
kafka=${ACTION_KAFKA:-}
own_kafka=
proxy=

free_ports() {    # four in a row: Kafka's, the proxy's two, the API's
  python3 - <<'PORTS'
import random, socket
while True:
    first = random.randrange(15000, 32000)
    held = []
    try:
        for port in range(first, first + 4):
            one = socket.socket()
            held.append(one)
            one.bind(("127.0.0.1", port))
    except OSError:
        continue
    finally:
        for one in held:
            one.close()
    print(first)
    break
PORTS
}

tidy() {
  if [ -n "$proxy" ] && kill "$proxy" 2>/dev/null; then wait "$proxy" || true; fi
  if [ -n "$own_kafka" ]; then notleader kafka down --port "$own_kafka" >/dev/null || true; fi
}
trap tidy EXIT

first=$(free_ports)
if [ -z "$kafka" ]; then
  notleader kafka up --version "${ACTION_KAFKA_VERSION:-4}" --port "$first" --detach
  own_kafka=$first
  kafka=127.0.0.1:$first
fi

export KAFKA=$kafka
export NOTLEADER_SPARK_WARM=off    # a job ends here: no Spark stays for the next analysis
export BOOTSTRAP_SERVERS=127.0.0.1:$((first + 1))
export NOTLEADER_ADMIN=127.0.0.1:$((first + 3))
flags=(--kafka "$kafka" --listen "$BOOTSTRAP_SERVERS" --capture "$out/traffic" --capture-level record)
[ -z "${ACTION_CONFIG:-}" ] || flags+=(--config "$ACTION_CONFIG")
notleader run "${flags[@]}" --json >"$out/ready.json" 2>"$out/proxy.log" &
proxy=$!
for _ in $(seq 300); do
  [ ! -s "$out/ready.json" ] || break
  kill -0 "$proxy" 2>/dev/null || { cat "$out/proxy.log" >&2; exit 2; }
  sleep 0.1
done
[ -s "$out/ready.json" ] || { echo "the proxy was not ready in 30 s:" >&2; cat "$out/proxy.log" >&2; exit 2; }

code=0
bash -c "$ACTION_RUN" || code=$?
[ "$code" = 0 ] || echo "the command ended with $code" >&2

missed=$(notleader fault ls --json | python3 -c '
import json, sys
listed = json.load(sys.stdin)
rules = listed["faults"] if isinstance(listed, dict) else listed
print(" ".join(rule["name"] for rule in rules if not rule.get("hits")))')
kill "$proxy" && wait "$proxy" || true
proxy=

if [ -n "$missed" ]; then
  echo "never hit: $missed" >&2
  [ "${ACTION_NEED_HITS:-true}" != true ] || [ "$code" != 0 ] || code=1
fi

summary=${GITHUB_STEP_SUMMARY:-/dev/null}
if [ "${ACTION_ANALYZE:-true}" = true ]; then
  judged=0
  words=(--capture "$out/traffic" --out "$out/verdict")
  log=()    # the brokers' log settles what the clients say was lost or doubled, unless nothing was sent
  [ -z "${ACTION_OUTCOMES:-}" ] || { words+=(--outcomes "$ACTION_OUTCOMES"); log=(--kafka "$kafka"); }
  notleader analyze "${words[@]}" ${log[@]+"${log[@]}"} || judged=$?
  if [ "$judged" = 2 ] && [ ${#log[@]} -gt 0 ]; then
    judged=0
    notleader analyze "${words[@]}" || judged=$?
  fi
  if [ -f "$out/verdict/report.md" ]; then cat "$out/verdict/report.md" >>"$summary"; fi
  case $judged in
    0) verdict=fine ;;
    1) verdict=negative ;;
    *) verdict= ;;
  esac
  printf 'verdict=%s\nreport=%s\n' "$verdict" "$out/verdict/report.html" >>"${GITHUB_OUTPUT:-/dev/null}"
  if [ "$judged" -gt 1 ] || { [ "$judged" = 1 ] && [ "${ACTION_FAIL_ON_VERDICT:-true}" = true ]; }; then
    [ "$code" != 0 ] || code=$judged
  fi
fi
[ -z "$missed" ] || printf '\nNever hit, so nothing was tested by: %s\n' "$missed" >>"$summary"
exit "$code"
