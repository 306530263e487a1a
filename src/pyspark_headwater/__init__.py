"""Loaded by a helper process of Spark, which imports all packages whose names begin like this one.

It looks for formats, and there is none here: a session gets ours from `headwater.spark`. But with
this it is as quiet as the other helpers when Spark hangs up early; see `headwater.engines.spark`.
"""

import headwater.engines.spark  # noqa: F401 - for what importing it does
