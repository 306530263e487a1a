"""Commands of an operator who decides who may do what, and how much."""
