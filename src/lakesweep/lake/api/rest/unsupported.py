"""What lakeFS's API has and this lake has not: each call answers 501 and says its name, never a wrong 200."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from lakesweep.lake.api.replies import error_reply

__all__ = ["UNSUPPORTED_OPERATIONS", "Operation", "router"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of lakeFS's OpenAPI document."""

    method: str
    path: str
    name: str


_TABLE = """
GET /auth/capabilities getAuthCapabilities
POST /auth/external/principal/login externalPrincipalLogin
GET /auth/external/principals getExternalPrincipal
GET /auth/groups listGroups
POST /auth/groups createGroup
DELETE /auth/groups/{groupId} deleteGroup
GET /auth/groups/{groupId} getGroup
GET /auth/groups/{groupId}/acl getGroupACL
POST /auth/groups/{groupId}/acl setGroupACL
GET /auth/groups/{groupId}/members listGroupMembers
DELETE /auth/groups/{groupId}/members/{userId} deleteGroupMembership
PUT /auth/groups/{groupId}/members/{userId} addGroupMembership
GET /auth/groups/{groupId}/policies listGroupPolicies
DELETE /auth/groups/{groupId}/policies/{policyId} detachPolicyFromGroup
PUT /auth/groups/{groupId}/policies/{policyId} attachPolicyToGroup
GET /auth/policies listPolicies
POST /auth/policies createPolicy
DELETE /auth/policies/{policyId} deletePolicy
GET /auth/policies/{policyId} getPolicy
PUT /auth/policies/{policyId} updatePolicy
GET /auth/users listUsers
POST /auth/users createUser
DELETE /auth/users/{userId} deleteUser
GET /auth/users/{userId} getUser
GET /auth/users/{userId}/credentials listUserCredentials
POST /auth/users/{userId}/credentials createCredentials
DELETE /auth/users/{userId}/credentials/{accessKeyId} deleteCredentials
GET /auth/users/{userId}/credentials/{accessKeyId} getCredentials
DELETE /auth/users/{userId}/external/principals deleteUserExternalPrincipal
POST /auth/users/{userId}/external/principals createUserExternalPrincipal
GET /auth/users/{userId}/external/principals/ls listUserExternalPrincipals
GET /auth/users/{userId}/groups listUserGroups
GET /auth/users/{userId}/policies listUserPolicies
DELETE /auth/users/{userId}/policies/{policyId} detachPolicyFromUser
PUT /auth/users/{userId}/policies/{policyId} attachPolicyToUser
GET /oidc/callback oauthCallback
GET /repositories/{repository}/actions/runs listRepositoryRuns
GET /repositories/{repository}/actions/runs/{run_id} getRun
GET /repositories/{repository}/actions/runs/{run_id}/hooks listRunHooks
GET /repositories/{repository}/actions/runs/{run_id}/hooks/{hook_run_id}/output getRunHookOutput
DELETE /repositories/{repository}/branch_protection internalDeleteBranchProtectionRule
GET /repositories/{repository}/branch_protection internalGetBranchProtectionRules
POST /repositories/{repository}/branch_protection internalCreateBranchProtectionRule
GET /repositories/{repository}/branch_protection/set_allowed createBranchProtectionRulePreflight
PUT /repositories/{repository}/branches/{branch}/staging/pmpu/{uploadId}/parts/{partNumber}/copy uploadPartCopy
DELETE /repositories/{repository}/metadata deleteRepositoryMetadata
POST /repositories/{repository}/metadata setRepositoryMetadata
GET /repositories/{repository}/pulls listPullRequests
POST /repositories/{repository}/pulls createPullRequest
GET /repositories/{repository}/pulls/{pull_request} getPullRequest
PATCH /repositories/{repository}/pulls/{pull_request} updatePullRequest
PUT /repositories/{repository}/pulls/{pull_request}/merge mergePullRequest
POST /repositories/{repository}/refs/{branch}/symlink createSymlinkFile
GET /repositories/{repository}/settings/branch_protection getBranchProtectionRules
PUT /repositories/{repository}/settings/branch_protection setBranchProtectionRules
POST /setup_comm_prefs setupCommPrefs
POST /sts/login stsLogin
GET /usage-report/summary getUsageReportSummary
"""


def _parse_table() -> Iterator[Operation]:
    for line in _TABLE.strip().splitlines():
        method, path, name = line.split()
        yield Operation(method, path, name)


UNSUPPORTED_OPERATIONS = tuple(_parse_table())


def _refuse(operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    async def refuse(_request: Request) -> Response:
        return error_reply(
            501,
            f"The embedded lake does not support the operation {operation.name}; nothing was done.",
        )

    return refuse


router = APIRouter()
for _operation in UNSUPPORTED_OPERATIONS:
    router.add_api_route(_operation.path, _refuse(_operation), methods=[_operation.method])
