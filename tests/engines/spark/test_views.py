"""Views of tables for SQL, where there is no catalog."""

import pytest

from headwater.engines.spark.catalog.install import view_name, views
from headwater.errors import ConflictError


@pytest.fixture
def shop(served):
    """Make a database of its own with two tables."""
    name = f"shop_{served.new_name().split('.')[1]}"
    served.client.create_database(name)
    orders = served.client.create_table(f"{name}.orders", {"id": "BIGINT", "customer": "STRING"})
    orders.append([(1, "Ada"), (2, "Bob")])
    served.client.create_table(f"{name}.late-ones", {"id": "BIGINT"}).append([(7,)])
    return name


def test_every_table_of_a_database_is_read_by_its_name(spark, served, shop):
    made = views(spark, bootstrap_servers=served.address, databases=shop)

    assert made == [f"hw_{shop}_late-ones", f"hw_{shop}_orders"]
    rows = spark.sql(f"SELECT customer FROM hw_{shop}_orders WHERE id = 2").collect()
    assert [row.customer for row in rows] == ["Bob"]
    assert spark.sql(f"SELECT * FROM `hw_{shop}_late-ones`").count() == 1


def test_newer_rows_and_tables_are_seen_when_views_are_made_again(spark, served, shop):
    views(spark, bootstrap_servers=served.address, databases=[shop])
    served.client.table(f"{shop}.orders").append([(3, "Cleo")])
    served.client.create_table(f"{shop}.returns", {"id": "BIGINT"})

    made = views(spark, bootstrap_servers=served.address, databases=[shop])

    assert f"hw_{shop}_returns" in made
    assert spark.sql(f"SELECT count(*) AS n FROM hw_{shop}_orders").first().n == 3


def test_views_of_one_name_are_refused(spark, served, shop):
    served.client.create_database(f"{shop}_old")
    served.client.create_table(f"{shop}_old.orders", {"id": "BIGINT"})
    served.client.create_table(f"{shop}.old_orders", {"id": "BIGINT"})

    with pytest.raises(ConflictError, match="databases="):
        views(spark, bootstrap_servers=served.address, databases=[shop, f"{shop}_old"])


def test_a_view_may_go_without_the_first_part_of_its_name():
    assert view_name("", "shop.orders") == "shop_orders"
    assert view_name("hw", "shop.orders") == "hw_shop_orders"
