"""Real servers for tests, each on a free loopback port with a folder of its own, stopped by its process id.

with MinIOServer() as minio, RealLakeFS(minio) as lakefs:
    minio.make_bucket("lake")
    ...
"""

from lakesweep_testing.servers.azurite import AzuriteServer
from lakesweep_testing.servers.fake_gcs import FakeGcsServer
from lakesweep_testing.servers.lakefs import RealLakeFS
from lakesweep_testing.servers.mariadb import MariaDBServer
from lakesweep_testing.servers.minio import MinIOServer
from lakesweep_testing.servers.nessie import NessieServer
from lakesweep_testing.servers.postgres import PostgresServer
from lakesweep_testing.servers.process import ServerError, ServerProcess, free_port
from lakesweep_testing.servers.spark_cluster import SparkConnect, SparkMaster, SparkWorker
from lakesweep_testing.servers.spark_writer import SparkIcebergWriter

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
