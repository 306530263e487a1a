CREATE TABLE orders (
  order_id BIGINT,
  customer BIGINT,
  `user` ROW<name STRING, tags ARRAY<STRING>>,
  price DECIMAL(10, 2),
  quantity INT,
  attributes MAP<STRING, INT>,
  ts TIMESTAMP(3),
  at TIMESTAMP_LTZ(3),
  day STRING,
  `offset` BIGINT METADATA VIRTUAL,
  total AS price * quantity,
  proctime AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
);

CREATE TABLE clicks (
  click_id BIGINT,
  customer BIGINT,
  url STRING,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts
);

CREATE TABLE untimed (id BIGINT, name STRING, v DOUBLE);

CREATE TABLE customers (
  id BIGINT,
  name STRING,
  city STRING,
  since DATE,
  PRIMARY KEY (id) NOT ENFORCED
);

CREATE TABLE prices (
  region STRING,
  product BIGINT,
  price DECIMAL(10, 2),
  PRIMARY KEY (region, product) NOT ENFORCED
) DISTRIBUTED BY (region) INTO 2 BUCKETS;

CREATE TABLE first_rows (
  id BIGINT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED
) WITH ('table.merge-engine' = 'first_row');

CREATE TABLE rates (
  currency STRING, rate DECIMAL(10, 2), `at` TIMESTAMP(3),
  WATERMARK FOR `at` AS `at`,
  PRIMARY KEY (currency) NOT ENFORCED
);

CREATE TABLE log_sink (k BIGINT, n BIGINT);
CREATE TABLE keyed_sink (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED);
CREATE TABLE named_sink (id BIGINT, name STRING, city STRING, PRIMARY KEY (id) NOT ENFORCED);
CREATE TABLE window_sink (k BIGINT, s TIMESTAMP(3), e TIMESTAMP(3), n BIGINT);
CREATE TABLE printed (k BIGINT, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE files (k BIGINT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '/p', 'format' = 'json');
CREATE TABLE made (k BIGINT, n BIGINT) WITH ('connector' = 'datagen');

CREATE VIEW big_orders AS SELECT order_id, customer, price, ts FROM orders WHERE price > 100;
CREATE VIEW counted (who, n) AS SELECT customer, COUNT(*) FROM clicks GROUP BY customer;
