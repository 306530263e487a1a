SELECT * FROM orders

SELECT order_id, `user`.name, `user`.tags[1], attributes['a'], total, `offset` FROM orders

SELECT o.`user`.name AS who FROM default_catalog.default_database.orders /*+ OPTIONS('scan.startup.mode' = 'earliest') */ AS o

SELECT 1 + 2, 'it''s', 'a\d', x'0AFF', TRUE, NULL, CAST(NULL AS INT)

VALUES (1, 'a'), (2, 'b')

SELECT id, name FROM (VALUES (1, 'a'), (2, 'b')) AS t(id, name)

WITH a AS (SELECT customer AS c, price FROM orders), b AS (SELECT c FROM a WHERE price > 3) SELECT * FROM b

SELECT order_id FROM orders UNION ALL SELECT click_id FROM clicks

-- streaming: append
SELECT order_id FROM orders UNION SELECT click_id FROM clicks

-- streaming: append
SELECT DISTINCT customer FROM clicks

SELECT * FROM big_orders WHERE customer = 3

SELECT CASE WHEN price > 10 THEN 'high' WHEN price > 5 THEN 'mid' ELSE 'low' END AS band FROM orders

SELECT CAST(order_id AS STRING), CAST(price AS DOUBLE), CAST('2026-11-18 08:00:00' AS TIMESTAMP(3)), TRY_CAST(day AS DATE), CAST(ROW(1, 'a') AS ROW<a INT, b STRING>), CAST(day AS VARCHAR(4)), CAST(day AS CHAR(12)) FROM orders

SELECT TIMESTAMP '2026-11-18 08:00:00', DATE '2026-11-18', INTERVAL '1' DAY, INTERVAL '1 02:30' DAY TO MINUTE, ts + INTERVAL '5' SECOND(3), ts - INTERVAL '10' MINUTES FROM orders

SELECT DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm'), TO_TIMESTAMP(day), TO_TIMESTAMP(day, 'yyyyMMdd'), TO_TIMESTAMP_LTZ(order_id, 3), TO_TIMESTAMP_LTZ(order_id, 0), TO_DATE(day), UNIX_TIMESTAMP(day), FROM_UNIXTIME(order_id), TIMESTAMPDIFF(MINUTE, ts, ts), TIMESTAMPADD(DAY, 1, ts), EXTRACT(HOUR FROM ts), YEAR(ts), WEEK(ts), QUARTER(ts), DAYOFWEEK(ts), FLOOR(ts TO HOUR), CONVERT_TZ(day, 'UTC', 'Asia/Tokyo') FROM orders

SELECT CURRENT_TIMESTAMP, CURRENT_DATE, LOCALTIMESTAMP, NOW(), PROCTIME(), CURRENT_ROW_TIMESTAMP() FROM clicks

SELECT SPLIT_INDEX(url, '/', 2), REGEXP_EXTRACT(url, '(a+)(b)', 2), REGEXP_EXTRACT(url, 'a+'), REGEXP_REPLACE(url, 'a', 'b'), REGEXP(url, '^h'), SUBSTRING(url FROM 2 FOR 3), SUBSTR(url, 2), POSITION('a' IN url), TRIM(BOTH ' ' FROM url), OVERLAY(url PLACING 'x' FROM 1 FOR 2), UPPER(url), LOWER(url), CHAR_LENGTH(url), CONCAT(url, 'a'), CONCAT_WS('-', url, 'b'), url || 'c', LPAD(url, 9, '0'), REVERSE(url), INITCAP(url), IS_DIGIT(url), IS_ALPHA(url), IS_DECIMAL(url), TO_BASE64(url), FROM_BASE64(url), MD5(url), SHA256(url), PARSE_URL(url, 'HOST'), LEFT(url, 2), RIGHT(url, 2), REPLACE(url, 'a', 'b'), LOCATE('a', url), INSTR(url, 'a') FROM clicks

SELECT JSON_VALUE(url, '$.a'), JSON_VALUE(url, '$.a' RETURNING INT), JSON_QUERY(url, '$.b'), JSON_EXISTS(url, '$.c') FROM clicks

SELECT ABS(v), POWER(v, 2), MOD(id, 3), id % 3, ROUND(v, 2), CEIL(v), FLOOR(v), SQRT(v), LN(v), LOG10(v), EXP(v), SIGN(v), GREATEST(v, 1.0), LEAST(v, 1.0), COALESCE(name, 'x'), IFNULL(name, 'x'), NULLIF(name, 'x'), IF(v > 1, 'a', 'b'), RAND_INTEGER(10) FROM untimed

SELECT ARRAY[1, 2, 3], MAP['a', 1, 'b', 2], ROW(1, 'x'), CARDINALITY(ARRAY[1, 2]), ARRAY_CONTAINS(ARRAY[1, 2], 1), ARRAY_CONCAT(ARRAY[1], ARRAY[2]), ARRAY_REVERSE(ARRAY[1, 2]), ARRAY_SORT(ARRAY[2, 1]), ARRAY_SLICE(ARRAY[1, 2, 3], 1, 2), MAP_KEYS(attributes), MAP_UNION(attributes, attributes) FROM orders

SELECT name LIKE 'a%', name NOT LIKE 'b!%' ESCAPE '!', v BETWEEN 1 AND 2, id IN (1, 2, 3), name IS NOT DISTINCT FROM 'a', name IS NULL, NOT (v > 1) FROM untimed

SELECT o.order_id, tag FROM orders AS o CROSS JOIN UNNEST(o.`user`.tags) AS t (tag)

SELECT order_id, w FROM orders, LATERAL TABLE(EXPLODE(`user`.tags)) AS f(w)

SELECT o.order_id, c.url FROM orders o JOIN clicks c ON o.customer = c.customer AND c.ts BETWEEN o.ts AND o.ts + INTERVAL '10' MINUTE

SELECT o.order_id, c.url FROM orders o, clicks c WHERE o.customer = c.customer

SELECT o.order_id, c.url FROM orders o LEFT JOIN clicks c ON o.customer = c.customer AND c.ts BETWEEN o.ts AND o.ts + INTERVAL '10' MINUTE

SELECT o.order_id, f.n FROM orders o LEFT JOIN files f ON o.customer = f.k

-- streaming: update
SELECT customer, COUNT(*), SUM(price), AVG(price), MIN(ts), MAX(ts) FROM orders GROUP BY customer

-- streaming: update
SELECT COUNT(*) FROM untimed

-- streaming: update
SELECT customer, COUNT(DISTINCT url), COUNT(DISTINCT url) FILTER (WHERE url LIKE 'a%'), LISTAGG(url), LISTAGG(DISTINCT url, ';') FROM clicks GROUP BY customer

-- streaming: update
SELECT customer, COUNT(*) AS n FROM clicks GROUP BY customer HAVING COUNT(*) > 3

-- streaming: update
SELECT * FROM counted WHERE n < 10

-- streaming: complete
SELECT customer, COUNT(*) AS n FROM clicks GROUP BY customer ORDER BY n DESC LIMIT 3

-- streaming: update
SELECT customer, day, COUNT(*) FROM orders GROUP BY GROUPING SETS ((customer), (day), ())

-- streaming: update
SELECT customer, day, COUNT(*) FROM orders GROUP BY ROLLUP (customer, day)

-- streaming: update
SELECT order_id, customer, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts DESC) AS rn FROM orders) WHERE rn = 1

-- streaming: update
SELECT * FROM (SELECT order_id, price, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY price DESC, ts ASC) AS rn FROM orders) WHERE rn <= 3 AND price > 1

-- streaming: append
SELECT order_id, customer FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY proctime) AS rn FROM orders) WHERE rn = 1

SELECT * FROM orders LIMIT 5

SELECT id, v FROM first_rows WHERE v > 3

-- streaming: changes
SELECT id, name FROM customers WHERE city = 'Bern'

-- streaming: changes
SELECT * FROM customers

SELECT /*+ BROADCAST(f) */ o.order_id, f.n FROM orders o JOIN files f ON o.customer = f.k

-- streaming: refused "cannot be sorted"
SELECT * FROM orders ORDER BY order_id

-- streaming: refused "never final"
SELECT o.order_id FROM (SELECT * FROM orders ORDER BY price LIMIT 3) AS o

-- streaming: refused "OVER (…) in a stream"
SELECT order_id, SUM(price) OVER (PARTITION BY customer ORDER BY ts) FROM orders

-- streaming: refused "OVER (…) in a stream"
SELECT order_id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts) AS rn FROM orders

-- streaming: refused "cannot read a stream"
SELECT * FROM orders WHERE customer IN (SELECT customer FROM clicks)

-- streaming: refused "cannot read a stream"
SELECT * FROM untimed WHERE v > (SELECT AVG(v) FROM untimed)

-- streaming: refused "results that still change"
SELECT MAX(n) FROM (SELECT customer, COUNT(*) AS n FROM clicks GROUP BY customer)

-- streaming: refused "results that still change"
SELECT city, COUNT(*) FROM customers GROUP BY city

-- streaming: refused "new rows on both sides"
SELECT o.order_id, c.name FROM orders o JOIN customers c ON o.customer = c.id

-- streaming: refused "waited long enough"
SELECT o.order_id, u.name FROM orders o LEFT JOIN untimed u ON o.order_id = u.id

-- streaming: refused "beside a stream"
SELECT o.order_id, f.n FROM files f LEFT JOIN orders o ON o.customer = f.k

-- streaming: refused "both sides would have to end"
SELECT order_id FROM orders INTERSECT SELECT click_id FROM clicks

-- streaming: refused "SUM(DISTINCT"
SELECT customer, SUM(DISTINCT price) FROM orders GROUP BY customer

-- batch: refused "never ends"
SELECT * FROM made

-- streaming: refused "cannot be read"
-- batch: refused "cannot be read"
SELECT * FROM printed

-- streaming: refused "Did you mean 'orders'?"
-- batch: refused "Did you mean 'orders'?"
SELECT * FROM ordres

-- streaming: refused "Did you mean 'scan.startup.mode'?"
-- batch: refused "Did you mean 'scan.startup.mode'?"
SELECT * FROM orders /*+ OPTIONS('scan.startup.mod' = 'earliest') */

-- streaming: refused "STATE_TTL is not supported"
-- batch: refused "STATE_TTL is not supported"
SELECT /*+ STATE_TTL('o' = '1d') */ * FROM orders o

-- streaming: refused "MATCH_RECOGNIZE"
-- batch: refused "MATCH_RECOGNIZE"
SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY customer ORDER BY ts MEASURES A.price AS p PATTERN (A B) DEFINE A AS A.price > 1)

-- streaming: refused "COLLECT_LIST"
-- batch: refused "COLLECT_LIST"
SELECT COLLECT(price) FROM orders

-- streaming: refused "three parts"
-- batch: refused "three parts"
SELECT * FROM a.b.c.d

SELECT c.k, d.n FROM (SELECT DISTINCT customer AS k FROM clicks) AS c JOIN files AS d ON c.k = d.k

WITH both AS (SELECT order_id AS id FROM orders UNION ALL SELECT click_id FROM clicks) SELECT id FROM both WHERE id > 3

SELECT t.a, t.b FROM (SELECT order_id, customer FROM orders) AS t(a, b)

-- streaming: update
SELECT t.a, t.b FROM (SELECT customer, COUNT(*) FROM clicks GROUP BY customer) AS t(a, b) WHERE t.b > 2

-- streaming: refused "OFFSET leaves out"
SELECT order_id FROM orders LIMIT 10 OFFSET 5

-- streaming: refused "behind the table of a JOIN"
-- batch: refused "behind the table of a JOIN"
SELECT * FROM orders FOR SYSTEM_TIME AS OF TIMESTAMP '2026-01-01 00:00:00'

-- streaming: refused "TABLESAMPLE is not supported"
-- batch: refused "TABLESAMPLE is not supported"
SELECT o.* FROM orders AS o TABLESAMPLE BERNOULLI (10)

-- streaming: refused "JSON_OBJECTAGG is not supported"
-- batch: refused "JSON_OBJECTAGG is not supported"
SELECT JSON_OBJECTAGG(KEY day VALUE price) FROM orders

-- streaming: refused "MATCH_RECOGNIZE is not supported"
-- batch: refused "MATCH_RECOGNIZE is not supported"
SELECT T.a FROM orders MATCH_RECOGNIZE (PARTITION BY customer ORDER BY ts MEASURES A.price AS a PATTERN (A B) DEFINE A AS day = 'a') AS T

SELECT order_id FROM orders FETCH FIRST 5 ROWS ONLY

-- streaming: update
SELECT day, COUNT(DISTINCT customer) AS c, COUNT(*) FILTER (WHERE price > 3) AS n FROM orders GROUP BY day

SELECT TRIM(BOTH ' ' FROM day), SUBSTRING(day FROM 1 FOR 4), POSITION('a' IN day), SPLIT_INDEX(day, '-', 0), OVERLAY(day PLACING 'x' FROM 1 FOR 1) FROM orders

SELECT TIMESTAMPDIFF(DAY, ts, CURRENT_TIMESTAMP), TIMESTAMPADD(HOUR, 1, ts), EXTRACT(YEAR FROM ts), FLOOR(ts TO HOUR), TO_DATE(day) FROM orders

-- streaming: refused "TRUNCATE is not supported"
-- batch: refused "TRUNCATE is not supported"
SELECT TRUNCATE(price, 1) FROM orders
