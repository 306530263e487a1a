-- Sales per minute and item, from a stream with a watermark, into a table by key.
-- Run it beside `headwater serve ./data`: headwater run examples/pipelines/minutes.sql
CREATE CATALOG hw WITH ('type' = 'fluss', 'bootstrap.servers' = 'localhost:9123');
USE CATALOG hw;
CREATE TABLE IF NOT EXISTS minutes (
  minute_start TIMESTAMP(3), shop INT, n BIGINT, amount BIGINT,
  PRIMARY KEY (minute_start, shop) NOT ENFORCED
);
CREATE TEMPORARY TABLE sales (
  id BIGINT, shop INT, amount BIGINT,
  sold AS TO_TIMESTAMP_LTZ(id * 1000, 3),
  WATERMARK FOR sold AS sold - INTERVAL '5' SECOND
) WITH (
  'connector' = 'datagen', 'rows-per-second' = '500',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '5000',
  'fields.shop.min' = '1', 'fields.shop.max' = '3',
  'fields.amount.min' = '1', 'fields.amount.max' = '100'
);
INSERT INTO minutes
SELECT window_start, shop, COUNT(*), SUM(amount)
FROM TABLE(TUMBLE(TABLE sales, DESCRIPTOR(sold), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, shop;
