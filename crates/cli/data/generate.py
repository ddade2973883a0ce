"""Writes donors.csv and customers.csv, the sample data of `vesica demo`.

Everybody in them is invented. The same files come out every time. Some forty people are in both
tables, and most of those are written differently: capitals, stray spaces.
"""

import csv
import random

FIRST = """Ada Alma Amir Anouk Aron Beatriz Bela Bram Carla Chidi Chloe Dario Dina Edith Elif Emil
Esra Farah Felix Fiona Greta Hana Henrik Ines Ivo Jana Joao Jonas Kaya Kofi Lars Leila Lena Luca
Malik Maren Marta Mina Nadia Nils Noor Olga Oskar Paula Pedro Petra Ravi Rosa Ruben Salma Samir
Selin Sofia Sven Tara Theo Vera Viktor Wanda Yara Yusuf Zoe""".split()
LAST = """Abbot Adeyemi Almeida Bakker Barros Becker Berg Bianchi Brandt Castro Chen Cole Costa Dahl
Demir Diaz Duarte Eriksen Fischer Ford Garcia Haas Hansen Hoffman Ibrahim Ivanova Jensen Kaya
Keller Khan Klein Kovac Lange Larsen Lopez Maier Mensah Moreau Nagy Novak Okafor Olsen Park Patel
Peeters Petrov Quinn Rao Reyes Rossi Sato Schmid Silva Sommer Stein Tanaka Torres Usman Vogel
Weber Wood Young Zeller""".split()
DOMAINS = ["example.com", "example.org", "mail.example.com", "post.example.org"]
CITIES = ["Aberdeen", "Bremen", "Coimbra", "Dresden", "Esbjerg", "Ghent", "Leeds", "Utrecht"]


def people(rng, count):
    seen, out = set(), []
    while len(out) < count:
        first, last = rng.choice(FIRST), rng.choice(LAST)
        email = f"{first}.{last}@{rng.choice(DOMAINS)}".lower()
        if email not in seen:
            seen.add(email)
            out.append((f"{first} {last}", email))
    return out


def written(rng, email):
    """An address as somebody might have typed it."""
    local, domain = email.split("@")
    style = rng.randrange(6)
    if style == 0:
        return email.upper()
    if style == 1:
        return f" {email}"
    if style == 2:
        return f"{local.title()}@{domain}"
    if style == 3:
        return f"{local}@{domain.title()} "
    return email


def write(name, header, rows):
    with open(name, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(header)
        out.writerows(rows)


def main():
    rng = random.Random(7340)
    everybody = people(rng, 198 + 295 - 41)
    donors, customers = everybody[:198], everybody[198 - 41 :]
    rng.shuffle(donors)
    rng.shuffle(customers)

    rows = []
    for name, email in donors:
        date = f"2025-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        rows.append([name, written(rng, email), date, f"{rng.choice([5, 10, 20, 25, 50, 100])}.00"])
    # Two donors who are customers gave twice, and one donor who is none left no address.
    is_customer = [person in customers for person in donors]
    twice = [row for row, customer in zip(rows, is_customer) if customer][3:5]
    rows[is_customer.index(False)][1] = ""
    rows.append([*twice[0][:2], "2025-12-30", "15.00"])
    rows.append([twice[1][0], twice[1][1].upper(), "2025-12-31", "30.00"])
    write("donors.csv", ["donor", "email", "last_gift", "amount_eur"], rows)

    rows = []
    for number, (name, email) in enumerate(customers, start=10001):
        rows.append([number, name, written(rng, email), rng.choice(CITIES), rng.randint(1, 40)])
    write("customers.csv", ["customer_id", "full_name", "contact", "city", "orders"], rows)


if __name__ == "__main__":
    main()
