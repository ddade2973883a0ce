#!/bin/bash
#SBATCH --job-name=vesica-buckets
#SBATCH --array=0-63%16
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
# Each task meets its peer at the gateway. Both sides number attempts alike, by what `vesica attempts` prints:
#   sbatch --export=ALL,ATTEMPT=1 --array=17 slurm.sh
# makes another attempt at bucket 17. driver.sh has the whole job.
set -euo pipefail
exec vesica bucket \
    --job "${JOB:-job}" \
    --bucket "$SLURM_ARRAY_TASK_ID" \
    --attempt "${ATTEMPT:-0}" \
    --gateway "${GATEWAY:-gateway.example:7341}" \
    --wait 3600 \
    --threads "${SLURM_CPUS_PER_TASK:-2}" \
    --progress plain
