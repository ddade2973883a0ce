"""One-sided set intersection makes oblivious transfer, and so any two-party computation (KBM23, section II-D).

    python ot_from_psi.py

Bob has two bits y_0 and y_1, Alice chooses one by a bit b. She learns y_b and nothing else, he learns nothing. So PSI in
which only one party learns the result cannot do without public-key operations, since oblivious transfer cannot. A run of
PSI for each bit is no way to transfer many.
"""

# %% Table I: Alice intersects {b} with a set of two elements. Who has y_i = 1 puts i into it, who has 0 puts 2 + i.
from __future__ import annotations

import secrets

import polars

import vesica


def transfer(y: tuple[int, int], b: int) -> int:
    """What Alice learns of Bob's bits."""
    alice = {"table": polars.DataFrame({"element": [b]}), "on": "element"}
    elements = [i if y[i] else 2 + i for i in (0, 1)]
    bob = {"table": polars.DataFrame({"element": elements}), "on": "element"}
    received, sent = vesica.rehearse(alice, bob)
    assert (received.report["peer_items"], sent.size) == (2, None)
    return len(received.rows)


for y in ((0, 0), (0, 1), (1, 0), (1, 1)):
    for b in (0, 1):
        print(f"Bob has {y}, Alice chooses y_{b} and learns {transfer(y, b)}")
        assert transfer(y, b) == y[b]


# %% The AND of a bit of each, as GMW computes it: both get shares, whose exclusive or is the product.
def shares_of_and(of_alice: int, of_bob: int) -> tuple[int, int]:
    """Bob masks both products that there can be, and Alice chooses hers."""
    mask = secrets.randbelow(2)
    return transfer((mask, mask ^ of_bob), of_alice), mask


for of_alice in (0, 1):
    for of_bob in (0, 1):
        share, other = shares_of_and(of_alice, of_bob)
        assert share ^ other == of_alice & of_bob
print("and the shares of an AND add up")
