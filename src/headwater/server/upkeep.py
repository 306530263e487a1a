"""What a server does by itself: retention, automatic partitions, checking old data."""

import asyncio

from headwater.config.auto_partition import partitions_to_create, partitions_to_drop
from headwater.config.table_options import TableOptions
from headwater.errors import BucketMissingError, HeadwaterError
from headwater.model.bucket import TableBucket
from headwater.model.path import PARTITION_SEPARATOR
from headwater.runtime.events import Events
from headwater.runtime.tasks import Tasks, repeat
from headwater.server.catalog.values import TableInfo
from headwater.server.context import Services
from headwater.server.listener import Listener
from headwater.tablet.log_tablet import LogTablet

_events = Events("upkeep")
SCRUB_BYTES = 64 * 1024 * 1024
SCRUB_INTERVAL_S = 1.0
