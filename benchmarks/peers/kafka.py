"""Apache Kafka: one broker that is its own controller, with librdkafka's client."""

import asyncio
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path

from scripts.fluss_layout import HOST, free_ports
from scripts.fluss_nodes import is_listening
from scripts.java import find_java

from benchmarks.peers.peer import Peer, Server, each_timed
from benchmarks.peers.programs import ensure_jars
from benchmarks.peers.work import messages

VERSION = "4.3.1"
HEAP = "-Xmx1g"  # what its own start script gives it
READY_WITHIN_S = 60.0
POLL_S = 0.02
SEEN_WITHIN_S = 30.0
CONSUMED_AT_ONCE = 10_000


class KafkaServer(Server):
    """Run a broker."""

    name = "Apache Kafka"
    version = VERSION

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._jars = ensure_jars("org.apache.kafka", "kafka_2.13", VERSION)
        self._process: subprocess.Popen[bytes] | None = None
        self._port, self._controller = free_ports(2)

    @property
    def address(self) -> str:
        return f"{HOST}:{self._port}"

    @property
    def pids(self) -> Sequence[int]:
        assert self._process is not None
        return [self._process.pid]

    def prepare(self) -> None:
        identity = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        subprocess.run(
            self._java(
                "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._settings())
            ),
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def start(self) -> None:
        with (self.directory / "kafka.log").open("wb") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._settings())), stdout=log, stderr=log
            )
        deadline = time.monotonic() + READY_WITHIN_S
        while not is_listening(HOST, self._port):
            assert self._process.poll() is None, f"Kafka ended; see {self.directory}/kafka.log"
            assert time.monotonic() < deadline, "Kafka does not listen"
            time.sleep(POLL_S)

    def stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        return [find_java(), HEAP, "-cp", f"{self._jars}/*", main_class, *arguments]

    def _settings(self) -> Path:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{self._controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{HOST}:{self._controller}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.directory / "data"),
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
        file = self.directory / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return file


class Kafka(Peer):
    """Work through `confluent-kafka`: one message for each row."""

    name = "Apache Kafka"
    client = "confluent-kafka"
    note = "one message of 96 bytes for each row, packed before the clock runs, never unpacked"

    async def open(self) -> None:
        import confluent_kafka  # noqa: PLC0415 - installed for this run only
        import confluent_kafka.admin  # noqa: PLC0415

        self._kafka = confluent_kafka
        self._admin = confluent_kafka.admin.AdminClient(self._config())

    def _config(self, **more: object) -> dict[str, object]:
        return {"bootstrap.servers": self.server.address, "log_level": 0, **more}

    async def new_log(self, name: str, *, buckets: int) -> None:
        topic = self._kafka.admin.NewTopic(name, num_partitions=buckets, replication_factor=1)
        for made in self._admin.create_topics([topic]).values():
            made.result()

    def _producer(self, **more: object):  # noqa: ANN202 - untyped
        return self._kafka.Producer(
            self._config(acks=1, **{"queue.buffering.max.messages": 2_000_000}, **more)
        )

    async def append(self, log: str, rows: int) -> None:
        producer = self._producer()
        for message in messages(rows):
            producer.produce(log, message)
        assert producer.flush() == 0

    async def append_each(self, log: str, count: int) -> list[float]:
        producer, rows = self._producer(**{"linger.ms": 0}), messages(10_000)

        async def append(number: int) -> None:
            producer.produce(log, rows[number])
            producer.flush()

        await append(0)
        return await each_timed(append, count)

    async def see_each(self, log: str, count: int) -> list[float]:
        producer, rows = self._producer(**{"linger.ms": 0}), messages(10_000)
        consumer = self._consumer(log, at=self._kafka.OFFSET_END)
        producer.produce(log, rows[0])
        producer.flush()
        consumer.poll(1.0)

        async def see(number: int) -> None:
            seeing = asyncio.create_task(asyncio.to_thread(consumer.poll, SEEN_WITHIN_S))
            await asyncio.sleep(0)
            producer.produce(log, rows[number])
            producer.poll(0)
            assert await seeing is not None

        taken = await each_timed(see, count)
        producer.flush()
        consumer.close()
        return taken

    async def scan(self, log: str, rows: int) -> int:
        consumer, seen = self._consumer(log, at=self._kafka.OFFSET_BEGINNING), 0
        while seen < rows:
            found = consumer.consume(CONSUMED_AT_ONCE, timeout=SEEN_WITHIN_S)
            assert found, f"{seen} of {rows} messages came"
            seen += len(found)
        consumer.close()
        return seen

    def _consumer(self, log: str, *, at: int):  # noqa: ANN202 - untyped
        settings = {"group.id": "peers", "enable.auto.commit": False}
        consumer = self._kafka.Consumer(self._config(**settings))
        topic = consumer.list_topics(log).topics[log]
        consumer.assign([self._kafka.TopicPartition(log, each, at) for each in topic.partitions])
        return consumer
