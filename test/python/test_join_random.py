"""Random spatial joins: the rows of the operator are those of DuckDB's nested loop.

Each seed makes a small database and asks it a number of random queries, with the operator and without. VIBESPATIAL_LONG=N runs N times as
many seeds. A failure prints a script that repeats it, with as few rows as were found to be enough; after a crash it is script.sql in
pytest's temporary folder of the test.
"""
import collections
import math
import os
import random
import threading
import time

import duckdb
import pytest

from conftest import HAS_SPATIAL

LONG = int(os.environ.get("VIBESPATIAL_LONG", "0"))
SEEDS = 28 * max(LONG, 1)
QUERIES = 20
PATIENCE = 60  # seconds until a query counts as hanging

OPERATOR = "VIBE_SPATIAL_JOIN"
PREDICATES = ["Within", "Contains", "Intersects", "Equals", "Touches", "Crosses", "Overlaps", "Covers", "CoveredBy",
              "ContainsProperly", "WithinProperly"]
# GEOS and exact arithmetic agree on these for points and boxes on integers
PLAIN_PREDICATES = ["Within", "Contains", "Intersects", "Equals", "Touches", "Overlaps", "Covers", "CoveredBy"]
SIZES = [0, 1, 3, 20, 60, 60, 150, 300]


class Shapes:
    """Random valid geometries as WKT. Most coordinates are small integers: boundaries meet, and shapes come again."""

    def __init__(self, rng, extent, irregular):
        self.rng, self.extent, self.irregular = rng, extent, irregular

    def number(self):
        value = self.rng.randrange(self.extent)
        if self.rng.random() < self.irregular:
            return value + self.rng.choice([0.1, 0.5, 1 / 3, self.rng.random()])
        return value

    def ring(self, points):
        return "(" + ", ".join(f"{x!r} {y!r}" for x, y in [*points, points[0]]) + ")"

    def box_ring(self, x, y, width, height):
        return self.ring([(x, y), (x + width, y), (x + width, y + height), (x, y + height)])

    def point(self):
        return f"POINT ({self.number()!r} {self.number()!r})"

    def line(self):
        points = [(self.number(), self.number()) for _ in range(self.rng.choice([2, 2, 3, 5]))]
        if len(set(points)) < 2:
            points.append((points[0][0] + 1, points[0][1]))
        return "LINESTRING (" + ", ".join(f"{x!r} {y!r}" for x, y in points) + ")"

    def box(self):
        return f"POLYGON ({self.box_ring(self.number(), self.number(), self.rng.randint(1, 5), self.rng.randint(1, 5))})"

    def triangle(self):
        while True:
            (ax, ay), (bx, by), (cx, cy) = points = [(self.number(), self.number()) for _ in range(3)]
            if abs((bx - ax) * (cy - ay) - (by - ay) * (cx - ax)) > 0.5:
                return f"POLYGON ({self.ring(points)})"

    def round(self):
        """Convex, with many vertices."""
        x, y, radius = self.number(), self.number(), self.rng.uniform(0.5, self.extent / 3)
        count = self.rng.choice([8, 40, 120])
        points = [(x + radius * math.cos(2 * math.pi * n / count), y + radius * math.sin(2 * math.pi * n / count)) for n in range(count)]
        return f"POLYGON ({self.ring(points)})"

    def holed(self):
        x, y = self.number(), self.number()
        return f"POLYGON ({self.box_ring(x, y, 6, 6)}, {self.box_ring(x + 1, y + 1, self.rng.randint(1, 4), self.rng.randint(1, 4))})"

    def corner(self):
        x, y = self.number(), self.number()
        return f"POLYGON ({self.ring([(x, y), (x + 4, y), (x + 4, y + 1), (x + 1, y + 1), (x + 1, y + 4), (x, y + 4)])})"

    def multipoint(self):
        return "MULTIPOINT (" + ", ".join(f"{self.number()!r} {self.number()!r}" for _ in range(self.rng.randint(1, 4))) + ")"

    def multiline(self):
        return f"MULTILINESTRING ({self.line()[11:]}, {self.line()[11:]})"

    def multipolygon(self):
        x, y = self.number(), self.number()
        return f"MULTIPOLYGON (({self.box_ring(x, y, 2, 2)}), ({self.box_ring(x + 2, y + 2, 2, 1)}), ({self.box_ring(x + 9, y, 1, 7)}))"

    def collection(self):
        return f"GEOMETRYCOLLECTION ({self.point()}, {self.line()}, {self.box()})"

    def empty(self):
        return self.rng.choice(["POINT EMPTY", "POLYGON EMPTY", "MULTIPOLYGON EMPTY", "GEOMETRYCOLLECTION EMPTY", "LINESTRING EMPTY"])

    KINDS = {
        "points": ["point"],
        "boxes": ["box"],
        "areas": ["box", "triangle", "round", "holed", "corner", "multipolygon"],
        "lines": ["line", "multiline"],
        "mixed": ["point", "point", "line", "box", "triangle", "round", "holed", "corner", "multipoint", "multiline", "multipolygon",
                  "collection"],
        "plain": ["point", "box"],
    }

    def of_kind(self, kind):
        return getattr(self, self.rng.choice(self.KINDS[kind]))()


class Database:
    """Tables t0, t1, t2 (i, k, d, s, x, y, g) with NULL, EMPTY and shapes that come twice."""

    def __init__(self, rng, plain):
        self.tables = []
        extent = rng.choice([6, 15, 30])
        shapes = Shapes(rng, extent, 0 if plain else rng.choice([0, 0, 0.3, 1]))
        sizes = [rng.choice(SIZES) for _ in range(3)]
        if rng.random() < 0.2:
            sizes = [rng.choice([1500, 3000]), rng.choice([5, 40]), rng.choice([5, 40])]
        for size in sizes:
            kind = "plain" if plain else rng.choice(["points", "boxes", "areas", "lines", "mixed", "mixed", "mixed"])
            if size > 1000:
                kind = "points"
            odd = rng.choice([0, 0.1, 0.1, 0.5])
            rows = []
            for i in range(size):
                chance = rng.random()
                if chance < odd / 2:
                    g = None
                elif chance < odd and not plain:
                    g = shapes.empty()
                elif chance < odd + 0.15 and rows:
                    g = rng.choice(rows)[-1]
                else:
                    g = shapes.of_kind(kind)
                k = None if rng.random() < 0.1 else rng.randrange(5)
                d = None if rng.random() < 0.1 else rng.choice([0, 0.5, 1, 1, 1.5, 2, -1])
                rows.append((i, k, d, rng.choice("abcdef") * rng.randint(1, 3), rng.randrange(extent), rng.randrange(2 * extent) / 2, g))
            self.tables.append(rows)

    @staticmethod
    def script(tables):
        def literal(value):
            return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else repr(value)

        lines = []
        for number, rows in enumerate(tables):
            lines.append(f"CREATE TABLE t{number} (i INTEGER, k INTEGER, d DOUBLE, s VARCHAR, x DOUBLE, y DOUBLE, g GEOMETRY)")
            if rows:
                lines.append(f"INSERT INTO t{number} VALUES " + ",\n".join(f"({', '.join(map(literal, row))})" for row in rows))
        return lines


class Query:
    """One random query; `taken` says whether the operator has to be in its plan."""

    def __init__(self, rng, sizes, plain, prefix):
        self.rng, self.sizes, self.plain, self.prefix, self.taken = rng, sizes, plain, prefix, True
        self.aliases = 0
        self.sql = rng.choice([self.join, self.join, self.comma, self.exists, self.mark, self.scalar, self.lateral, self.total, self.total,
                               self.grouped, self.grouped, self.stacked, self.stacked, self.nested, self.union, self.common,
                               self.limited])()

    def chance(self, share):
        return self.rng.random() < share

    def function(self, name):
        if self.plain:
            return f"{self.prefix}{name}" if self.prefix == "ST_" else f"vibe_{name.lower()}"
        return f"ST_{name}" if self.prefix == "ST_" and self.chance(0.8) else f"vibe_{name.lower()}"

    def alias(self):
        self.aliases += 1
        return f"r{self.aliases}"

    def table(self, small=False):
        choices = [n for n in range(3) if not small or self.sizes[n] <= 60] or [min(range(3), key=lambda n: self.sizes[n])]
        return f"t{self.rng.choice(choices)}"

    def relation(self, small=False):
        """A table or something that looks like one, and its alias."""
        alias, name = self.alias(), self.table(small)
        kind = self.rng.random()
        if kind < 0.75:
            return f"{name} {alias}", alias
        if kind < 0.87:
            test = self.rng.choice(["k > 0", "d < 2", "i % 3 <> 1", "g IS NOT NULL", "length(s) > 1"])
            return f"(SELECT * FROM {name} WHERE {test}) {alias}", alias
        if kind < 0.93 and not small:
            return f"(SELECT * FROM {name} UNION ALL SELECT * FROM {self.table(True)}) {alias}", alias
        return f"(SELECT * FROM {name} ORDER BY i LIMIT 40) {alias}", alias

    def geometry(self, alias):
        kind = self.rng.random()
        if kind < 0.85 or self.plain:
            return f"{alias}.g"
        if kind < 0.92:
            return f"vibe_point({alias}.x, {alias}.y)"
        return self.rng.choice([f"vibe_envelope({alias}.g)", f"vibe_centroid({alias}.g)", f"{alias}.g::GEOMETRY('OGC:CRS84')",
                                f"CASE WHEN {alias}.k > 1 THEN {alias}.g ELSE vibe_point({alias}.x, 3) END"])

    def topological(self, a, b):
        if self.chance(0.5):
            a, b = b, a
        name = self.rng.choice(PLAIN_PREDICATES if self.plain else PREDICATES + ["Intersects", "Within"])
        return f"{self.function(name)}({a}, {b})"

    def spatial(self, left, right):
        """A condition that the operator takes."""
        a, b = self.geometry(left), self.geometry(right)
        kind = self.rng.random()
        if kind < 0.6 or (self.plain and self.prefix == "ST_"):
            text = self.topological(a, b) + (" = true" if self.chance(0.08) else "")
        elif kind < 0.75:
            distance = self.rng.choice(["0", "1", "0.5", "1.4142135623730951", "2.23606797749979", "2", f"{left}.d", f"{right}.d",
                                        f"{left}.d + {right}.d"])
            text = f"{self.function('DWithin')}({a}, {b}, {distance})"
        elif kind < 0.88:
            measure, bound = f"{self.function('Distance')}({a}, {b})", self.rng.choice(["0", "1", "1.4142135623730951", "2", "0.5"])
            text = self.rng.choice([f"{measure} < {bound}", f"{measure} <= {bound}", f"{bound} > {measure}", f"{bound} >= {measure}"])
        elif kind < 0.94:
            text = self.rng.choice([f"{a} && {b}", f"ST_Intersects_Extent({a}, {b})"])
        else:
            text = f"({self.topological(a, b)} OR {self.topological(a, b)})"
        return text

    def untaken(self, left, right):
        self.taken = False
        test = self.topological(f"{left}.g", f"{right}.g")
        return self.rng.choice([f"NOT {test}", f"({test} OR {left}.k = {right}.k)", f"{self.function('Disjoint')}({left}.g, {right}.g)"])

    def residual(self, left, right):
        return self.rng.choice([
            f"{left}.k = {right}.k", f"{left}.k <> {right}.k", f"{left}.i < {right}.i", f"{left}.d <= {right}.d", f"{left}.s = {right}.s",
            f"{left}.k > 1", f"{right}.k < 3", f"{left}.k IS NULL", f"length({left}.s || {right}.s) > 3", f"({left}.k = 1 OR {right}.k = 2)",
            f"{left}.k IS NOT DISTINCT FROM {right}.k", f"coalesce({left}.k, {right}.k, 0) % 2 = 0", f"{left}.k + {right}.k BETWEEN 2 AND 5",
            f"NOT {self.topological(f'{left}.g', f'{right}.g')}", f"{left}.k IN (1, 2, 3)", f"{left}.s || {right}.s LIKE '%a%'"])

    def condition(self, left, right):
        parts = [self.untaken(left, right) if self.chance(0.04) else self.spatial(left, right)]
        while self.chance(0.35):
            parts.append(self.residual(left, right))
        self.rng.shuffle(parts)
        return " AND ".join(parts)

    def columns(self, *aliases):
        """Some columns of the relations, named c0, c1 and so on."""
        choices = [f"{alias}.{name}" for alias in aliases for name in ("i", "i", "k", "s")]
        picked = self.rng.sample(choices, self.rng.randint(1, 3))
        if self.chance(0.15):
            picked.append(f"ST_AsText({self.rng.choice(aliases)}.g)")
        return ", ".join(f"{text} AS c{n}" for n, text in enumerate(picked))

    def binary(self, small=False, inner=False):
        """A FROM clause that joins two relations, and the aliases that can be seen above it."""
        (a, left), (b, right) = self.relation(small), self.relation(small)
        kind = "JOIN" if inner else self.rng.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
        return f"{a} {kind} {b} ON {self.condition(left, right)}", [left] if kind[:4] in ("SEMI", "ANTI") else [left, right]

    def join(self):
        source, seen = self.binary()
        return f"SELECT {self.columns(*seen)} FROM {source}"

    def comma(self):
        (a, left), (b, right) = self.relation(), self.relation()
        return f"SELECT {self.columns(left, right)} FROM {a}, {b} WHERE {self.condition(left, right)}"

    def exists(self):
        (a, left), (b, right) = self.relation(), self.relation()
        test = f"{self.rng.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {b} WHERE {self.condition(left, right)})"
        if self.chance(0.2):
            test += f" OR {left}.k = 2"
        return f"SELECT {self.columns(left)} FROM {a} WHERE {test}"

    def mark(self):
        (a, left), (b, right) = self.relation(), self.relation()
        value = self.rng.choice([f"EXISTS (FROM {b} WHERE {{}})", f"{left}.k IN (SELECT {right}.k FROM {b} WHERE {{}})",
                                 f"{left}.k NOT IN (SELECT {right}.k FROM {b} WHERE {{}})"])
        return f"SELECT {left}.i AS c0, {value.format(self.condition(left, right))} AS c1 FROM {a}"

    def scalar(self):
        (a, left), (b, right) = self.relation(), self.relation()
        value = self.rng.choice(["count(*)", f"max({right}.i)", f"sum({right}.k)", f"min({right}.s)", f"count({left}.k + {right}.k)"])
        return f"SELECT {left}.i AS c0, (SELECT {value} FROM {b} WHERE {self.condition(left, right)}) AS c1 FROM {a}"

    def lateral(self):
        (a, left), (b, right) = self.relation(), self.relation()
        inner = f"SELECT {self.rng.choice([f'{right}.i AS v', 'count(*) AS v', f'max({right}.s) AS v'])} FROM {b} WHERE {self.condition(left, right)}"
        kind = self.rng.choice([f", LATERAL ({inner}) l", f" LEFT JOIN LATERAL ({inner}) l ON true"])
        return f"SELECT {left}.i AS c0, l.v AS c1 FROM {a}{kind}"

    def aggregates(self, aliases):
        calls = ["count(*)"]
        for alias in aliases:
            calls += [f"count({alias}.k)", f"sum({alias}.k)", f"sum({alias}.d)", f"min({alias}.i)", f"max({alias}.s)", f"avg({alias}.i)"]
        calls = self.rng.sample(calls, self.rng.randint(1, 4))
        if self.chance(0.15):
            calls[-1] += f" FILTER ({aliases[0]}.k > 1)"
        if self.chance(0.1):
            calls.append(f"count(DISTINCT {aliases[-1]}.k)")
        return calls

    def named(self, texts):
        return ", ".join(f"{text} AS c{n}" for n, text in enumerate(texts))

    def total(self):
        source, seen = self.binary()
        return f"SELECT {self.named(self.aggregates([self.rng.choice(seen)] if self.chance(0.6) else seen))} FROM {source}"

    def grouped(self):
        source, seen = self.binary()
        by = self.rng.choice(seen)
        others = [alias for alias in seen if alias != by] or [by]
        keys = [f"{by}.{name}" for name in self.rng.sample(["i", "k", "s"], self.rng.choice([1, 1, 2]))]
        having = " HAVING count(*) > 2" if self.chance(0.1) else ""
        return (f"SELECT {self.named(keys + self.aggregates(others if self.chance(0.7) else seen))} FROM {source} "
                f"GROUP BY {', '.join(keys)}{having}")

    def stacked(self):
        """Two or three joins in a row."""
        source, seen = self.binary(small=True)
        for _ in range(self.rng.choice([1, 1, 2])):
            b, right = self.relation(small=True)
            kind = self.rng.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
            left = self.rng.choice(seen)
            condition = f"{left}.i = {right}.i" if self.chance(0.3) else self.condition(left, right)
            source += f" {kind} {b} ON {condition}"
            if kind[:4] not in ("SEMI", "ANTI"):
                seen = seen + [right]
        if self.chance(0.7):
            return f"SELECT {self.named(self.aggregates(seen))} FROM {source}"
        return f"SELECT {self.columns(*seen)} FROM {source} WHERE {self.rng.choice(seen)}.i < 6"

    def nested(self):
        """A join whose inputs are joins."""
        sides = []
        for _ in range(2):
            source, seen = self.binary(small=True)
            alias, one = self.alias(), self.rng.choice(seen)
            sides.append((f"(SELECT {one}.* FROM {source} ORDER BY ALL LIMIT 300) {alias}", alias))
        (a, left), (b, right) = sides
        kind = self.rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
        seen = [left] if kind[:4] in ("SEMI", "ANTI") else [left, right]
        return f"SELECT {self.named(self.aggregates(seen))} FROM {a} {kind} {b} ON {self.condition(left, right)}"

    def union(self):
        (one, first), (two, second) = self.binary(), self.binary()
        operation = self.rng.choice(["UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT ALL"])
        return f"SELECT {first[0]}.i AS c0, {first[-1]}.s AS c1 FROM {one} {operation} SELECT {second[-1]}.i, {second[0]}.s FROM {two}"

    def common(self):
        source, seen = self.binary()
        kind = self.rng.choice(["", "", "MATERIALIZED ", "NOT MATERIALIZED "])
        inner = f"WITH p AS {kind}(SELECT {seen[0]}.i AS i, {seen[-1]}.k AS k FROM {source})"
        return self.rng.choice([f"{inner} SELECT i AS c0, count(*) AS c1 FROM p GROUP BY i", f"{inner} SELECT i AS c0, k AS c1 FROM p WHERE k > 0",
                                f"{inner} SELECT count(*) AS c0 FROM p WHERE i IN (SELECT k FROM p)"])

    def limited(self):
        source, seen = self.binary()
        order = ", ".join(f"{alias}.i" for alias in seen)
        return self.rng.choice([f"SELECT {self.named([f'{alias}.i' for alias in seen])} FROM {source} ORDER BY {order} LIMIT 17 OFFSET 2",
                                f"SELECT count(*) AS c0 FROM (SELECT {seen[0]}.i FROM {source} LIMIT 50)",
                                f"SELECT DISTINCT {self.columns(*seen)} FROM {source}"])


class Case:
    """A query on a database, with the settings it runs under."""

    def __init__(self, sql, threads, disabled, parts, loads):
        self.sql, self.loads = sql, loads
        self.settings = [f"SET threads = {threads}", f"SET vibe_join_partitions = {parts}"]
        self.disabled = f"SET disabled_optimizers = '{disabled}'"

    def open(self, tables):
        connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        for path in self.loads:
            connection.execute(f"LOAD '{path}'")
        for statement in Database.script(tables):
            connection.execute(statement)
        return connection

    def differences(self, connection):
        """(rows too many, rows missing, rows expected)"""
        timer = threading.Timer(PATIENCE, connection.interrupt)
        timer.start()
        try:
            for setting in self.settings:
                connection.execute(setting)
            connection.execute("SET disabled_optimizers = 'extension'")
            connection.execute(f"CREATE OR REPLACE TEMP TABLE expected AS {self.sql}")
            connection.execute(self.disabled)
            connection.execute(f"CREATE OR REPLACE TEMP TABLE got AS {self.sql}")
            connection.execute("RESET disabled_optimizers")
            one, other = (connection.execute(f"SELECT * FROM {a} EXCEPT ALL SELECT * FROM {b}").fetchall()
                          for a, b in (("got", "expected"), ("expected", "got")))
            return one, other, connection.execute("SELECT count(*) FROM expected").fetchone()[0]
        finally:
            timer.cancel()

    def fails(self, tables):
        with self.open(tables) as connection:
            try:
                more, less, _ = self.differences(connection)
                return bool(more or less)
            except duckdb.Error:
                return True

    def reduced(self, tables, seconds=10):
        """The tables with as many rows left out as can be while it still fails."""
        end = time.monotonic() + seconds
        if not self.fails(tables):
            return tables
        for number in range(len(tables)):
            size = max(len(tables[number]), 1)
            while size >= 1 and time.monotonic() < end:
                at = 0
                while at < len(tables[number]) and time.monotonic() < end:
                    trial = list(tables)
                    trial[number] = tables[number][:at] + tables[number][at + size:]
                    if self.fails(trial):
                        tables = trial
                    else:
                        at += size
                size //= 2
        return tables

    def message(self, what, tables):
        """What went wrong, and a script for it."""
        tables = self.reduced(tables)
        lines = [f"LOAD '{path}'" for path in self.loads] + Database.script(tables)
        lines += self.settings + ["SET disabled_optimizers = 'extension'", self.sql, self.disabled, self.sql]
        return f"{what}\n" + ";\n".join(lines) + ";"


taken = collections.Counter()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_joins(seed, extension, request, tmp_path):
    rng = random.Random(seed)
    beside = HAS_SPATIAL and seed % 4 == 3
    spatial_path = request.getfixturevalue("spatial_path") if beside else None
    loads = [extension] if not beside else [spatial_path, extension] if seed % 8 == 3 else [extension, spatial_path]
    # Beside spatial the ST_ names mean GEOS in the nested loop: those only on data where it is exact.
    prefix = rng.choice(["ST_", "vibe_"]) if beside else "ST_"
    plain = beside and prefix == "ST_"
    database = Database(rng, plain)
    record = open(tmp_path / "script.sql", "w")
    print(*(f"LOAD '{path}'" for path in loads), *Database.script(database.tables), sep=";\n", end=";\n", file=record)
    with record, Case("", 1, "", 0, loads).open(database.tables) as connection:
        for _ in range(QUERIES):
            query = Query(rng, [len(rows) for rows in database.tables], plain, prefix)
            disabled = rng.choice(["", "", "", "join_order,build_side_probe_side"])
            # The build side cut into parts, as if it did not fit into memory, every other time
            parts = rng.choice([0, 0, 2, 9])
            case = Case(query.sql, rng.choice([1, 2, 4]), disabled, parts, loads)
            print(*case.settings, case.disabled, query.sql, sep=";\n", end=";\n", file=record, flush=True)
            try:
                more, less, count = case.differences(connection)
            except duckdb.Error as error:
                pytest.fail(case.message(f"{type(error).__name__}: {error}", database.tables))
            if more or less:
                pytest.fail(case.message(f"{len(more)} rows too many: {more[:3]}; {len(less)} rows missing: {less[:3]}", database.tables))
            plan = connection.execute(f"EXPLAIN (FORMAT json) {query.sql}").fetchone()[1]
            taken["all"] += 1
            taken["rows"] += count > 0
            taken["operator"] += OPERATOR in plan
            if query.taken and OPERATOR not in plan:
                taken[query.sql] = 1


def test_share_with_the_operator(capsys):
    """Most of these queries have the operator in their plan: otherwise the test above compares nested loops."""
    if not taken["all"]:
        pytest.skip("no random joins were run")
    share = taken["operator"] / taken["all"]
    with capsys.disabled():
        print(f"\nrandom joins: {taken['all']} queries, {share:.1%} with the operator, {taken['rows'] / taken['all']:.1%} with rows")
    without = [sql for sql in taken if sql not in ("all", "rows", "operator")]
    assert share >= 0.8, "no operator in, for example:\n" + "\n".join(without[:20])
