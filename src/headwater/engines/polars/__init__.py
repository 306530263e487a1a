"""Tables as lazy frames of Polars."""
