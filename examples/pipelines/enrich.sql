-- Orders with the names of their guests, looked up while they come. After cafe.sql.
-- Run it beside `headwater serve ./data`: headwater run examples/pipelines/enrich.sql --once
CREATE CATALOG cafe WITH ('type' = 'fluss', 'bootstrap.servers' = 'localhost:9123');
USE CATALOG cafe;
CREATE TABLE IF NOT EXISTS bills (
  id BIGINT, name STRING, price DECIMAL(6, 2), PRIMARY KEY (id) NOT ENFORCED
);
INSERT INTO bills
SELECT o.id, g.name, o.price FROM orders AS o
JOIN guests FOR SYSTEM_TIME AS OF o.ptime AS g ON o.guest = g.id;
