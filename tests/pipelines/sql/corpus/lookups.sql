SELECT o.order_id, c.name FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id

SELECT o.order_id, c.name, c.city FROM orders AS o LEFT JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id WHERE o.price > 10 AND c.city IS NOT NULL

SELECT * FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id

SELECT o.order_id, o.`user`.name AS who, c.name, p.price FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id LEFT JOIN prices FOR SYSTEM_TIME AS OF o.proctime AS p ON c.city = p.region AND o.order_id = p.product

SELECT o.order_id, c.name FROM orders AS o LEFT JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id AND c.city = 'Bern'

SELECT o.order_id, p.product FROM orders AS o JOIN prices FOR SYSTEM_TIME AS OF o.proctime AS p ON o.day = p.region

SELECT o.order_id, c.name FROM (SELECT order_id, customer + 1 AS customer, PROCTIME() AS p FROM orders) AS o JOIN customers FOR SYSTEM_TIME AS OF o.p AS c ON MOD(o.customer, 10) = c.id

SELECT c.city, COUNT(*) AS n, TUMBLE_START(o.ts, INTERVAL '1' MINUTE) AS s FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id GROUP BY c.city, TUMBLE(o.ts, INTERVAL '1' MINUTE)

-- streaming: update
SELECT c.city, COUNT(*) AS n FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id GROUP BY c.city

SELECT o.order_id, k.url, c.name FROM orders AS o JOIN clicks AS k ON o.customer = k.customer JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id

SELECT o.order_id, c.name, f.n FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id JOIN files AS f ON f.k = c.id

-- streaming: refused "would not see later versions"
SELECT o.order_id, c.name FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.ts AS c ON o.customer = c.id

-- streaming: changes
SELECT n.id, c.city FROM named_sink AS n JOIN customers FOR SYSTEM_TIME AS OF PROCTIME() AS c ON n.id = c.id

-- streaming: refused "looked up by (id)"
-- batch: refused "looked up by (id)"
SELECT o.order_id FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.day = c.name

-- streaming: refused "cannot be looked up"
-- batch: refused "cannot be looked up"
SELECT o.order_id FROM orders AS o JOIN clicks FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.customer

-- streaming: refused "Write JOIN or LEFT JOIN"
-- batch: refused "Write JOIN or LEFT JOIN"
SELECT o.order_id FROM orders AS o FULL JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id

-- streaming: refused "Did you mean 'customer'?"
-- batch: refused "Did you mean 'customer'?"
SELECT o.order_id FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON costumer = c.id

-- streaming: refused "no further conditions"
-- batch: refused "no further conditions"
SELECT o.order_id, p.price FROM orders AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.proctime AS p ON o.day = p.region AND p.price > 3

-- streaming: refused "would not see later versions"
SELECT o.order_id, r.rate FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.day = r.currency

SELECT o.order_id, r.rate FROM orders AS o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.proctime AS r ON o.day = r.currency

-- streaming: changes
INSERT INTO named_sink SELECT n.id, c.name, d.city FROM (SELECT *, PROCTIME() AS p FROM named_sink) AS n LEFT JOIN customers FOR SYSTEM_TIME AS OF n.p AS c ON n.id = c.id LEFT JOIN customers FOR SYSTEM_TIME AS OF n.p AS d ON c.id = d.id
