"""The union read against one oracle: a naive fold of everything that was ever written."""
