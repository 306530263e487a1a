"""Tables in DataFusion: native plans, a table function and a catalog."""
