"""Reading lake and log as one table: the position, the plan, the merge and the rows."""
