-- Which province does each of the largest cities lie in? Nothing but coordinates links the two tables.
CREATE VIEW answer AS
SELECT c.name AS city, p.name AS province, p.country, c.population
FROM 'data/cities.parquet' c
JOIN 'data/provinces.parquet' p ON ST_Within(c.geom, p.geom)
ORDER BY c.population DESC;

SELECT * FROM answer LIMIT 12;

-- How many cities of 100,000 people and more has each country?
SELECT country, count(*) AS cities, count(DISTINCT province) AS provinces_with_one, sum(population) AS people
FROM answer
GROUP BY country
ORDER BY cities DESC;

-- The plan of the first answer:
EXPLAIN SELECT * FROM answer LIMIT 12;
