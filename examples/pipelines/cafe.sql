-- A café: tables by key, sources that make up rows, a statement set, a query in a batch.
-- Run it beside `headwater serve ./data`: headwater run examples/pipelines/cafe.sql
CREATE CATALOG cafe WITH ('type' = 'fluss', 'bootstrap.servers' = 'localhost:9123');
USE CATALOG cafe;

CREATE TABLE IF NOT EXISTS guests (
  id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED
);
CREATE TABLE IF NOT EXISTS orders (
  id BIGINT, guest INT, price DECIMAL(6, 2), ptime AS PROCTIME(),
  PRIMARY KEY (id) NOT ENFORCED
) WITH ('bucket.num' = '2');

CREATE TEMPORARY TABLE made_guests (id INT, name STRING) WITH (
  'connector' = 'datagen', 'fields.name.length' = '6',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '20');
CREATE TEMPORARY TABLE made_orders (id BIGINT, guest INT, price DECIMAL(6, 2)) WITH (
  'connector' = 'datagen', 'rows-per-second' = '50',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '500',
  'fields.guest.min' = '1', 'fields.guest.max' = '20',
  'fields.price.min' = '2', 'fields.price.max' = '9');

SET 'table.dml-sync' = 'true';
EXECUTE STATEMENT SET
BEGIN
  INSERT INTO guests SELECT * FROM made_guests;
  INSERT INTO orders SELECT * FROM made_orders;
END;

SET 'execution.runtime-mode' = 'batch';
SELECT guest, COUNT(*) AS n, SUM(price) AS spent FROM orders GROUP BY guest ORDER BY spent DESC LIMIT 3;
