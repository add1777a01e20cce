"""The properties of Iceberg's FileIOs and of Hadoop's connectors, sorted by what they mean here.

Patterns are regular expressions that match a whole name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lakesweep.settings.spark_properties import STORAGE_OPTION_OF

__all__ = ["HADOOP", "HADOOP_CREDENTIAL_CHAINS", "ICEBERG", "ICEBERG_FILE_IOS", "KnownKeys"]


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """All that is known of the properties of one flag."""

    flag: str
    options: Mapping[str, str]  # property → our storage option; of two, the later wins
    read_apart: tuple[str, ...]  # patterns: known, with a reader of their own
    without_effect: tuple[str, ...]  # patterns: they change nothing that is read or deleted here
    same_here: Mapping[str, tuple[str, ...]]  # allowed only with a value that is true here anyway
    refused: Mapping[str, str]  # pattern → why it can't be honoured

    def is_known(self, name: str) -> bool:
        """Whether a property of that name may be given."""
        patterns = (*self.read_apart, *self.without_effect)
        return name in self.options or any(re.fullmatch(pattern, name) for pattern in patterns)

    def names(self) -> list[str]:
        """The names that a misspelt one may have been meant for."""
        patterns = (*self.read_apart, *self.without_effect)
        plain = [p.replace("\\", "") for p in patterns if re.fullmatch(r"(?:[\w-]|\\\.)+", p)]
        return [*self.options, *self.same_here, *plain]


_ICEBERG_OPTIONS = {
    "s3.access-key-id": "s3_access_key_id",
    "s3.secret-access-key": "s3_secret_access_key",
    "s3.session-token": "s3_session_token",
    "s3.endpoint": "s3_endpoint",
    "s3.path-style-access": "s3_path_style",
    "aws.region": "s3_region",
    "s3.region": "s3_region",
    "client.region": "s3_region",
    "gcs.oauth2.token": "gcs_token",
    # As pyiceberg spells them.
    "adls.account-key": "azure_account_key",
    "adls.sas-token": "azure_sas_token",
    "adls.tenant-id": "azure_tenant_id",
    "adls.client-id": "azure_client_id",
    "adls.client-secret": "azure_client_secret",
}

# Ours takes the place of all of these.
ICEBERG_FILE_IOS = ("S3FileIO", "GCSFileIO", "ADLSFileIO", "HadoopFileIO", "ResolvingFileIO")

_ICEBERG_READ_APART = (
    r"io-impl",
    r"s3\.delete-enabled",
    r"gcs\.service\.host",
    r"gcs\.no-auth",
    r"adls\.auth\.shared-key\.account\.name",
    r"adls\.auth\.shared-key\.account\.key",
    r"adls\.sas-token\..+",
    r"adls\.connection-string\..+",
    r"client\.assume-role\.(?:arn|region|external-id|session-name|timeout-sec)",
)

# They tune Iceberg's Java clients, or say how *new* files are written.
_ICEBERG_WITHOUT_EFFECT = (
    r"s3\.delete\.batch-size",
    r"s3\.delete\.num-threads",
    r"s3\.(?:multipart|retry|crt|analytics-accelerator|write)\..+",
    r"s3\.crt-enabled",
    r"s3\.staging-dir",
    r"s3\.acl",
    r"s3\.checksum-enabled",
    r"s3\.chunked-encoding-enabled",
    r"s3\.preload-client-enabled",
    r"s3\.cross-region-access-enabled",
    r"s3\.use-arn-region-enabled",
    r"s3\.acceleration-enabled",
    r"s3\.dualstack-enabled",
    r"s3\.session-token-expires-at-ms",
    r"s3\.directory-bucket\..+",
    r"s3\.connect-timeout",
    r"s3\.request-timeout",
    r"http-client\.(?:type|urlconnection\..+|apache\..+)",
    r"gcs\.project-id",
    r"gcs\.oauth2\.token-expires-at",
    r"gcs\.client-lib-token",
    r"gcs\.channel\..+",
    r"gcs\.delete\.batch-size",
    r"gcs\.analytics-core\..+",
    r"adls\.account-name",
    r"adls\.(?:read|write)\.block-size-bytes",
    r"adls\.sas-token-expires-at-ms\..+",
    r"io\.manifest\.cache.*",
)

_ICEBERG_SAME_HERE = {
    "s3.remote-signing-enabled": ("false",),
    "s3.access-grants.enabled": ("false",),
    "s3.sse.type": ("none", "s3", "kms", "dsse-kms"),
    "client.refresh-credentials-enabled": ("false",),
    "client.factory": ("org.apache.iceberg.aws.assumeroleawsclientfactory",),
}

_USE_VARIABLES = "give a key and its secret, or the store's own variables and files"

_ICEBERG_REFUSED = {
    r"s3\.delete\.tags\..+": "lakesweep deletes files or leaves them alone, and tags none",
    r"s3\.access-points\..+": "access points are not supported; name the bucket itself",
    r"s3\.sse\.(?:key|md5)": "keys of the client's own are not supported",
    r"s3\.(?:client-factory-impl|signer\..+)": f"Java classes can't be loaded; {_USE_VARIABLES}",
    r"client\.credentials-provider(?:\..+)?": f"Java classes can't be loaded; {_USE_VARIABLES}",
    r"client\.assume-role\.tags\..+": "a role's session is not tagged here; leave the tags out",
    r"(?:client|gcs\.oauth2|adls)\.refresh-credentials-endpoint": f"credentials are not fetched; {_USE_VARIABLES}",
    r"http-client\.proxy-endpoint": "set HTTPS_PROXY instead",
    r"gcp\.impersonate\..+": "set GOOGLE_APPLICATION_CREDENTIALS to a file that says so",
    r"gcs\.(?:en|de)cryption-key": "keys of the client's own are not supported",
    r"gcs\.user-project": "billing another project is not supported",
    r"adls\.token(?:-.+)?": f"bare tokens are not supported; {_USE_VARIABLES}",
}

ICEBERG = KnownKeys(
    "--iceberg",
    _ICEBERG_OPTIONS,
    _ICEBERG_READ_APART,
    _ICEBERG_WITHOUT_EFFECT,
    _ICEBERG_SAME_HERE,
    _ICEBERG_REFUSED,
)

_HADOOP_OPTIONS = {
    "fs.gs.auth.service.account.json.keyfile": "gcs_service_account_key_file",
    **STORAGE_OPTION_OF,
}

# The ends of the class names that stand for "the keys given here" or "AWS's own chain".
HADOOP_CREDENTIAL_CHAINS = (
    "SimpleAWSCredentialsProvider",
    "TemporaryAWSCredentialsProvider",
    "EnvironmentVariableCredentialsProvider",
    "DefaultAWSCredentialsProviderChain",
    "DefaultCredentialsProvider",
    "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "WebIdentityTokenCredentialsProvider",
    "WebIdentityTokenFileCredentialsProvider",
    "ProfileCredentialsProvider",
    "ContainerCredentialsProvider",
)

_HADOOP_READ_APART = (
    r"fs\.s3a\.connection\.ssl\.enabled",
    r"fs\.s3a\.aws\.credentials\.provider",
    r"fs\.azure\.account\.key\..+",
    r"fs\.azure\.sas\..+",
    r"fs\.azure\.account\.oauth2\.client\.(?:id|secret|endpoint)(?:\..+)?",
)

_HADOOP_WITHOUT_EFFECT = (
    r"fs\.(?:s3|s3a|s3n|gs|abfs|abfss|azure|wasb|wasbs|file)\.impl(?:\.disable\.cache)?",
    r"fs\.AbstractFileSystem\..+\.impl",
    r"fs\.s3a\.(?:connection|threads|retry|multipart|fast\.upload|socket|committer|change\.detection)\..+",
    r"fs\.s3a\.(?:experimental|directory|input|prefetch|vectored|performance|audit|optimized)\..+",
    r"fs\.s3a\.(?:attempts\.maximum|paging\.maximum|max\.total\.tasks|block\.size|buffer\.dir|list\.version)",
    r"fs\.s3a\.(?:readahead\.range|bulk\.delete\.page\.size|multiobjectdelete\.enable|fast\.upload|etag\..+)",
    r"fs\.s3a\.(?:create\..+|ssl\.channel\.mode|executor\.capacity|user\.agent\.prefix|downgrade\.syncable\..+)",
    r"fs\.azure\.account\.auth\.type(?:\..+)?",
    r"fs\.azure\.account\.oauth\.provider\.type(?:\..+)?",
    r"fs\.azure\.storage\.emulator\.account\.name",
    r"fs\.azure\.(?:io|read|write|enable|buffered)\..+",
    r"fs\.gs\.(?:project\.id|implicit\.dir\..+|inputstream\..+|outputstream\..+|batch\..+|block\.size)",
    r"(?:google\.cloud|fs\.gs)\.auth\.service\.account\.enable",
)

_HADOOP_SAME_HERE = {
    "fs.gs.auth.type": (
        "service_account_json_keyfile",
        "application_default",
        "compute_engine",
    ),
}

_HADOOP_REFUSED = {
    r"fs\.s3a\.bucket\..+": "of one bucket only its keys, session token, endpoint, region, path style and SSL can be given",
    r"fs\.s3a\.(?:encryption|server-side-encryption).*": "keys of the client's own are not supported",
    r"fs\.s3a\.(?:assumed\.role|delegation|security).*": f"not supported; {_USE_VARIABLES}",
    r"fs\.s3a\.proxy\..+": "set HTTPS_PROXY instead",
    r"fs\.gs\.auth\.(?:client|refresh)\..+": "user credentials are not supported; give a key file",
    r"(?:dfs|fs\.hdfs|hadoop\.security)\..+": "HDFS is not supported",
}

HADOOP = KnownKeys(
    "--hadoop",
    _HADOOP_OPTIONS,
    _HADOOP_READ_APART,
    _HADOOP_WITHOUT_EFFECT,
    _HADOOP_SAME_HERE,
    _HADOOP_REFUSED,
)
