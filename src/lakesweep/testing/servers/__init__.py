"""Real servers for tests, each on a free loopback port with a folder of its own, stopped by its process id.

with MinIOServer() as minio, RealLakeFS(minio) as lakefs:
    minio.make_bucket("lake")
    ...
"""

from lakesweep.testing.servers.azurite import AzuriteServer
from lakesweep.testing.servers.fake_gcs import FakeGcsServer
from lakesweep.testing.servers.lakefs import RealLakeFS
from lakesweep.testing.servers.mariadb import MariaDBServer
from lakesweep.testing.servers.minio import MinIOServer
from lakesweep.testing.servers.nessie import NessieServer
from lakesweep.testing.servers.postgres import PostgresServer
from lakesweep.testing.servers.process import ServerError, ServerProcess, free_port
from lakesweep.testing.servers.spark_cluster import SparkConnect, SparkMaster, SparkWorker
from lakesweep.testing.servers.spark_writer import SparkIcebergWriter

__all__ = [
    "AzuriteServer",
    "FakeGcsServer",
    "MariaDBServer",
    "MinIOServer",
    "NessieServer",
    "PostgresServer",
    "RealLakeFS",
    "ServerError",
    "ServerProcess",
    "SparkConnect",
    "SparkIcebergWriter",
    "SparkMaster",
    "SparkWorker",
    "free_port",
]
