#!/bin/bash
# A whole job, for one side: cuts its table up, has the tasks run that are next until no bucket lacks a result, and writes the
# rows that match. The other side runs the same with its own words. After a failure the same again goes on where it was.
#
#   role=receiver table="--input donors.csv --key email --normalize email=email" output=shared.csv \
#       party="--identity charity.key --peer vs1:… --listen 0.0.0.0:7340" gateway=charity.example:7341 \
#       serve=0.0.0.0:7341 bash driver.sh
#
# One side has `serve`, at which it runs the gateway for both. `split` has what `vesica split` takes besides, such as
# "--task-memory 2G --attempts 4".
set -euo pipefail
job=${job:-job}
read -ra table <<< "$table"
read -ra party <<< "$party"
read -ra split <<< "${split:-}"

# Runs the task of a bucket and an attempt, here on this machine. `start` has what starts it on another one, such as
# "srun --ntasks=1". It ends with the task's exit code.
task() {
    ${start:-} vesica bucket --job "$job" --bucket "$1" --attempt "$2" --gateway "$gateway" --wait 600 --progress plain
}

if [ ! -e "$job/job.json" ]; then
    vesica split --role "$role" "${table[@]}" --job "$job" "${party[@]}" ${split[@]+"${split[@]}"}
fi
if [ -n "${serve:-}" ]; then
    vesica gateway --listen "$serve" --admit "$job/gateway.json" &
    trap 'kill '"$!" EXIT
fi
while true; do
    vesica attempts --job "$job" "${party[@]}" > "$job.next"
    [ -s "$job.next" ] || break
    tasks=()
    while read -r bucket attempt; do
        task "$bucket" "$attempt" < /dev/null &
        tasks+=("$!")
    done < "$job.next"
    for number in "${tasks[@]}"; do
        # Another attempt may help against the network, and limits of a machine, and against nothing else.
        wait "$number" || case $? in 4 | 7) ;; *) exit 1 ;; esac
    done
done
if [ "$role" = receiver ]; then
    vesica collect --job "$job" "${table[@]}" --output "$output"
fi
