"""A whole storage with its clients, tierers and lake in one event loop, driven by a seed.

Read it in this order: `run` tells the story of a run, `plan` what the seed decides beforehand,
`world` what there is. `loop` (with `threads`) says what happens next, `network`, `disk`, `machine`
and `lake` are what can break, `faults` breaks it, `actors` use it, `checking` judges it.
`planted` holds bugs that must be found, `seeds` those that found something.
"""
