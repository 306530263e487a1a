SELECT customer, TUMBLE_START(ts, INTERVAL '10' MINUTE) AS s, TUMBLE_END(ts, INTERVAL '10' MINUTE) AS e, TUMBLE_ROWTIME(ts, INTERVAL '10' MINUTE) AS r, COUNT(*) AS n FROM orders GROUP BY customer, TUMBLE(ts, INTERVAL '10' MINUTE)

SELECT HOP_START(ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE) AS s, COUNT(*) FROM orders GROUP BY HOP(ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)

SELECT customer, SESSION_START(ts, INTERVAL '30' SECOND) AS s, SESSION_END(ts, INTERVAL '30' SECOND) AS e, COUNT(*) FROM orders GROUP BY customer, SESSION(ts, INTERVAL '30' SECOND)

SELECT window_start, window_end, SUM(price) AS total FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end

SELECT window_start, window_end, window_time, COUNT(*) FROM TABLE(TUMBLE(DATA => TABLE orders, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' MINUTE, `OFFSET` => INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, window_time

SELECT w.window_start, w.customer, COUNT(*) AS n FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)) AS w GROUP BY w.window_start, w.window_end, w.customer HAVING COUNT(*) > 2

SELECT window_start, window_end, customer, COUNT(*) FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '2' MINUTE, INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, customer

SELECT window_start, window_end, customer, COUNT(*) FROM TABLE(SESSION(TABLE orders PARTITION BY customer, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY customer, window_start, window_end

SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE))

SELECT order_id, window_start FROM TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE)

SELECT MAX(n), s FROM (SELECT customer, window_start AS s, window_end AS e, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY customer, window_start, window_end) GROUP BY s, e

SELECT window_start, window_end, SUM(n) AS total FROM TABLE(TUMBLE((SELECT customer, window_time AS rowtime, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY customer, window_start, window_end, window_time), DESCRIPTOR(rowtime), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end

SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS rn FROM (SELECT window_start, window_end, customer, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, customer)) WHERE rn <= 3

SELECT l.customer, l.window_start, r.n FROM (SELECT customer, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY customer, window_start, window_end) l JOIN (SELECT customer, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY customer, window_start, window_end) r ON l.customer = r.customer AND l.window_start = r.window_start AND l.window_end = r.window_end

SELECT customer, TUMBLE_START(proctime, INTERVAL '10' SECOND) AS s, COUNT(*) FROM orders GROUP BY customer, TUMBLE(proctime, INTERVAL '10' SECOND)

SELECT customer, COUNT(DISTINCT order_id) FROM orders GROUP BY customer, TUMBLE(ts, INTERVAL '1' DAY)

-- streaming: update
SELECT TUMBLE_START(at, INTERVAL '10' MINUTE) AS s, COUNT(*) FROM orders GROUP BY TUMBLE(at, INTERVAL '10' MINUTE)

-- streaming: refused "only known together"
-- batch: refused "only known together"
SELECT * FROM TABLE(SESSION(TABLE orders PARTITION BY customer, DESCRIPTOR(ts), INTERVAL '30' SECOND))

-- streaming: refused "interval of days to seconds"
-- batch: refused "interval of days to seconds"
SELECT COUNT(*) FROM orders GROUP BY TUMBLE(ts, INTERVAL '1' MONTH)

-- streaming: refused "multiple of its STEP"
-- batch: refused "multiple of its STEP"
SELECT COUNT(*) FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '3' MINUTE, INTERVAL '10' MINUTE)) GROUP BY window_start, window_end

-- streaming: refused "Did you mean 'ts'?"
-- batch: refused "Did you mean 'ts'?"
SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(tss), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end

-- streaming: refused "groups by the window"
-- batch: refused "groups by the window"
SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE) FROM orders

-- streaming: refused "results of windows without a window"
SELECT SUM(n) FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer, TUMBLE(ts, INTERVAL '1' MINUTE))

WITH w AS (SELECT customer, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY customer, window_start, window_end) SELECT window_start, MAX(n) AS most FROM w GROUP BY window_start, window_end

SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE big_orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end

SELECT a.customer, a.s FROM (SELECT customer, TUMBLE_START(ts, INTERVAL '5' MINUTE) AS s, TUMBLE_END(ts, INTERVAL '5' MINUTE) AS e FROM orders GROUP BY customer, TUMBLE(ts, INTERVAL '5' MINUTE)) a JOIN (SELECT customer, TUMBLE_START(ts, INTERVAL '5' MINUTE) AS s FROM clicks GROUP BY customer, TUMBLE(ts, INTERVAL '5' MINUTE)) b ON a.customer = b.customer AND a.s = b.s

SELECT customer, window_start FROM (SELECT customer, window_start, window_end, price FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) WHERE price > 3) GROUP BY customer, window_start, window_end

SELECT window_start, window_end, SUM(quantity) AS n FROM TABLE(TUMBLE(DATA => TABLE orders, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' MINUTES)) GROUP BY window_start, window_end

SELECT window_start, window_end, customer, SUM(quantity) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, GROUPING SETS ((customer), ())
