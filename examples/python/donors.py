"""Both parties of a run on the sample data, with pandas, polars and DuckDB: cells for a notebook, or a script.

    python donors.py

A charity wants to know which of its donors are customers of a shop; neither wants to show the other its list. Here
both run in one process. Between two machines, `vesica.rehearse` becomes `vesica.receive` on one and `vesica.send` on
the other, each with a link to the other: docs/python.md has both cells.
"""

# %% The charity has a polars frame, the shop a DuckDB relation.
from pathlib import Path

import duckdb
import pandas
import polars

import vesica

here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
data = here.parents[1] / "crates" / "cli" / "data"
donors = polars.read_csv(data / "donors.csv")
customers = duckdb.sql(f"select contact, orders from read_csv('{data / 'customers.csv'}')")

# %% What a run would see of the donors: how many keys, and what normalisation changes.
print(vesica.check(donors, on="email", normalize={"email": "email"}))

# %% Which donors are customers?
charity = {"table": donors, "on": "email", "normalize": {"email": "email"}}
shop = {"table": customers, "on": "contact", "normalize": {"contact": "email"}}
received, sent = vesica.rehearse(charity, shop)
print(
    f"{received.size} donors are customers; the shop learns that the charity has {sent.report['peer_items']}"
)

# %% The matching rows, in polars, pandas or DuckDB.
shared = received.table
print(shared.to_polars().head(3))
print(shared.to_pandas()["amount_eur"].describe())
print(duckdb.sql("select count(*), sum(amount_eur) from shared"))

# %% The same rows of any frame with the charity's rows, by their numbers.
frame = pandas.read_csv(data / "donors.csv")
assert frame.iloc[received.rows]["email"].tolist() == shared.to_pandas()["email"].tolist()

# %% How often have those customers ordered? The charity learns the sum and nothing else.
total, _ = vesica.rehearse(
    charity,
    shop | {"value": "orders"},
    reveal="sum",
    min_size=10,
    security="semi-honest",
)
print(f"they have ordered {total.value} times")

# %% The same without any protocol, which only somebody who has both tables can compute.
customers = customers.df()
keys = {key.strip().lower() for key in customers["contact"].dropna()}
assert received.rows.tolist() == [
    i for i, key in enumerate(donors["email"]) if key is not None and key.strip().lower() in keys
]
