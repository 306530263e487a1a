"""The whole storage inside the process of its user."""
