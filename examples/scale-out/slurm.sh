#!/bin/bash
#SBATCH --job-name=vesica-buckets
#SBATCH --array=0-63%16
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
# The sender's side: each task waits for its peer on a port of its own. Both sides number attempts alike:
#   sbatch --export=ALL,ATTEMPT=1 --array=17 slurm.sh
# makes another attempt at bucket 17.
set -euo pipefail
exec vesica bucket \
    --job "${JOB:-job}" \
    --bucket "$SLURM_ARRAY_TASK_ID" \
    --attempt "${ATTEMPT:-0}" \
    --identity "${IDENTITY:-vesica.key}" \
    --listen "0.0.0.0:$((20000 + SLURM_ARRAY_TASK_ID))" \
    --wait 3600 \
    --threads "${SLURM_CPUS_PER_TASK:-2}" \
    --progress plain
