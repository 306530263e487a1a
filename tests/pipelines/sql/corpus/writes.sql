INSERT INTO log_sink SELECT order_id, customer FROM orders

INSERT INTO log_sink (n, k) SELECT order_id, customer FROM orders

INSERT INTO log_sink VALUES (1, 2), (3, 4)

-- streaming: update
INSERT INTO keyed_sink SELECT customer, COUNT(*) FROM clicks GROUP BY customer

-- streaming: update
INSERT INTO printed SELECT customer, COUNT(*) FROM clicks GROUP BY customer

-- streaming: update
INSERT INTO keyed_sink SELECT 1, COUNT(*) FROM clicks

INSERT INTO keyed_sink SELECT customer, order_id FROM orders

INSERT INTO window_sink SELECT customer, window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY customer, window_start, window_end

-- streaming: changes
INSERT INTO named_sink SELECT id, name, city FROM customers WHERE city <> 'Bern'

INSERT INTO named_sink (id, city) SELECT order_id, day FROM orders

-- streaming: set
EXECUTE STATEMENT SET BEGIN INSERT INTO log_sink SELECT order_id, customer FROM orders; INSERT INTO keyed_sink SELECT customer, COUNT(*) FROM orders GROUP BY customer; END

UPDATE customers SET city = 'Bern', name = UPPER(name) WHERE id = 3

DELETE FROM customers WHERE id IN (1, 2)

TRUNCATE TABLE customers

CREATE TABLE copied WITH ('bucket.num' = '1') AS SELECT order_id, price FROM orders

CREATE TABLE counts (PRIMARY KEY (customer) NOT ENFORCED) AS SELECT customer, COUNT(*) AS n FROM clicks GROUP BY customer

CREATE MATERIALIZED TABLE mt (PRIMARY KEY (customer) NOT ENFORCED) FRESHNESS = INTERVAL '30' SECOND AS SELECT customer, COUNT(*) AS n FROM clicks GROUP BY customer

CREATE MATERIALIZED TABLE daily FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT customer, COUNT(*) AS n FROM clicks GROUP BY customer ORDER BY n

EXPLAIN INSERT INTO log_sink SELECT order_id, customer FROM orders

-- streaming: refused "has no end"
INSERT OVERWRITE files SELECT order_id, customer FROM orders

-- streaming: refused "cannot take one back"
INSERT INTO log_sink SELECT customer, COUNT(*) FROM clicks GROUP BY customer

-- streaming: refused "cannot take one back"
INSERT INTO log_sink SELECT id, id FROM customers

-- streaming: refused "the old row would stay"
INSERT INTO keyed_sink SELECT COUNT(*), customer FROM clicks GROUP BY customer

-- streaming: refused "cannot take one back"
CREATE TABLE counts AS SELECT customer, COUNT(*) AS n FROM clicks GROUP BY customer

-- streaming: refused "cannot take one back"
-- batch: refused "cannot take one back"
CREATE MATERIALIZED TABLE mt FRESHNESS = INTERVAL '30' SECOND AS SELECT customer, COUNT(*) AS n FROM clicks GROUP BY customer

-- streaming: refused "The query has 3 columns"
-- batch: refused "The query has 3 columns"
INSERT INTO log_sink SELECT order_id, customer, price FROM orders

-- streaming: refused "cannot be written"
-- batch: refused "cannot be written"
INSERT INTO made SELECT order_id, customer FROM orders

-- streaming: refused "cannot be overwritten"
-- batch: refused "cannot be overwritten"
INSERT OVERWRITE log_sink SELECT order_id, customer FROM orders

-- streaming: refused "Did you mean 'log_sink'?"
-- batch: refused "Did you mean 'log_sink'?"
INSERT INTO log_snk SELECT 1, 2

-- streaming: refused "is a view"
-- batch: refused "is a view"
INSERT INTO big_orders SELECT * FROM big_orders

-- streaming: refused "no primary key"
-- batch: refused "no primary key"
DELETE FROM orders WHERE order_id = 1

-- streaming: refused "part of the primary key"
-- batch: refused "part of the primary key"
UPDATE customers SET id = 4 WHERE id = 3

-- streaming: refused "needs 'id'"
-- batch: refused "needs 'id'"
INSERT INTO named_sink (name) SELECT day FROM orders

-- streaming: refused "cannot be 'fast'"
-- batch: refused "cannot be 'fast'"
SET 'execution.runtime-mode' = 'fast'

ALTER TABLE orders ADD COLUMN note STRING COMMENT 'a note'

ALTER TABLE orders DROP COLUMN day

-- streaming: refused "COMPILE is not supported"
-- batch: refused "COMPILE is not supported"
COMPILE PLAN '/p.json' FOR INSERT INTO log_sink SELECT customer, order_id FROM orders

-- streaming: refused "Write PRIMARY KEY"
-- batch: refused "Write PRIMARY KEY"
CREATE TABLE x (id INT UNIQUE)
