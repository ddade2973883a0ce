"""A nightly job for Airflow: which donors are customers of the shop by now?

The same twice: a callable with the Python package, and a shell command. Both wait an hour for the shop's job, which
need not start at the same minute. The callable is tried again where that may mend it (the network, a shop that did not
come, a full disk) and otherwise fails at once and says why; Airflow tries the command again whatever its exit code is.

`VESICA_JOB` is a folder with `charity.key` and `donors.parquet`; `VESICA_PEER` is the shop's fingerprint, and
`VESICA_CONNECT` is where it listens.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

from airflow.exceptions import AirflowFailException
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

import vesica

JOB = Path(os.environ["VESICA_JOB"])


def overlap() -> dict[str, Any]:
    """Writes the donors who are customers; returns what is worth keeping of the report, for later tasks."""
    try:
        link = vesica.connect(
            os.environ["VESICA_CONNECT"],
            identity=vesica.Identity.load(JOB / "charity.key"),
            peer=os.environ["VESICA_PEER"],
        )
        result = vesica.receive(
            JOB / "donors.parquet",
            on="email",
            normalize={"email": "email"},
            link=link,
            output=JOB / "shared.parquet",
            wait=3600,
        )
    except (vesica.NetworkError, vesica.ResourceError):
        raise
    except vesica.Error as error:
        raise AirflowFailException(f"{error} (exit code {error.exit_code})") from error
    return {name: result.report[name] for name in ("started", "rows", "matches", "peer_items")}


# The report is of a run that fails too. On one line it is the last line of the output, which Airflow keeps. --peer and
# --connect come from the environment.
COMMAND = """
cd "$VESICA_JOB"
vesica receive --input donors.parquet --key email --normalize email=email --identity charity.key \\
    --output shared.parquet --wait 3600 --report report.json
code=$?
tr -d '\\n' < report.json
exit $code
"""

with DAG(
    "donors",
    schedule="0 3 * * *",
    start_date=datetime.datetime(2026, 1, 1),
    catchup=False,
    default_args={"retries": 3, "retry_delay": datetime.timedelta(minutes=10)},
):
    # One way is enough. Both are here to be seen, one after the other: the peer is one party as well.
    from_python = PythonOperator(task_id="from_python", python_callable=overlap)
    from_python >> BashOperator(task_id="from_a_shell", bash_command=COMMAND)
